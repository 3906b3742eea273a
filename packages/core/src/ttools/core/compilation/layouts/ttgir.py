"""Reads the layouts of a TTGIR module, evaluates them and explains them.

Every distributed layout is a map from (register, lane, warp) to coordinates, as defined in Triton's
documentation of its layout attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ttools.core.compilation.layouts import shared
from ttools.core.compilation.layouts.matrix import amd_mfma, amd_wmma, dot_operand, nvidia_mma
from ttools.core.compilation.layouts.terms import (
    Coordinates,
    Holder,
    Index,
    Layout,
    delinearised,
    moved,
)
from ttools.core.reports.report import counted

__all__ = ["Holder", "Layout", "explain", "holder", "layouts_of", "shapes_of"]


def layouts_of(ttgir: str) -> list[Layout]:
    """Return the shared and distributed layouts that a module names, in order."""
    definitions = re.findall(
        r"^(#\w+) = #(?:ttg|ttng|amdg)\.(\w+)(?:<(.*)>)?$", ttgir, re.MULTILINE
    )
    named = {
        name: Layout(name, kind, text[1:-1] if text.startswith("{") else text)
        for name, kind, text in definitions
    }
    operands = dict.fromkeys(re.findall(r"#ttg\.dot_op<\{[^{}]*\}>", ttgir))
    return [*named.values(), *(_operand(text, named) for text in operands)]


def _operand(text: str, named: Mapping[str, Layout]) -> Layout:
    """Return the layout of a dot product's operand, which has no name of its own."""
    parent = re.search(r"parent = (#\w+)", text)
    inner = text.partition("{")[2].rpartition("}")[0]
    return Layout(text, "dot_op", inner, named.get(parent[1]) if parent else None)


