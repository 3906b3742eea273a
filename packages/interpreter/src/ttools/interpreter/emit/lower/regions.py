"""Applies the region of a reduction, a scan or a map to vectors of its arguments.

Straight-line elementwise regions are emitted on whole vectors.  A region with control flow
becomes one function on scalars, called once per lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.interpreter import elementwise
from ttools.interpreter.emit.function import FUSED, Emitter
from ttools.interpreter.ir import FloatType, Operation, Type, Value, element_type
from ttools.interpreter.llvm.builder import register_type
from ttools.interpreter.llvm.value import Label, SSAValue, poison, vector_type
from ttools.interpreter.schedule.plan import Plan
from ttools.interpreter.tiles.chunk import origin

_F32 = FloatType("f32")
#: Combines that lose bits at every step in a narrow float, and their LLVM instruction.
_ROUNDING = {"arith.addf": "fadd", "arith.mulf": "fmul"}


def accumulator_type(op: Operation, element: Type) -> Type:
    """The type partial results of a reduction or scan are kept in.

    Sums and products of f16 and bf16 are kept in f32 and rounded once: we combine in long chains
    where a GPU combines in trees, and would lose far more than it does.
    """
    block = op.regions[0].entry
    simple = len(block.operations) == 2 and block.operations[0].name in _ROUNDING
    narrow = element in (FloatType("f16"), FloatType("bf16"))
    return _F32 if simple and narrow and len(block.arguments) == 2 else element


def apply_region(
    e: Emitter, op: Operation, arguments: Sequence[SSAValue], width: int
) -> list[SSAValue]:
    """Emits the region of `op` on vectors of `width` lanes; returns what it yields."""
    body = op.regions[0].entry.operations[:-1]
    if body and accumulator_type(op, element_type(body[0].results[0].type)) != element_type(
        body[0].results[0].type
    ):
        first, second = arguments
        name = _ROUNDING[body[0].name]
        return [e.b.binary(name, first, second)]
    if len(op.regions[0].blocks) == 1 and all(_is_straight(inner) for inner in body):
        return _on_vectors(e, op, arguments, width)
    return _per_lane(e, op, arguments, width)


def _is_straight(op: Operation) -> bool:
    return op.name == "arith.constant" or elementwise.is_elementwise(op.name)


def _on_vectors(
    e: Emitter, op: Operation, arguments: Sequence[SSAValue], width: int
) -> list[SSAValue]:
    block = op.regions[0].entry
    values = dict(zip(block.arguments, arguments, strict=True))

    def operand(value: Value) -> SSAValue:
        if value in values:
            return values[value]
        return e.b.splat(e.scalar(value), width)

    for inner in block.operations[:-1]:
        if inner.name == "arith.constant":
            results = [e.vector(FUSED[inner.name](e, inner, 0, origin(1, width)))]
        else:
            results = elementwise.lower(e.b, inner, width, [operand(v) for v in inner.operands])
        values.update(zip(inner.results, results, strict=True))
    return [operand(v) for v in block.terminator.operands]


def _per_lane(
    e: Emitter, op: Operation, arguments: Sequence[SSAValue], width: int
) -> list[SSAValue]:
    block = op.regions[0].entry
    yielded = block.terminator.operands
    captured = _captured(op)
    name, result = _scalar_function(e, op, captured)
    outside = [e.scalar(v) for v in captured]
    vectors = [poison(vector_type(register_type(v.type), width)) for v in yielded]
    for lane in range(width):
        inputs = [e.b.shuffle(a, [lane]) for a in arguments]
        answer = e.b.call(result, name, *inputs, *outside)
        for n in range(len(yielded)):
            item = e.b.field(answer, n)
            vectors[n] = item if width == 1 else e.b.insert(vectors[n], item, lane)
    return vectors


def _captured(op: Operation) -> list[Value]:
    """Scalars the region uses but does not define, in order of first use."""
    inside = {v for inner in op.walk() if inner is not op for v in inner.results}
    for inner in op.walk():
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.arguments)
    used = [v for inner in op.walk() if inner is not op for v in inner.operands]
    return list(dict.fromkeys(v for v in used if v not in inside))


def _scalar_function(e: Emitter, op: Operation, captured: Sequence[Value]) -> tuple[str, str]:
    """Defines the region as a function on scalars; returns its name and result type."""
    block = op.regions[0].entry
    result = "{ " + ", ".join(register_type(v.type) for v in block.terminator.operands) + " }"
    if op in e.region_functions:
        return e.region_functions[op], result
    name = f"ttools.region.{len(e.b.definitions)}"
    inner = Emitter(e.b, Plan(), e.options, e.sites)
    parameters = [*block.arguments, *captured]
    for n, value in enumerate(parameters):
        inner.set_scalar(value, SSAValue(f"%arg{n}", register_type(value.type)))
    signature = ", ".join(f"{register_type(v.type)} %arg{n}" for n, v in enumerate(parameters))
    with e.b.function_body() as lines:
        e.b.start(Label("entry"))
        for operation in block.operations[:-1]:
            inner.operation(operation)
        answer = poison(result)
        for n, value in enumerate(block.terminator.operands):
            answer = e.b.with_field(answer, inner.scalar(value), n)
        e.b.give_back(answer)
    head = f"define internal {result} @{name}({signature}) #0"
    e.region_functions[op] = e.b.define_function(name, head, lines)
    return e.region_functions[op], result
