"""Integer and pointer arithmetic that keeps affine chunks affine.

A chunk of an index such as `pid * 1024 + tl.arange(0, 1024)` is represented as a scalar base plus
constant lane offsets. If this form is kept up to the load, the load can see that its lanes are
adjacent, and becomes one vector access. The form is exact in modular arithmetic. Only an extension
to a wider type may invalidate it, because the narrow sum may have wrapped in some lanes. Either
divisibility proves that it has not, or the chunk gets a guard, an i1 that the access checks at run
time. Where an operation has no affine form, rules return plain vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.emit.function import Emitter, fused
from ttools.interpreter.llvm.builder import byte_size, register_type
from ttools.interpreter.llvm.value import FALSE, SSAValue, element_of
from ttools.interpreter.tiles.chunk import Affine, Chunk, Coords, Vector
from ttools.interpreter.tiles.integers import wrap_signed, wrapped
from ttools.ir import (
    IntegerType,
    Operation,
    PointerType,
    element_type,
)

Closure = Callable[[], SSAValue]


def both_guards(e: Emitter, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
    if a is None or b is None:
        return a or b
    return e.b.binary("and", a, b)


def combine(e: Emitter, name: str, a: Affine, b: Affine) -> Affine:
    """Return the sum or difference of two affine chunks, which is exact in modular arithmetic."""
    sign = 1 if name == "add" else -1
    base = (e.integers.add if name == "add" else e.integers.subtract)(a.base, b.base)
    bits = int(base.type[1:])
    lanes = wrapped([x + sign * y for x, y in zip(a.lanes, b.lanes, strict=True)], bits)
    guard = both_guards(e, a.guard, b.guard)
    exact: Closure | None = None
    if guard is not None:

        def exact() -> SSAValue:
            return e.b.binary(name, e.vector(a), e.vector(b))

    divisor = max(e.integers.divisor(base), min(a.divisor, b.divisor))
    return Affine(a.element, base, lanes, divisor, guard, exact)


def _fallback(e: Emitter, op: Operation, at: Coords) -> Chunk:
    return e.lower_elementwise(op, at)[0]


@fused("arith.addi", "arith.subi")
def add(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    a, b = (e.operand(v, at) for v in op.operands)
    if isinstance(a, Affine) and isinstance(b, Affine) and a.element != IntegerType(1):
        return combine(e, "add" if op.name == "arith.addi" else "sub", a, b)
    return _fallback(e, op, at)


@fused("arith.muli")
def mul(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    a, b = (e.operand(v, at) for v in op.operands)
    if not (isinstance(a, Affine) and isinstance(b, Affine)) or a.element == IntegerType(1):
        return _fallback(e, op, at)
    if not a.is_uniform:
        a, b = b, a
    if not a.is_uniform or (any(b.lanes) and a.base.startswith("%")):
        return _fallback(e, op, at)
    base = e.integers.multiply(a.base, b.base)
    factor = int(a.base) if a.base.is_literal else 0
    lanes = wrapped([n * factor for n in b.lanes], int(base.type[1:]))
    divisor = max(e.integers.divisor(base), min(1 << 62, a.divisor * b.divisor))
    exact: Closure | None = None
    if b.guard is not None:

        def exact() -> SSAValue:
            return e.b.binary("mul", e.vector(a), e.vector(b))

    return Affine(b.element, base, lanes, divisor, b.guard, exact)


@fused("arith.shli")
def shift_left(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    a, b = (e.operand(v, at) for v in op.operands)
    if isinstance(a, Affine) and isinstance(b, Affine) and b.is_uniform and a.guard is None:
        bits = int(a.base.type[1:])
        if b.base.isdigit() and int(b.base) < bits:
            factor = 1 << int(b.base)
            base = e.integers.multiply(a.base, wrap_signed(factor, bits))
            lanes = wrapped([n * factor for n in a.lanes], bits)
            return Affine(a.element, base, lanes, min(1 << 62, a.divisor * factor))
    return _fallback(e, op, at)


@fused("arith.extsi", "arith.extui")
def extend(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    chunk = e.operand(op.operands[0], at)
    if not isinstance(chunk, Affine) or chunk.element == IntegerType(1):
        return _fallback(e, op, at)
    target = element_type(op.result.type)
    assert isinstance(target, IntegerType)
    return extended(e, chunk, target, signed=op.name == "arith.extsi")


def extended(e: Emitter, chunk: Affine, target: IntegerType, *, signed: bool = True) -> Affine:
    """Return a chunk in a wider type, with a guard if a lane may have wrapped."""
    target_type = register_type(target)
    if register_type(chunk.element) == target_type:
        return Affine(target, chunk.base, chunk.lanes, chunk.divisor, chunk.guard, chunk.exact)
    base = e.integers.convert(chunk.base, target_type, signed=signed)
    low, high = min(chunk.lanes), max(chunk.lanes)
    guard, exact = chunk.guard, chunk.exact
    if not (low >= 0 and high < chunk.divisor) or guard is not None:
        if not (low >= 0 and high < chunk.divisor):
            guard = both_guards(e, guard, _no_wrap(e, chunk, signed=signed))
        name = "sext" if signed else "zext"

        def exact() -> SSAValue:
            return e.b.cast(name, e.vector(chunk), target_type)

    return Affine(target, base, chunk.lanes, chunk.divisor, guard, exact)


def _no_wrap(e: Emitter, chunk: Affine, *, signed: bool) -> SSAValue | None:
    """Return an i1 that is set if no lane has wrapped; None if none can have."""
    bits = int(chunk.base.type[1:])
    low, high = min(0, min(chunk.lanes)), max(0, max(chunk.lanes))
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if not chunk.base.startswith("%"):
        value = int(chunk.base) if signed else int(chunk.base) % (1 << bits)
        return None if least <= value + low and value + high <= most else FALSE
    guard: SSAValue | None = None
    pred = "s" if signed else "u"
    if high:
        top = most - high if signed else wrap_signed(most - high, bits)
        guard = e.b.compare(f"icmp {pred}le", chunk.base, top)
    if low:
        bottom = e.b.compare(f"icmp {pred}ge", chunk.base, least - low)
        guard = both_guards(e, guard, bottom)
    return guard


@fused("arith.trunci")
def truncate(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    chunk = e.operand(op.operands[0], at)
    target = element_type(op.result.type)
    if not isinstance(chunk, Affine) or chunk.guard is not None or target == IntegerType(1):
        return _fallback(e, op, at)
    target_type = register_type(target)
    bits = int(target_type[1:])
    base = e.integers.convert(chunk.base, target_type)
    return Affine(target, base, wrapped(chunk.lanes, bits), chunk.divisor)


@fused("arith.remsi", "arith.remui", "arith.divsi", "arith.divui")
def divide(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    """Divide a chunk by a number that is the same in all lanes.

    If the lanes are a run that does not cross a multiple of the number, the quotient is the same in
    all lanes, and the remainders are a run. A guard tests this condition.
    """
    a, n = (e.operand(v, at) for v in op.operands)
    if not (isinstance(a, Affine) and isinstance(n, Affine) and n.is_uniform):
        return _fallback(e, op, at)
    if not any(a.lanes):
        return _divided_once(e, op, a, n)
    if not _stays_in_one_multiple(a, n):
        return _fallback(e, op, at)
    (base,) = elementwise.lower(e.b, op, 1, [a.base, n.base])
    if op.name in ("arith.remsi", "arith.remui"):
        return _divided(e, op, a, n, rest=base, base=base, lanes=a.lanes)
    rest = e.integers.subtract(a.base, e.integers.multiply(base, n.base))
    return _divided(e, op, a, n, rest=rest, base=base, lanes=(0,) * a.width)


def _divided_once(e: Emitter, op: Operation, a: Affine, n: Affine) -> Affine:
    """Divide a chunk whose lanes are equal if its guard holds; the quotient has the same guard."""
    (base,) = elementwise.lower(e.b, op, 1, [a.base, n.base])
    exact = None if a.guard is None else _exact_division(e, op, a, n)
    return Affine(a.element, base, a.lanes, guard=a.guard, exact=exact)


def _exact_division(e: Emitter, op: Operation, a: Affine, n: Affine) -> Closure:
    return lambda: elementwise.lower(e.b, op, a.width, [e.vector(a), e.vector(n)])[0]


def _stays_in_one_multiple(a: Affine, n: Affine) -> bool:
    """Return whether a run probably crosses no multiple of `n`, so that a guard is worthwhile."""
    if n.base.lstrip("-").isdigit() and int(n.base) <= max(a.lanes):
        return False  # nearly every run crosses a multiple
    return a.guard is None and min(a.lanes) >= 0 and max(a.lanes) < a.divisor


def _divided(
    e: Emitter,
    op: Operation,
    a: Affine,
    n: Affine,
    *,
    rest: SSAValue,
    base: SSAValue,
    lanes: tuple[int, ...],
) -> Affine:
    """Return a quotient or remainder, with a guard that the run does not cross a multiple of `n`.

    Args:
        rest: The remainder of the first lane.
        base: The base of the result.
        lanes: The lane offsets of the result.
    """
    last = e.b.binary("add", rest, max(a.lanes))
    sign = "s" if op.name in ("arith.remsi", "arith.divsi") else "u"
    inside = e.b.compare(f"icmp {sign}lt", last, n.base)
    positive = e.b.compare("icmp sge", a.base, 0)
    guard = both_guards(e, inside, positive)
    divisor = min(a.divisor, n.divisor) if any(lanes) else 1
    return Affine(a.element, base, lanes, divisor, guard, _exact_division(e, op, a, n))


@fused("tt.int_to_ptr", "tt.ptr_to_int", "tt.bitcast")
def reinterpret(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    """Convert between addresses and i64, which have the same representation in registers."""
    chunk = e.operand(op.operands[0], at)
    target = element_type(op.result.type)
    if register_type(chunk.element) != "i64" or register_type(target) != "i64":
        return _fallback(e, op, at)
    if isinstance(chunk, Vector):
        return Vector(target, chunk.ssa)
    return Affine(target, chunk.base, chunk.lanes, chunk.divisor, chunk.guard, chunk.exact)


@fused("tt.addptr")
def add_pointer(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    """Add an offset in elements to a pointer, which is an address in bytes, an i64."""
    pointer, offset = (e.operand(v, at) for v in op.operands)
    element = pointer.element
    assert isinstance(element, PointerType)
    size = byte_size(element.pointee)
    if isinstance(offset, Affine):
        offset = extended(e, offset, IntegerType(64))
        scaled = _scaled(e, offset, size)
        if isinstance(pointer, Affine):
            return combine(e, "add", pointer, scaled)
        bytes_ = e.vector(scaled)
    else:
        # `tt.addptr` sign-extends its offset.
        wide = offset.ssa
        if element_of(wide.type) != "i64":
            wide = e.b.cast("sext", wide, "i64")
        bytes_ = e.b.binary("mul", wide, size)
    return Vector(element, e.b.binary("add", e.vector(pointer), bytes_))


def _scaled(e: Emitter, offset: Affine, size: int) -> Affine:
    if size == 1:
        return offset
    exact: Closure | None = None
    if offset.exact is not None:
        inner = offset.exact

        def exact() -> SSAValue:
            return e.b.binary("mul", inner(), size)

    return Affine(
        offset.element,
        e.integers.multiply(offset.base, size),
        tuple(n * size for n in offset.lanes),
        min(1 << 62, offset.divisor * size),
        offset.guard,
        exact,
    )
