"""The tree in which a GPU adds the elements of a tile along an axis.

TTGIR gives a tile a layout, but not the order of a reduction. The order is chosen by the lowering
to LLVM IR, and differs between versions of Triton. To determine it, Triton lowers a kernel that
contains only this reduction, with the same layout, and the resulting code is executed with symbols
(`lane_values.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ttools.core.compilation.annotation import annotate, call_chains
from ttools.core.compilation.reductions.lane_values import (
    Execution,
    Nodes,
    Stage,
    UnsupportedCodeError,
)
from ttools.core.compilation.stages import Compilation
from ttools.core.errors import TtoolsError
from ttools.core.gpus.targets import Target
from ttools.core.location import SourceLocation
from ttools.core.triton_versions import lower_ttgir

#: Larger tiles are not analysed, because the code for them is long.
_MOST_ELEMENTS = 1 << 16
_OPENING = re.compile(r'"tt\.reduce"\((?P<operands>[^()]*)\) <\{axis = (?P<axis>\d+) : i32[^}]*\}>')
_CLOSING = re.compile(r"\}\) : \((?P<types>.*)\) -> ")
_TYPE = re.compile(r"tensor<((?:\d+x)+)(\w+), (#.*)>$")
_RETURN = re.compile(r"\s*tt\.reduce\.return ")
_COMBINE = re.compile(r"= (\w+\.\w+) ")


class UnknownOrderError(TtoolsError):
    """The order of a reduction is unknown; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """A reduction in TTGIR.

    Attributes:
        places: Source lines of the reduction: its own, which is usually in Triton's library, then
            those of the calls that led to it, innermost first.
        axis: The axis along which the tile is reduced.
        shape: Extents of the tile.
        element: MLIR type of the elements, such as `f32`.
        layout: The layout of the tile, as written in TTGIR.
        combines: The operations that combine two elements.
    """

    places: tuple[SourceLocation, ...]
    axis: int
    shape: tuple[int, ...]
    element: str
    layout: str
    combines: tuple[str, ...]


@dataclass(frozen=True)
class ReductionOrder:
    """The tree in which the elements along an axis are combined.

    Attributes:
        extent: Number of elements along the axis; they are the first nodes of the tree.
        operands: The two operands of each further node, the lower number first. The last node is
            the result.
        per_thread: Number of elements that one thread combines before threads exchange results.
        per_warp: Number of elements that one warp combines before warps exchange results.
    """

    extent: int
    operands: tuple[tuple[int, int], ...]
    per_thread: int
    per_warp: int

    def __str__(self) -> str:
        """Describe the tree, as in `256 elements, of which a thread adds 4 and a warp 128`."""
        return (
            f"{self.extent} elements, of which a thread adds {self.per_thread} and a warp "
            f"{self.per_warp}"
        )


def reductions_of(compilation: Compilation) -> list[Reduction]:
    """Return the reductions of a compiled kernel, in the order of the code."""
    return list(_reductions(compilation.texts["ttgir"]))


def _reductions(ttgir: str) -> Iterator[Reduction]:
    axis, chains = -1, call_chains(ttgir)
    combines: list[str] = []
    for line in annotate("ttgir", ttgir):
        opening, closing = _OPENING.search(line.text), _CLOSING.search(line.text)
        if opening:
            axis, combines = int(opening["axis"]), []
        elif closing and axis >= 0:
            kinds = [_TYPE.match(kind) for kind in _split(closing["types"])]
            first = kinds[0] if kinds else None
            if first is not None:
                yield Reduction(
                    places=tuple(chains.get(line.number, ())),
                    axis=axis,
                    shape=tuple(int(n) for n in first[1].split("x") if n),
                    element=first[2],
                    layout=first[3],
                    combines=tuple(combines),
                )
            axis = -1
        elif axis >= 0 and not _RETURN.match(line.text):
            combine = _COMBINE.search(line.text)
            if combine:
                combines.append(combine[1])


def _split(types: str) -> Sequence[str]:
    """Split a list of types at the commas between them."""
    return [f"tensor<{part}" for part in re.split(r"(?:, )?tensor<", types) if part]


