"""Loads through block pointers that leave lanes undefined: checked bounds without padding.

Triton rewrites block pointers to plain ones, after which such a load looks like one with a mask. So
their positions are found before, and kept in a comment after the module.
"""

from __future__ import annotations

from ttools.interpreter.analysis.positions import Position, line_positions
from ttools.interpreter.analysis.ttir_comments import comment, with_comment

_LOAD = r"= tt\.load .*\{(?=[^}]*\bboundaryCheck = array<i32: \d)(?![^}]*\bpadding = )"
_COMMENT = "unpadded loads"


def with_unpadded_loads(final: str, written: str) -> str:
    """Return the module with the positions of such loads in a comment after it.

    Args:
        final: The module after Triton's passes.
        written: The module as the front end writes it.
    """
    loads = line_positions(written, _LOAD) if "boundaryCheck" in written else ()
    return with_comment(final, _COMMENT, sorted(loads))


def unpadded_loads(ttir: str) -> frozenset[Position]:
    """Return the loads in such a comment."""
    return frozenset((file, line, column) for file, line, column in comment(ttir, _COMMENT))
