"""TTGIR layouts in words and numbers: which thread of a block holds which element of a tile.

A layout is evaluated as in Triton's own documentation of its attributes: every distributed layout
is a map from (register, lane, warp) to coordinates. Must not know how it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ttools.core.reports.report import counted

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A layout that TTGIR names.

    Attributes:
        name: `#blocked1`.
        kind: `blocked`, `slice`, `nvidia_mma`, `linear`, ….
        text: its parameters as written.
    """

    name: str
    kind: str
    text: str

    def numbers(self, field: str) -> list[int]:
        """A list of numbers among the parameters; empty if there is none."""
        found = re.search(rf"\b{field} = \[([\d, ]*)\]", self.text)
        return [int(n) for n in found[1].split(",")] if found and found[1].strip() else []

    def bases(self, field: str) -> list[Coordinates]:
        """The basis vectors of one input of a linear layout."""
        found = re.search(rf"\b{field} = \[((?:\[[-\d, ]*\],? ?)*)\]", self.text)
        rows = re.findall(r"\[([-\d, ]*)\]", found[1]) if found else []
        return [tuple(int(n) for n in row.split(",")) for row in rows]


def layouts_of(ttgir: str) -> list[Layout]:
    """The layouts that a module names, in its order; shared and distributed ones."""
    found = re.findall(r"^(#\w+) = #(?:ttg|ttng|amdg)\.(\w+)(?:<\{(.*)\}>)?$", ttgir, re.MULTILINE)
    return [Layout(name, kind, text) for name, kind, text in found]


def shapes_of(ttgir: str, layout: Layout) -> list[tuple[int, ...]]:
    """Shapes of the tensors that have a layout, the largest first."""
    uses = re.findall(rf"tensor<([\dx]+)x[^,<>]+(?:<[^<>]*>)?, {re.escape(layout.name)}>", ttgir)
    shapes = {tuple(int(n) for n in shape.split("x")) for shape in uses}
    return sorted(shapes, key=prod, reverse=True)


def holder(layout: Layout, shape: Sequence[int], threads: int) -> Holder | None:
    """Who holds what of a tile; None where the layout is not one of those known here.

    Args:
        layout: of the tile.
        shape: of the tile, as many axes as the layout has.
        threads: of a warp.
    """
    make = _HOLDERS.get(layout.kind)
    return make(layout, tuple(shape), threads) if make else None


@dataclass(frozen=True)
class Holder:
    """The elements of a tile by register, lane and warp.

    Attributes:
        shape: of the tile.
        registers: of a thread; elements that it holds, copies included.
        lanes: of a warp.
        warps: of a block.
        at: the coordinates of the element in a register of a lane of a warp.
    """

    shape: tuple[int, ...]
    registers: int
    lanes: int
    warps: int
    at: Callable[[int, int, int], Coordinates]

    def elements(self, thread: int) -> list[Coordinates]:
        """What a thread of the block holds, by register."""
        warp, lane = divmod(thread, self.lanes)
        return [self.at(register, lane, warp) for register in range(self.registers)]

    def threads_of(self, element: Coordinates) -> list[int]:
        """The threads that hold an element; several where it is replicated."""
        return [
            warp * self.lanes + lane
            for warp, lane in product(range(self.warps), range(self.lanes))
            if any(self.at(r, lane, warp) == element for r in range(self.registers))
        ]

    def contiguous(self) -> tuple[int, int]:
        """The axis along which a thread's elements lie side by side, and how many do."""
        elements = self.elements(0)
        best = (len(self.shape) - 1, 1)
        for axis in range(len(self.shape)):
            run = 1
            while run < len(elements) and elements[run] == _moved(elements[0], axis, run):
                run += 1
            best = max(best, (axis, run), key=lambda pair: pair[1])
        return best


def _moved(element: Coordinates, axis: int, by: int) -> Coordinates:
    return tuple(n + by * (d == axis) for d, n in enumerate(element))


def _delinearised(index: int, extents: Sequence[int], order: Sequence[int]) -> Coordinates:
    """Coordinates of an index that counts along `order[0]` first."""
    found = [0] * len(extents)
    for axis in order:
        index, found[axis] = divmod(index, extents[axis])
    return tuple(found)