def order_of(reduction: Reduction, compilation: Compilation) -> ReductionOrder:
    """Return the order in which the target adds the elements of a reduction.

    Raises:
        UnknownOrderError: The order cannot be determined.
    """
    if compilation.target.backend != "cuda":
        raise UnknownOrderError("the order of summation is known only for NVIDIA GPUs")
    if reduction.element != "f32":
        raise UnknownOrderError(
            f"the order of summation is known only for f32, not for {reduction.element}"
        )
    if prod(reduction.shape) > _MOST_ELEMENTS:
        raise UnknownOrderError(f"a tile of {prod(reduction.shape):,} elements is too large")
    if compilation.metadata.get("num_ctas", 1) != 1:
        raise UnknownOrderError("the blocks of a cluster compute the sum together")
    ttgir = compilation.texts["ttgir"]
    layouts = "\n".join(re.findall(r"^#(?!loc)\w+ = .*$", ttgir, re.MULTILINE))
    module = re.search(r"^module attributes \{.*?\} \{", ttgir, re.MULTILINE)
    if module is None:
        raise UnknownOrderError("the module has no attributes")
    if "ttg.total-num-warps" in module[0] or "nvws." in ttgir:
        raise UnknownOrderError("the warps of the kernel are specialised")
    # The probe is compiled only with the options that determine the code of a sum.
    options = tuple(
        (name, compilation.metadata[name])
        for name in ("num_warps", "num_ctas", "ptx_version")
        if compilation.metadata.get(name) is not None
    )
    result = _order(
        layouts, module[0], reduction.layout, reduction.shape, reduction.axis,
        compilation.target, options,
    )  # fmt: skip
    if isinstance(result, str):
        raise UnknownOrderError(result)
    return result


@lru_cache(maxsize=512)
def _order(
    layouts: str,
    module: str,
    layout: str,
    shape: tuple[int, ...],
    axis: int,
    target: Target,
    options: tuple[tuple[str, object], ...],
) -> ReductionOrder | str:
    """Return the order of a reduction, or the reason why it is unknown."""
    text = probe(layouts, module, layout, shape, axis)
    try:
        llir = lower_ttgir(text, target.gpu_target(), dict(options))
    except Exception as error:  # noqa: BLE001 - any error means that the order is unknown
        first = str(error).strip().splitlines() or [type(error).__name__]
        return f"a kernel with only this sum does not compile: {first[0]}"
    threads = re.search(r'"nvvm\.reqntid"="(\d+)"', llir)
    count = int(threads[1]) if threads else int(str(dict(options)["num_warps"])) * target.threads
    nodes = Nodes(prod(shape))
    execution = Execution(count, nodes)
    try:
        execution.run(llir)
        return tree_of(nodes, execution.stored, shape, axis)
    except UnsupportedCodeError as error:
        return f"the code of the sum contains {error}"


def probe(layouts: str, module: str, layout: str, shape: tuple[int, ...], axis: int) -> str:
    """Return a kernel in TTGIR that adds the elements of a tile along an axis, and nothing else.

    Args:
        layouts: Definitions of the layouts that `layout` names.
        module: The line that begins the module, with the attributes of the target.
        layout: The layout of the tile.
    """
    lines: list[str] = []
    index, kind = _indices(lines, "i", shape, layout)
    pointers = f"tensor<{kind}x!tt.ptr<f32>, {layout}>"
    lines += [
        f"%xs = tt.splat %x : !tt.ptr<f32> -> {pointers}",
        f"%xp = tt.addptr %xs, {index} : {pointers}, tensor<{kind}xi32, {layout}>",
        f"%v = tt.load %xp : {pointers}",
        f'%r = "tt.reduce"(%v) <{{axis = {axis} : i32}}> ({{',
        "^bb0(%a: f32, %b: f32):",
        "%s = arith.addf %a, %b : f32",
        "tt.reduce.return %s : f32",
    ]
    rest = (*shape[:axis], *shape[axis + 1 :])
    if rest:
        own = f"#ttg.slice<{{dim = {axis}, parent = {layout}}}>"
        extents = "x".join(map(str, rest))
        lines.append(f"}}) : (tensor<{kind}xf32, {layout}>) -> tensor<{extents}xf32, {own}>")
        target, _ = _indices(lines, "o", rest, own)
        pointers = f"tensor<{extents}x!tt.ptr<f32>, {own}>"
        lines += [
            f"%ys = tt.splat %y : !tt.ptr<f32> -> {pointers}",
            f"%yp = tt.addptr %ys, {target} : {pointers}, tensor<{extents}xi32, {own}>",
            f"tt.store %yp, %r : {pointers}",
        ]
    else:
        lines.append(f"}}) : (tensor<{kind}xf32, {layout}>) -> f32")
        lines.append("tt.store %y, %r : !tt.ptr<f32>")
    body = "\n".join(f"    {line}" for line in lines)
    parameters = ", ".join(
        f"%{name}: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}" for name in ("x", "y")
    )
    return (
        f"{layouts}\n{module}\n  tt.func public @sum({parameters}) "
        f"attributes {{noinline = false}} {{\n{body}\n    tt.return\n  }}\n}}\n"
    )


