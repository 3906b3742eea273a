"""Reductions, scans and elementwise maps with any region.

The lanes of a chunk may belong to several rows. Therefore a reduction has two steps: a loop along
the axis combines whole chunks lane by lane, and shuffles then combine the lanes of the last chunk
that lie along the axis. For example, a sum over 64 elements with 16 lanes adds four chunks, and
then adds the halves of the vector until one lane is left. Triton requires combine functions to be
associative and does not define the order of combination. Elements that are not neighbours are only
combined if the function commutes, as a sum does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.core.errors import UnsupportedError
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.lower.memory import zero_of
from ttools.interpreter.emit.lower.regions import accumulator_type, apply_region
from ttools.interpreter.llvm.builder import register_type
from ttools.interpreter.llvm.value import (
    FALSE,
    TRUE,
    SSAValue,
    element_of,
    integer,
    lanes_of,
    poison,
    vector_type,
    zeros,
)
from ttools.interpreter.tiles.chunk import ANY_DIVISOR, ZERO, Axis, Coords, Vector
from ttools.interpreter.tiles.loops import Loop, Traversal, for_each_chunk, open_loops, traversal
from ttools.interpreter.tiles.representation import narrow, widen
from ttools.ir import (
    IntegerType,
    Operation,
    Type,
    element_type,
    shape_of,
)
from ttools.ir.dialects.traits import COMMUTATIVE

#: The number of independent partial results in a reduction loop, which hide the latency of the
#: combine function.
_PARTIALS = 4


def identity(op: Operation, element: Type) -> SSAValue | None:
    """Return the neutral element of a single-operation combine function; None if there is none."""
    block = op.regions[0].entry
    if len(block.operations) != 2 or len(block.arguments) != 2:
        return None
    combine, type = block.operations[0], register_type(element)
    if {id(v) for v in combine.operands} != {id(v) for v in block.arguments}:
        return None
    text = None
    if type in ("float", "double"):
        text = _FLOAT_IDENTITIES.get(combine.name)
    elif isinstance(element, IntegerType) and element.width > 1:
        most = (1 << (element.width - 1)) - 1
        extremes = {"arith.maxsi": str(-most - 1), "arith.minsi": str(most)}
        text = (_INTEGER_IDENTITIES | extremes).get(combine.name)
    return None if text is None else SSAValue(text, type)


def commutes(op: Operation) -> bool:
    """Return whether the combine function is known to commute."""
    block = op.regions[0].entry
    first = block.operations[0]
    both = {id(v) for v in first.operands} == {id(v) for v in block.arguments}
    return (
        len(block.operations) == 2 and len(block.arguments) == 2 and both and first.has(COMMUTATIVE)
    )


#: The neutral element of addition is -0.0, because adding 0.0 would change -0.0. The neutral
#: element of maxnumf and minnumf is NaN, which they ignore.
_FLOAT_IDENTITIES = {
    "arith.addf": "-0.0",
    "arith.mulf": "1.0",
    "arith.maxnumf": "0x7FF8000000000000",
    "arith.minnumf": "0x7FF8000000000000",
    "arith.maximumf": "0xFFF0000000000000",
    "arith.minimumf": "0x7FF0000000000000",
}
_INTEGER_IDENTITIES = {
    **dict.fromkeys(("arith.addi", "arith.ori", "arith.xori", "arith.maxui"), "0"),
    **dict.fromkeys(("arith.andi", "arith.minui"), "-1"),
    "arith.muli": "1",
}


@root("tt.reduce")
def reduce(e: Emitter, op: Operation) -> None:
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    walk = e.traversal(shape_of(op.operands[0].type))
    axes, loops = open_loops(e.b, walk, [k for k in walk.order if k != axis])
    partial = _reduce_along(e, op, walk, axis, axes)
    results = _reduce_lanes(e, op, walk, axis, partial)
    _store_results(e, op, walk, axis, axes, results)
    for loop in reversed(loops):
        loop.close()


def _coords(walk: Traversal, axis: int, base: SSAValue, axes: dict[int, SSAValue]) -> Coords:
    return tuple(walk.axis(k, base if k == axis else axes[k]) for k in range(len(walk.shape)))


def _elements(op: Operation) -> list[Type]:
    """Return the element type of each partial result."""
    return [accumulator_type(op, element_type(v.type)) for v in op.operands]


def _inputs(e: Emitter, op: Operation, at: Coords) -> list[SSAValue]:
    """Return a chunk of each operand, in the type of the partial results."""
    with e.fresh_memo():
        chunks = [e.operand(v, at) for v in op.operands]
        return [
            e.vector(chunk)
            if chunk.element == wanted
            else widen(e.b, e.vector(chunk), chunk.element)
            for chunk, wanted in zip(chunks, _elements(op), strict=True)
        ]


def _outputs(e: Emitter, op: Operation, values: Sequence[SSAValue]) -> list[Vector]:
    """Return final values as chunks of the results, rounded if the results are narrower."""
    chunks = []
    for result, value, kept in zip(op.results, values, _elements(op), strict=True):
        element = element_type(result.type)
        chunks.append(Vector(element, value if kept == element else narrow(e.b, value, element)))
    return chunks


def _reduce_along(
    e: Emitter, op: Operation, walk: Traversal, axis: int, axes: dict[int, SSAValue]
) -> list[SSAValue]:
    """Emit a loop that combines all chunks along the axis into one vector per operand."""
    step = walk.lanes_along[axis]
    steps = walk.shape[axis] // step
    elements = _elements(op)

    def chunk(base: SSAValue) -> list[SSAValue]:
        return _inputs(e, op, _coords(walk, axis, base, axes))

    if steps == 1:
        return chunk(ZERO)
    neutral = identity(op, elements[0]) if len(elements) == 1 else None
    if neutral is None:
        first = chunk(ZERO)
        loop = Loop(e.b, walk.shape[axis], step, first, start=step)
        earlier, later = loop.carried, chunk(loop.index)
        if step > 1 and not commutes(op):
            pairs = [_neighbours(e, walk, axis, a, b) for a, b in zip(earlier, later, strict=True)]
            earlier, later = [a for a, _ in pairs], [b for _, b in pairs]
        loop.close(apply_region(e, op, [*earlier, *later], walk.width))
        return loop.results
    count = min(_PARTIALS, steps)
    start = e.b.splat(neutral, walk.width)
    loop = Loop(e.b, walk.shape[axis], step * count, [start] * count)
    partials = []
    for n in range(count):
        base = e.integers.add(loop.index, n * step)
        partials.append(apply_region(e, op, [loop.carried[n], *chunk(base)], walk.width)[0])
    loop.close(partials)
    partials = loop.results
    while len(partials) > 1:
        halves = zip(partials[::2], partials[1::2], strict=True)
        partials = [apply_region(e, op, [x, y], walk.width)[0] for x, y in halves]
    return partials


def _reduce_lanes(
    e: Emitter, op: Operation, walk: Traversal, axis: int, values: list[SSAValue]
) -> list[SSAValue]:
    """Combine the lanes along the axis; the result has one lane per row."""
    stride, lanes = walk.lane_stride(axis), walk.lanes_along[axis]
    kept = list(range(walk.width))
    position = walk.axis_lanes(axis)
    halves = commutes(op)
    taken = 1
    while taken < lanes:
        distance = lanes // taken // 2 if halves else taken
        low = [
            n
            for n, lane in enumerate(kept)
            if (position[lane] < distance if halves else position[lane] % (2 * distance) == 0)
        ]
        high = [kept.index(kept[n] + distance * stride) for n in low]
        first = [e.b.shuffle(v, low) for v in values]
        second = [e.b.shuffle(v, high) for v in values]
        kept = [kept[n] for n in low]
        values = apply_region(e, op, [*first, *second], len(kept))
        taken *= 2
    return values


def _neighbours(
    e: Emitter, walk: Traversal, axis: int, earlier: SSAValue, later: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Return the elements at even positions of two successive chunks, and those at odd positions.

    If both results are combined, each element is combined only with its neighbour, as is required
    for functions that do not commute.
    """
    lanes, stride = walk.lanes_along[axis], walk.lane_stride(axis)
    sources = []
    for lane, position in enumerate(walk.axis_lanes(axis)):
        source = 2 * position
        chunk = 0 if source < lanes else walk.width
        sources.append(chunk + lane + (source % lanes - position) * stride)
    even = e.b.shuffled(earlier, later, sources, walk.width)
    return even, e.b.shuffled(earlier, later, [n + stride for n in sources], walk.width)


