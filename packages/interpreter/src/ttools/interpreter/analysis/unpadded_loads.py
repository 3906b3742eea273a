"""Finds block pointer loads that check bounds without padding, so that lanes are undefined.

Triton rewrites block pointers to plain pointers, after which such a load looks like any load with a
mask. Therefore the positions of these loads are found in the module before it is rewritten, and
kept in a comment after the final module.
"""

from __future__ import annotations

from ttools.interpreter.analysis.positions import Position, line_positions
from ttools.interpreter.analysis.ttir_comments import comment, with_comment

_LOAD = r"= tt\.load .*\{(?=[^}]*\bboundaryCheck = array<i32: \d)(?![^}]*\bpadding = )"
_COMMENT = "unpadded loads"


def with_unpadded_loads(final: str, written: str) -> str:
    """Return the module followed by a comment with the positions of its unpadded loads.

    Args:
        final: The module after Triton's passes.
        written: The module as the front end writes it.
    """
    loads = line_positions(written, _LOAD) if "boundaryCheck" in written else ()
    return with_comment(final, _COMMENT, sorted(loads))


def unpadded_loads(ttir: str) -> frozenset[Position]:
    """Return the positions in the comment that `with_unpadded_loads` appended."""
    return frozenset((file, line, column) for file, line, column in comment(ttir, _COMMENT))