def _indices(lines: list[str], name: str, shape: tuple[int, ...], layout: str) -> tuple[str, str]:
    """Add operations that number the elements of a tile row by row.

    Returns:
        The name of the result, and the extents as text.
    """
    extents = "x".join(map(str, shape))
    whole = f"tensor<{extents}xi32, {layout}>"
    total = ""
    for axis, extent in enumerate(shape):
        others = [n for n in range(len(shape)) if n != axis]
        own = _sliced(layout, others)
        here = f"%{name}{axis}"
        lines.append(
            f"{here} = tt.make_range {{end = {extent} : i32, start = 0 : i32}} : "
            f"tensor<{extent}xi32, {own}>"
        )
        current, kind = [extent], f"tensor<{extent}xi32, {own}>"
        for n, other in enumerate(others):
            current.insert(other, 1)
            own = _sliced(layout, others[n + 1 :])
            wider = f"tensor<{'x'.join(map(str, current))}xi32, {own}>"
            lines.append(
                f"{here}_{n} = tt.expand_dims {here if not n else f'{here}_{n - 1}'} "
                f"{{axis = {other} : i32}} : {kind} -> {wider}"
            )
            kind = wider
        last = f"{here}_{len(others) - 1}" if others else here
        if len(shape) > 1:
            lines.append(f"{here}b = tt.broadcast {last} : {kind} -> {whole}")
            last = f"{here}b"
        stride = prod(shape[axis + 1 :])
        lines += [
            f"{here}c = arith.constant dense<{stride}> : {whole}",
            f"{here}m = arith.muli {last}, {here}c : {whole}",
        ]
        if total:
            lines.append(f"{here}s = arith.addi {total}, {here}m : {whole}")
        total = f"{here}s" if total else f"{here}m"
    return total, extents


def _sliced(layout: str, axes: Sequence[int]) -> str:
    """Return the layout of a tile from which the given axes are removed."""
    for axis in sorted(axes, reverse=True):
        layout = f"#ttg.slice<{{dim = {axis}, parent = {layout}}}>"
    return layout


def tree_of(
    nodes: Nodes, stored: dict[int, int], shape: tuple[int, ...], axis: int
) -> ReductionOrder | str:
    """Return the tree that all results have in common, or the reason why there is none.

    Args:
        nodes: The sums that the threads have computed.
        stored: The symbol of each result.
        shape: Extents of the tile.
        axis: The axis along which the tile was reduced.
    """
    inner, extent = prod(shape[axis + 1 :]), shape[axis]
    if sorted(stored) != list(range(prod(shape) // extent)):
        return "not all results are stored"
    # Nodes that combine the positions along the axis in the same tree get the same number.
    position: dict[int, int] = {}
    row: dict[int, int | None] = {}
    trees: dict[tuple[int, int], int] = {}
    stages: list[Stage] = []

    def visit(node: int) -> None:
        if node < nodes.leaves:
            outer, rest = divmod(node, extent * inner)
            position[node], row[node] = rest // inner, outer * inner + rest % inner
            return
        a, b = nodes.operands[node - nodes.leaves]
        pair = tuple(sorted((position[a], position[b])))
        row[node] = row[a] if row[a] == row[b] else None
        if pair not in trees:
            trees[pair] = extent + len(trees)  # type: ignore[index]
            stages.append(nodes.stages[node - nodes.leaves])
        position[node] = trees[pair]  # type: ignore[index]

    wanted = _reachable(nodes, stored.values())
    for node in wanted:
        visit(node)
    roots = {position[node] for node in stored.values()}
    if any(row[node] != result for result, node in stored.items()):
        return "a sum contains elements of several rows"
    if len(roots) > 1:
        return "the rows are summed in different orders"
    operands = tuple(trees)
    leaves = _leaves(extent, operands)
    root = len(leaves) - 1 if operands else 0
    if roots != {root} or leaves[root] != extent:
        return "the sum does not contain each element once"
    sizes = {stage: [1] for stage in ("thread", "warp", "block")}
    for number, stage in enumerate(stages):
        sizes[stage].append(leaves[extent + number])
    per_thread = max(sizes["thread"])
    return ReductionOrder(extent, operands, per_thread, max(per_thread, *sizes["warp"]))


def _reachable(nodes: Nodes, roots: object) -> list[int]:
    """Return the nodes of the trees with the given roots; operands precede their sums."""
    wanted: set[int] = set()
    stack = list(roots)  # type: ignore[call-overload]
    while stack:
        node = stack.pop()
        if node in wanted:
            continue
        if node < 0:
            raise UnsupportedCodeError("a result that is not computed")
        wanted.add(node)
        if node >= nodes.leaves:
            stack += nodes.operands[node - nodes.leaves]
    return sorted(wanted)  # operands have lower numbers


def _leaves(extent: int, operands: Sequence[tuple[int, int]]) -> list[int]:
    """Return the number of leaves below each node of the tree."""
    counts = [1] * extent
    for a, b in operands:
        counts.append(counts[a] + counts[b])
    return counts