def _store_results(
    e: Emitter,
    op: Operation,
    walk: Traversal,
    axis: int,
    axes: dict[int, SSAValue],
    values: Sequence[SSAValue],
) -> None:
    kept = [lane for lane in range(walk.width) if walk.axis_lanes(axis)[lane] == 0]
    where = []
    for k in range(len(walk.shape)):
        if k == axis:
            continue
        lanes = tuple(walk.axis_lanes(k)[lane] for lane in kept)
        divisor = ANY_DIVISOR if axes[k] == "0" else walk.lanes_along[k]
        where.append(Axis(axes[k], lanes, divisor))
    for result, chunk in zip(op.results, _outputs(e, op, values), strict=True):
        if result.is_tensor:
            e.write_slot(e.slot(result), tuple(where), chunk)
        else:
            e.set_scalar(result, chunk.ssa)


@root("tt.scan")
def scan(e: Emitter, op: Operation) -> None:
    axis, reverse = op.attributes["axis"], bool(op.attributes.get("reverse"))
    assert isinstance(axis, int)
    walk = e.traversal(shape_of(op.operands[0].type))
    axes, loops = open_loops(e.b, walk, [k for k in walk.order if k != axis])
    _scan_along(e, op, walk, axis, axes, reverse=reverse)
    for loop in reversed(loops):
        loop.close()


