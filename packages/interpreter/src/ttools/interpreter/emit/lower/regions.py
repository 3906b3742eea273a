"""Applies the region of a reduction, a scan or a map to vectors of arguments.

A region that consists of elementwise operations only is emitted on whole vectors. Any other region
is converted to a function of scalars before the kernel is emitted, and this function is called for
each lane.
"""

from __future__ import annotations

from collections.abc import Sequence

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.emit.callback import leave_unless_zero
from ttools.interpreter.emit.function import FUSED, Emitter
from ttools.interpreter.emit.lower.call import arena_of, invoke
from ttools.interpreter.llvm.builder import register_type
from ttools.interpreter.llvm.value import SSAValue, integer, poison, vector_type
from ttools.interpreter.tiles.chunk import origin
from ttools.ir import FloatType, Module, Operation, Type, Value, element_type
from ttools.ir.dialects.traits import COMBINES
from ttools.ir.outlining import outline

_F32 = FloatType("f32")
#: Combine functions that would round at every step in a 16-bit float type, and their LLVM
#: instructions.
_ROUNDING = {"arith.addf": "fadd", "arith.mulf": "fmul"}


def accumulator_type(op: Operation, element: Type) -> Type:
    """Return the type of a reduction's or scan's partial results.

    Sums and products of f16 and bf16 are computed in f32 and rounded once. They are combined in
    long chains here but in trees on a GPU, so rounding at each step would lose far more precision
    than on a GPU.
    """
    block = op.regions[0].entry
    simple = len(block.operations) == 2 and block.operations[0].name in _ROUNDING
    narrow = element in (FloatType("f16"), FloatType("bf16"))
    return _F32 if simple and narrow and len(block.arguments) == 2 else element


def apply_region(
    e: Emitter, op: Operation, arguments: Sequence[SSAValue], width: int
) -> list[SSAValue]:
    """Emit the region of `op` on vectors of `width` lanes, and return the values that it yields."""
    body = op.regions[0].entry.operations[:-1]
    if body and accumulator_type(op, element_type(body[0].results[0].type)) != element_type(
        body[0].results[0].type
    ):
        first, second = arguments
        name = _ROUNDING[body[0].name]
        return [e.b.binary(name, first, second)]
    if _is_straight(op):
        return _on_vectors(e, op, arguments, width)
    return _per_lane(e, op, arguments, width)


def outline_regions(module: Module) -> None:
    """Convert the regions that cannot be computed in all lanes at once to functions."""
    for op in [op for op in module.walk() if COMBINES in op.traits]:
        if not _is_straight(op):
            outline(module, op)


def _is_straight(op: Operation) -> bool:
    """Return whether the region of `op` is elementwise, without branches, loops and calls."""
    (region,) = op.regions
    return len(region.blocks) == 1 and all(
        inner.name == "arith.constant" or elementwise.is_elementwise(inner.name)
        for inner in region.entry.operations[:-1]
    )


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
    called = block.operations[0]
    outside = [e.scalar(v) for v in called.operands[len(block.arguments) :]]
    vectors = [poison(vector_type(register_type(v.type), width)) for v in called.results]
    arena = arena_of(e, called)
    status = integer(0, "i32")
    for lane in range(width):
        inputs = [e.b.shuffle(a, [lane]) for a in arguments]
        answer = invoke(e, called, arena, [*inputs, *outside])
        status = e.b.binary("or", status, e.b.field(answer, 0))
        for n in range(len(vectors)):
            item = e.b.field(answer, n + 1)
            vectors[n] = item if width == 1 else e.b.insert(vectors[n], item, lane)
    leave_unless_zero(e, status)
    return vectors
