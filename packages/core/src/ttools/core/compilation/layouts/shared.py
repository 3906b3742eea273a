"""Layouts of shared memory: the offset of each element of a tile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod

from ttools.core.compilation.layouts.terms import Coordinates, Layout

Offset = Callable[[Coordinates], int]
_ROWS, _GROUPS = (0, 1, 2, 8), 4


def offset(layout: Layout, shape: tuple[int, ...]) -> Offset | None:
    """Return the map from a tile's element to its offset in elements; None if it is unknown."""
    make = _OFFSETS.get(layout.kind)
    return make(layout, shape) if make and len(shape) == 2 else None


def explain(layout: Layout, shape: tuple[int, ...]) -> Iterator[str]:
    """Yield sentences that describe the offsets in some rows; none if the layout is unknown."""
    offset_of = offset(layout, shape)
    if offset_of is None:
        return
    yield f"offsets of elements in shared memory, for a tile of {shape[0]}x{shape[1]}:"
    for row in (n for n in _ROWS if n < shape[0]):
        yield f"row {row}: {_runs_text(offset_of, row, shape[1])}"


def _runs_text(offset_of: Offset, row: int, columns: int) -> str:
    """Format each run of columns with its first element's offset: `0:8 at 72, 8:16 at 64`."""
    runs: list[tuple[int, int]] = []
    for column in range(columns):
        here = offset_of((row, column))
        if not runs or here != offset_of((row, column - 1)) + 1:
            runs.append((column, here))
    ends = [*(start for start, _ in runs[1:]), columns]
    texts = [
        f"columns {start}:{end} at {where}" for (start, where), end in zip(runs, ends, strict=True)
    ]
    return ", ".join([*texts[:_GROUPS], *(["…"] if len(texts) > _GROUPS else [])])


def _rotated(layout: Layout, shape: tuple[int, ...]) -> Offset | None:
    """Return the swizzled layout: indices of groups of `vec` elements are XORed with the row."""
    vec, phases, many = (layout.number(n, 0) for n in ("vec", "perPhase", "maxPhase"))
    order = layout.numbers("order")
    if not (vec and phases and many) or len(order) != 2:
        return None

    def at(element: Coordinates) -> int:
        inner, outer = element[order[0]], element[order[1]]
        group = (inner // vec ^ outer // phases % many) % max(1, shape[order[0]] // vec)
        return outer * shape[order[0]] + group * vec + inner % vec

    return at


def _for_wgmma(layout: Layout, shape: tuple[int, ...]) -> Offset | None:
    """Return the layout for wgmma: 16-byte groups in rows of the swizzle width, XORed by row."""
    width, bits = layout.number("swizzlingByteWidth", 0), layout.number("elementBitWidth", 0)
    if width not in (32, 64, 128) or bits not in (8, 16, 32) or layout.flag("fp4Padded"):
        return None
    inner, outer = (0, 1) if layout.flag("transposed") else (1, 0)
    vec, columns = 128 // bits, 8 * width // bits
    if shape[inner] % columns:
        return None

    def at(element: Coordinates) -> int:
        block, within = divmod(element[inner], columns)
        row = element[outer]
        group = within // vec ^ row * width // 128 % (width // 16)
        return (block * shape[outer] + row) * columns + group * vec + within % vec

    return at


def _padded(layout: Layout, shape: tuple[int, ...]) -> Offset | None:
    """Return the row-major layout with gaps at regular intervals."""
    gaps = [(int(n), int(gap)) for n, gap in re.findall(r"(\d+):\+(\d+)", layout.text)]
    order = layout.numbers("order")
    if not gaps or len(order) != 2 or prod(shape) == 0:
        return None

    def at(element: Coordinates) -> int:
        plain = element[order[1]] * shape[order[0]] + element[order[0]]
        return plain + sum(plain // n * gap for n, gap in gaps)

    return at


_OFFSETS: dict[str, Callable[[Layout, tuple[int, ...]], Offset | None]] = {
    "swizzled_shared": _rotated,
    "nvmma_shared": _for_wgmma,
    "padded_shared": _padded,
}