def _scan_along(
    e: Emitter,
    op: Operation,
    walk: Traversal,
    axis: int,
    axes: dict[int, SSAValue],
    *,
    reverse: bool,
) -> None:
    step, extent = walk.lanes_along[axis], walk.shape[axis]
    loop = None
    base = ZERO
    if extent > step:
        types = [register_type(t) for t in _elements(op)]
        vectors = [zeros(vector_type(type, walk.width)) for type in types]
        start = vectors if walk.width > 1 else [zero_of(type) for type in types]
        loop = Loop(e.b, extent, step, start)
        base = loop.index
        if reverse:
            base = e.integers.subtract(integer(extent - step, "i32"), loop.index)
            e.integers.divisors[base] = step
    at = _coords(walk, axis, base, axes)
    values = _inputs(e, op, at)
    values = _scan_lanes(e, op, walk, axis, values, reverse=reverse)
    if loop is not None:
        first = e.b.compare("icmp eq", loop.index, 0)
        joined = apply_region(e, op, [*loop.carried, *values], walk.width)
        values = [e.b.select(first, x, y) for x, y in zip(values, joined, strict=True)]
    for result, chunk in zip(op.results, _outputs(e, op, values), strict=True):
        e.write_slot(e.slot(result), at, chunk)
    if loop is not None:
        loop.close([_spread_last(e, walk, axis, value, reverse=reverse) for value in values])


def _scan_lanes(
    e: Emitter,
    op: Operation,
    walk: Traversal,
    axis: int,
    values: list[SSAValue],
    *,
    reverse: bool,
) -> list[SSAValue]:
    """Compute an inclusive scan of the lanes along the axis, in log2(lanes) steps."""
    lanes, stride = walk.lanes_along[axis], walk.lane_stride(axis)
    position = walk.axis_lanes(axis)
    distance = 1
    while distance < lanes:
        sign = 1 if reverse else -1
        inside = [(p + distance < lanes) if reverse else (p >= distance) for p in position]
        source = [lane + sign * distance * stride if ok else lane for lane, ok in enumerate(inside)]
        shifted = [e.b.shuffle(v, source) for v in values]
        joined = apply_region(e, op, [*shifted, *values], walk.width)
        mask = e.b.constant_vector([TRUE if ok else FALSE for ok in inside])
        values = [e.b.select(mask, new, old) for new, old in zip(joined, values, strict=True)]
        distance *= 2
    return values


def _spread_last(
    e: Emitter, walk: Traversal, axis: int, value: SSAValue, *, reverse: bool
) -> SSAValue:
    """Return a vector that contains, in each lane, the last scanned element of the lane's row."""
    lanes, stride = walk.lanes_along[axis], walk.lane_stride(axis)
    position = walk.axis_lanes(axis)
    last = 0 if reverse else lanes - 1
    source = [lane + (last - position[lane]) * stride for lane in range(walk.width)]
    return e.b.shuffle(value, source)


@root("tt.map_elementwise")
def map_elementwise(e: Emitter, op: Operation) -> None:
    """Apply a scalar function to each element, or to `pack` consecutive elements at a time."""
    pack = op.attributes.get("pack", 1)
    assert isinstance(pack, int)
    shape = shape_of(op.operands[0].type)
    walk = traversal(shape, max(pack, e.options.lanes), least=max(pack, 4))
    if walk.width % pack:
        message = f"tl.map_elementwise with pack={pack} of {walk.width} elements"
        raise UnsupportedError(message, op.location)

    def body(at: Coords) -> None:
        with e.fresh_memo():
            arguments = [e.vector(e.operand(v, at)) for v in op.operands]
        parts = [e.b.shuffle(a, range(n, walk.width, pack)) for a in arguments for n in range(pack)]
        values = apply_region(e, op, parts, walk.width // pack)
        for n, result in enumerate(op.results):
            value = _interleaved(e, values[n * pack : (n + 1) * pack])
            e.write_slot(e.slot(result), at, Vector(element_type(result.type), value))

    for_each_chunk(e.b, walk, body)


def _interleaved(e: Emitter, parts: Sequence[SSAValue]) -> SSAValue:
    """Return a vector in which the lanes of several vectors alternate."""
    if len(parts) == 1:
        return parts[0]
    width = lanes_of(parts[0].type)
    whole = poison(vector_type(element_of(parts[0].type), width * len(parts)))
    for lane in range(width):
        for n, part in enumerate(parts):
            item = e.b.shuffle(part, [lane])
            whole = e.b.insert(whole, item, lane * len(parts) + n)
    return whole