def _blocked(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder:
    size, lanes, warps, order = (
        layout.numbers(n) for n in ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
    )
    tile = [s * t * w for s, t, w in zip(size, lanes, warps, strict=True)]
    repeats = [max(1, n // t) for n, t in zip(shape, tile, strict=True)]
    inner = prod(size)

    def at(register: int, lane: int, warp: int) -> Coordinates:
        repeat, within = divmod(register, inner)
        places = zip(
            _delinearised(repeat, repeats, order),
            _delinearised(warp, warps, order),
            _delinearised(lane, lanes, order),
            _delinearised(within, size, order),
            tile,
            size,
            lanes,
            shape,
            strict=True,
        )
        return tuple(
            (again * t + (w * many + part) * s + r) % n
            for again, w, part, r, t, s, many, n in places
        )

    return Holder(shape, inner * prod(repeats), threads, prod(warps), at)


def _linear(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder:
    registers, lanes, warps = (layout.bases(n) for n in ("register", "lane", "warp"))

    def at(register: int, lane: int, warp: int) -> Coordinates:
        found = [0] * len(shape)
        for bases, index in ((registers, register), (lanes, lane), (warps, warp)):
            for bit, basis in enumerate(bases):
                if index >> bit & 1:
                    found = [n ^ b for n, b in zip(found, basis, strict=True)]
        return tuple(found)

    del threads
    return Holder(shape, 1 << len(registers), 1 << len(lanes), 1 << len(warps), at)


def _nvidia_mma(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder | None:
    """Accumulators of mma.sync and wgmma: parts of 16 rows and 8 columns, pairs in a thread."""
    version = re.search(r"versionMajor = (\d)", layout.text)
    warps, instruction = layout.numbers("warpsPerCTA"), layout.numbers("instrShape")
    if not version or version[1] not in "23" or len(shape) != 2 or len(warps) != 2:
        return None
    columns = instruction[1] if version[1] == "3" else 8
    tile = [16 * warps[0], columns * warps[1]]
    repeats = [max(1, n // t) for n, t in zip(shape, tile, strict=True)]
    inner = 4 * (columns // 8)

    def at(register: int, lane: int, warp: int) -> Coordinates:
        repeat, within = divmod(register, inner)
        again = _delinearised(repeat, repeats, (1, 0))
        # Warps of wgmma are counted along rows first, as its groups of four demand.
        where = _delinearised(warp, warps, (0, 1) if version[1] == "3" else (1, 0))
        block, place = divmod(within, 4)
        row = again[0] * tile[0] + where[0] * 16 + lane // 4 + 8 * (place // 2)
        column = again[1] * tile[1] + where[1] * columns + 8 * block + lane % 4 * 2 + place % 2
        return row % shape[0], column % shape[1]

    return Holder(shape, inner * prod(repeats), threads, prod(warps), at)


_HOLDERS: dict[str, Callable[[Layout, tuple[int, ...], int], Holder | None]] = {
    "blocked": _blocked,
    "linear": _linear,
    "nvidia_mma": _nvidia_mma,
}

_WORDS = {
    "blocked": "each thread holds a small block, threads and warps tile the rest",
    "linear": "lanes and registers map to elements bit by bit",
    "nvidia_mma": "accumulators of the tensor cores, spread over threads as those demand",
    "amd_mfma": "accumulators of the matrix cores (MFMA)",
    "amd_wmma": "accumulators of the matrix cores (WMMA)",
    "nvmma_shared": "shared memory, swizzled as wgmma, tcgen05 and the TMA read it",
    "swizzled_shared": "shared memory, rows rotated so that neighbours avoid one bank",
    "padded_shared": "shared memory, padded so that neighbours avoid one bank",
    "amd_rotating_shared": "shared memory, rows rotated so that neighbours avoid one bank",
    "shared_memory": "a memory space, no layout: shared memory of a block",
    "tensor_memory": "a memory space, no layout: tensor memory of Blackwell's tensor cores",
    "tensor_memory_encoding": "tensor memory of Blackwell's tensor cores",
    "shared_linear": "shared memory, offsets mapped to elements bit by bit",
}


def explain(layout: Layout, shapes: Sequence[tuple[int, ...]], threads: int) -> Iterator[str]:
    """What a layout is, then who holds what of the largest tile that has it; a sentence each."""
    yield _WORDS.get(layout.kind, "a layout that ttools does not explain")
    if not shapes:
        return
    held = holder(layout, shapes[0], threads)
    if held is None:
        return
    shape = "x".join(map(str, held.shape))
    axis, run = held.contiguous()
    side_by_side = f", {run} side by side along axis {axis}" if run > 1 else ""
    yield (
        f"of a tile of {shape} each of {held.lanes * held.warps} threads holds "
        f"{counted(held.registers, 'element')}{side_by_side}"
    )
    for thread in (0, 1, held.lanes) if held.warps > 1 else (0, 1):
        yield f"thread {thread} holds {_runs(held.elements(thread))}"


def _runs(elements: Sequence[Coordinates], shown: int = 4) -> str:
    """`[0, 0:8], [16, 0:8], …`: elements in runs along the last axis."""
    runs: list[list[Coordinates]] = []
    for element in elements:
        if runs and element == _moved(runs[-1][-1], len(element) - 1, 1):
            runs[-1].append(element)
        else:
            runs.append([element])
    texts = []
    for run in runs[:shown]:
        last = run[0][-1]
        end = f"{last}:{last + len(run)}" if len(run) > 1 else f"{last}"
        texts.append("[" + ", ".join([*map(str, run[0][:-1]), end]) + "]")
    return ", ".join([*texts, *(["…"] if len(runs) > shown else [])])
