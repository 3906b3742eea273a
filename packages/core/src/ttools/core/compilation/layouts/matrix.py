"""Layouts of matrix instructions: accumulators, and operands of dot products.

The layouts follow the descriptions of mma.sync and wgmma fragments in the PTX ISA, and those of
MFMA and WMMA in AMD's ISA guides. The tests compare them with Triton's own conversion of layouts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ttools.core.compilation.layouts.terms import Holder, Index, Layout, delinearised

#: Maps register and lane to row and column within an instruction's tile.
Part = Callable[[Index, Index], tuple[Any, Any]]


def nvidia_mma(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    """Return the accumulators of mma.sync and wgmma: 16x8 tiles, pairs of columns per thread."""
    version = re.search(r"versionMajor = (\d)", layout.text)
    warps, instruction = layout.numbers("warpsPerCTA"), layout.numbers("instrShape")
    if not version or version[1] not in "23" or len(shape) != 2 or len(warps) != 2:
        return None
    columns = instruction[1] if version[1] == "3" else 8
    tile = [16 * warps[0], columns * warps[1]]
    repeats = [max(1, n // t) for n, t in zip(shape, tile, strict=True)]
    inner = 4 * (columns // 8)

    def at(register: Index, lane: Index, warp: Index) -> tuple[Any, ...]:
        repeat, within = divmod(register, inner)
        again = delinearised(repeat, repeats, (1, 0))
        # Groups of four warps execute wgmma; the groups are numbered along rows first.
        where = delinearised(warp, warps, (0, 1) if version[1] == "3" else (1, 0))
        block, index = divmod(within, 4)
        row = again[0] * tile[0] + where[0] * 16 + lane // 4 + 8 * (index // 2)
        column = again[1] * tile[1] + where[1] * columns + 8 * block + lane % 4 * 2 + index % 2
        return row % shape[0], column % shape[1]

    return Holder(shape, inner * prod(repeats), threads, prod(warps), at)


# ---- AMD


def amd_mfma(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    """Return the accumulators of MFMA: each thread holds groups of four rows of one column."""
    instruction, warps = layout.numbers("instrShape"), layout.numbers("warpsPerCTA")
    rows, columns = instruction[:2]
    if rows != columns or rows not in (16, 32) or len(shape) != 2 or "tilesPerWarp" in layout.text:
        return None
    groups = threads // columns

    def part(register: Index, lane: Index) -> tuple[Any, Any]:
        row = register // 4 * 4 * groups + lane // columns * 4 + register % 4
        return row, lane % columns

    return _tiled(
        shape, (rows, columns), warps, threads, rows * columns // threads,
        _transposed(part) if layout.flag("isTransposed") else part,
    )  # fmt: skip


def amd_wmma(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    """Return the accumulators of WMMA: tiles of 16x16 with eight rows of one column per thread."""
    warps = _wmma_warps(layout)
    if warps is None or len(shape) != 2:
        return None
    alternates = layout.number("version", 0) == 1

    def part(register: Index, lane: Index) -> tuple[Any, Any]:
        row = 2 * register + lane // 16 if alternates else register + 8 * (lane // 16)
        return row, lane % 16

    transposed = layout.flag("isTranspose") or layout.flag("isTransposed")
    return _tiled(shape, (16, 16), warps, threads, 8, _transposed(part) if transposed else part)


def _wmma_warps(layout: Layout) -> list[int] | None:
    """Return the warps along each axis; None if the layout is not a plain grid of warps."""
    warps = layout.numbers("warpsPerCTA")
    if warps or "ctaLayout" not in layout.text:
        return warps or None
    if "register" in layout.text:
        return None
    counts = [1, 1]
    # Triton 3.7 and later write the layout of warps as basis vectors, starting with those along
    # columns. Along each axis, each vector is twice the previous one.
    for row, column in layout.bases("warp"):
        axis = 0 if row else 1
        if (row, column)[axis] != counts[axis] or (axis == 1 and counts[0] > 1) or (row and column):
            return None
        counts[axis] *= 2
    return counts


def _transposed(part: Part) -> Part:
    return lambda register, lane: part(register, lane)[::-1]


def _tiled(
    shape: tuple[int, ...],
    size: tuple[int, int],
    warps: Sequence[int],
    threads: int,
    registers: int,
    part: Part,
    replicated: int | None = None,
) -> Holder:
    """Repeat an instruction's tile over the warps and then over the tensor, columns first."""
    across = [1 if axis == replicated else n for axis, n in enumerate(warps)]
    tile = [n * w for n, w in zip(size, across, strict=True)]
    repeats = [max(1, n // t) for n, t in zip(shape, tile, strict=True)]

    def at(register: Index, lane: Index, warp: Index) -> tuple[Any, ...]:
        repeat, within = divmod(register, registers)
        again = delinearised(repeat, repeats, (1, 0))
        where = delinearised(warp, warps, (1, 0))
        parts = zip(again, tile, where, size, across, part(within, lane), shape, strict=True)
        return tuple(
            (a * t + (w % many) * own + inside) % n for a, t, w, own, many, inside, n in parts
        )

    return Holder(tuple(shape), registers * prod(repeats), threads, prod(warps), at)


# ---- operands of dot products


def dot_operand(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    """Return the distribution of an operand of `tl.dot`, as the matrix instruction expects it."""
    parent = layout.parent
    make = _OPERANDS.get(parent.kind) if parent else None
    if parent is None or make is None or len(shape) != 2:
        return None
    return make(layout, parent, shape, threads)


def _of_mma(layout: Layout, parent: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    """Return operands of mma.sync: each lane holds `kWidth` elements along the inner axis.

    The elements are adjacent.
    """
    first, width = layout.number("opIdx", 0) == 0, layout.number("kWidth", 0)
    warps = parent.numbers("warpsPerCTA")
    if parent.number("versionMajor", 0) != 2 or not width or len(warps) != 2:
        return None
    rows = 2 if first else 1  # number of groups of eight rows or columns per instruction

    def part(register: Index, lane: Index) -> tuple[Any, Any]:
        rest, k = divmod(register, width)
        half, group = divmod(rest, rows)
        return lane // 4 + 8 * group, (lane % 4) * width + k + 4 * width * half

    size = (8 * rows, 8 * width)
    return _operand(shape, size, warps, threads, 2 * rows * width, part, first)


def _of_mfma(layout: Layout, parent: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    instruction, width = parent.numbers("instrShape"), layout.number("kWidth", 0)
    rows = instruction[0]
    if rows != instruction[1] or rows not in (16, 32) or not width or "tilesPerWarp" in parent.text:
        return None

    def part(register: Index, lane: Index) -> tuple[Any, Any]:
        return lane % rows, lane // rows * width + register

    size = (rows, threads // rows * width)
    warps, first = parent.numbers("warpsPerCTA"), layout.number("opIdx", 0) == 0
    return _operand(shape, size, warps, threads, width, part, first)


def _of_wmma(layout: Layout, parent: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    warps, width = _wmma_warps(parent), layout.number("kWidth", 0)
    if warps is None or not width:
        return None
    halves = 1 if parent.number("version", 0) == 1 else 2

    def part(register: Index, lane: Index) -> tuple[Any, Any]:
        return lane % 16, lane // 16 % halves * width + register

    first = layout.number("opIdx", 0) == 0
    return _operand(shape, (16, halves * width), warps, threads, width, part, first)


def _operand(
    shape: tuple[int, ...],
    size: tuple[int, int],
    warps: Sequence[int],
    threads: int,
    registers: int,
    part: Part,
    first: bool,
) -> Holder:
    """Return an operand, given its outer and inner axis; warps along the inner axis hold copies."""
    if first:
        return _tiled(shape, size, warps, threads, registers, part, replicated=1)
    transposed = _transposed(part)
    return _tiled(shape, size[::-1], warps, threads, registers, transposed, replicated=0)


_OPERANDS: dict[str, Callable[[Layout, Layout, tuple[int, ...], int], Holder | None]] = {
    "nvidia_mma": _of_mma,
    "amd_mfma": _of_mfma,
    "amd_wmma": _of_wmma,
}
