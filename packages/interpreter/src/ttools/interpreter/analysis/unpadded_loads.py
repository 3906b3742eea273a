"""Loads through block pointers that leave lanes undefined: checked bounds and no padding.

Triton rewrites block pointers to plain ones, after which such a load looks like one with a
mask. So where they are is looked up before. Must not know who asks.
"""

from __future__ import annotations

from ttools.interpreter.analysis.comments import comment, with_comment
from ttools.interpreter.analysis.positions import Position, line_positions

_LOAD = r"= tt\.load .*\{(?=[^}]*\bboundaryCheck = array<i32: \d)(?![^}]*\bpadding = )"
_COMMENT = "unpadded loads"


def with_unpadded_loads(final: str, written: str) -> str:
    """The module with those loads in a comment behind it.

    Args:
        final: the module after Triton's passes.
        written: the module as the front end writes it.
    """
    found = line_positions(written, _LOAD) if "boundaryCheck" in written else ()
    return with_comment(final, _COMMENT, sorted(found))


def unpadded_loads(ttir: str) -> frozenset[Position]:
    """The loads in such a comment; none if there is none."""
    return frozenset((file, line, column) for file, line, column in comment(ttir, _COMMENT))