def shapes_of(ttgir: str, layout: Layout) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors that have this layout, the largest first."""
    name = re.escape(layout.name)
    uses = re.findall(rf"tensor<([\dx]+)x[^,<>]+(?:<[^<>]*>)?, {name}>", ttgir)
    shapes = {tuple(int(n) for n in shape.split("x")) for shape in uses}
    # In shared memory, the last two axes are those of the tile; the earlier axes count buffers.
    shared_shapes = re.findall(rf"memdesc<([\dx]+)x[^,<>]+(?:<[^<>]*>)?, {name}, #", ttgir)
    shapes |= {tuple(int(n) for n in shape.split("x"))[-2:] for shape in shared_shapes}
    return sorted(shapes, key=prod, reverse=True)


def holder(layout: Layout, shape: Sequence[int], threads: int) -> Holder | None:
    """Return the distribution of a tile's elements over threads; None for unknown layouts.

    Args:
        shape: Extents of the tile, one per axis of the layout.
        threads: Number of threads per warp.
    """
    make = _HOLDERS.get(layout.kind)
    return make(layout, tuple(shape), threads) if make else None


def _blocked(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder:
    size, lanes, warps, order = (
        layout.numbers(n) for n in ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
    )
    tile = [s * t * w for s, t, w in zip(size, lanes, warps, strict=True)]
    repeats = [max(1, n // t) for n, t in zip(shape, tile, strict=True)]
    inner = prod(size)

    def at(register: Index, lane: Index, warp: Index) -> tuple[Any, ...]:
        repeat, within = divmod(register, inner)
        indices = zip(
            delinearised(repeat, repeats, order),
            delinearised(warp, warps, order),
            delinearised(lane, lanes, order),
            delinearised(within, size, order),
            tile,
            size,
            lanes,
            shape,
            strict=True,
        )
        return tuple(
            (again * t + (w * many + part) * s + r) % n
            for again, w, part, r, t, s, many, n in indices
        )

    return Holder(shape, inner * prod(repeats), threads, prod(warps), at)


def _linear(layout: Layout, shape: tuple[int, ...], threads: int) -> Holder:
    registers, lanes, warps = (layout.bases(n) for n in ("register", "lane", "warp"))

    def at(register: Index, lane: Index, warp: Index) -> tuple[Any, ...]:
        coordinates: list[Any] = [0] * len(shape)
        for bases, index in ((registers, register), (lanes, lane), (warps, warp)):
            for bit, basis in enumerate(bases):
                is_set = index >> bit & 1
                coordinates = [n ^ b * is_set for n, b in zip(coordinates, basis, strict=True)]
        return tuple(coordinates)

    del threads
    return Holder(shape, 1 << len(registers), 1 << len(lanes), 1 << len(warps), at)


_HOLDERS: dict[str, Callable[[Layout, tuple[int, ...], int], Holder | None]] = {
    "blocked": _blocked,
    "linear": _linear,
    "nvidia_mma": nvidia_mma,
    "amd_mfma": amd_mfma,
    "amd_wmma": amd_wmma,
    "dot_op": dot_operand,
}

#: Maximum number of runs to show for a thread's elements.
_RUNS_SHOWN = 4
_WORDS = {
    "blocked": "each thread holds a small block; threads and warps tile the rest",
    "linear": "lanes and registers map to elements bit by bit",
    "nvidia_mma": "accumulators of the tensor cores, distributed over threads as they require",
    "dot_op": "an operand of a matrix product, laid out as its matrix instructions require",
    "amd_mfma": "accumulators of the matrix cores (MFMA)",
    "amd_wmma": "accumulators of the matrix cores (WMMA)",
    "nvmma_shared": "shared memory, swizzled as wgmma, tcgen05 and TMA require",
    "swizzled_shared": "shared memory, rows rotated so that adjacent rows use different banks",
    "padded_shared": "shared memory, padded so that adjacent rows use different banks",
    "amd_rotating_shared": "shared memory, rows rotated so that adjacent rows use different banks",
    "shared_memory": "a memory space, not a layout: shared memory of a block",
    "tensor_memory": "a memory space, not a layout: tensor memory of Blackwell's tensor cores",
    "tensor_memory_encoding": "tensor memory of Blackwell's tensor cores",
    "shared_linear": "shared memory, offsets mapped to elements bit by bit",
}


def explain(layout: Layout, shapes: Sequence[tuple[int, ...]], threads: int) -> Iterator[str]:
    """Yield sentences about a layout, and about how it distributes the largest tile that has it."""
    yield _WORDS.get(layout.kind, "a layout that ttools cannot describe")
    if not shapes:
        return
    yield from shared.explain(layout, shapes[0])
    elements = holder(layout, shapes[0], threads)
    if elements is None:
        return
    shape = "x".join(map(str, elements.shape))
    axis, run = elements.contiguous()
    side_by_side = f", in runs of {run} along axis {axis}" if run > 1 else ""
    yield (
        f"each of {elements.lanes * elements.warps} threads holds "
        f"{counted(elements.registers, 'element')} of a tile of {shape}{side_by_side}"
    )
    for thread in (0, 1, elements.lanes) if elements.warps > 1 else (0, 1):
        yield f"thread {thread} holds {_runs(elements.elements(thread))}"


def _runs(elements: Sequence[Coordinates]) -> str:
    """Format elements as runs along the last axis: `[0, 0:8], [16, 0:8], …`."""
    runs: list[list[Coordinates]] = []
    for element in elements:
        if runs and element == moved(runs[-1][-1], len(element) - 1, 1):
            runs[-1].append(element)
        else:
            runs.append([element])
    texts = []
    for run in runs[:_RUNS_SHOWN]:
        last = run[0][-1]
        end = f"{last}:{last + len(run)}" if len(run) > 1 else f"{last}"
        texts.append("[" + ", ".join([*map(str, run[0][:-1]), end]) + "]")
    return ", ".join([*texts, *(["…"] if len(runs) > _RUNS_SHOWN else [])])
