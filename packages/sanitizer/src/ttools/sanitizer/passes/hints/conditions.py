"""What `tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` say, as conditions.

Triton keeps them as attributes of the operation that makes the value; its AxisInfo analysis
(lib/Analysis/AxisInfo.cpp) reads them per axis: neighbours in each aligned group of `contiguity`
grow by one, those in each group of `constancy` are equal, and `divisibility` is that of the first
element of each contiguous group (in bytes for pointers). Accesses are made wide along the axis of
the longest groups alone, so the divisors of the other axes concern the first elements of those
groups, too: `tl.multiple_of(rows[:, None] * stride + columns[None, :], [16, 16])` is kept by
strides of 16. Owns the conditions under which a lane contradicts a hint, and the proofs that none
can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd

from ttools.interpreter.ir import (
    Block,
    Constant,
    IntegerType,
    Operation,
    PointerType,
    TensorType,
    Value,
    as_signed,
    element_type,
    shape_of,
)
from ttools.interpreter.ir.rewriting import Builder
from ttools.interpreter.llvm.builder import byte_size
from ttools.sanitizer.analysis.dataflow import constant_of, holder_of

HINTS = ("tt.divisibility", "tt.contiguity", "tt.constancy")
"""Names of the attributes; those of what a loop carries end in `_arg` and its position."""
_DEEPEST = 16
#: Alignment in bytes of torch's storages on the CPU; on a GPU it is 512. Whether larger numbers
#: divide an address there cannot be known here, nor is any access that wide.
_STORAGE_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class Hint:
    """The hints of one value.

    Attributes:
        value: what they are about.
        divisibility: per axis; one number for a scalar. 1 says nothing, here and below.
        contiguity: per axis.
        constancy: per axis.
    """

    value: Value
    divisibility: tuple[int, ...]
    contiguity: tuple[int, ...]
    constancy: tuple[int, ...]

    def describe(self) -> str:
        """The hint in Triton's words."""
        parts = []
        for name, numbers in (
            ("multiple_of", self.divisibility),
            ("max_contiguous", self.contiguity),
            ("max_constancy", self.constancy),
        ):
            if any(n > 1 for n in numbers):
                shown = numbers[0] if len(numbers) == 1 else list(numbers)
                parts.append(f"tl.{name}(…, {shown})")
        return " and ".join(parts)


def hint_of(op: Operation) -> Hint | None:
    """The hints that an operation carries on its only result, None if there are none."""
    found = {name: op.attributes.get(name) for name in HINTS}
    if len(op.results) != 1 or not any(isinstance(v, Constant) for v in found.values()):
        return None
    rank = max(1, len(shape_of(op.result.type)))
    divisibility, contiguity, constancy = (_numbers(v, rank) for v in found.values())
    return Hint(op.result, divisibility, contiguity, constancy)


def _numbers(data: object, rank: int) -> tuple[int, ...]:
    if not isinstance(data, Constant):
        return (1,) * rank
    bits = data.bits * rank if data.is_splat else data.bits
    return tuple(bits[:rank])


# ---- conditions


def broken(b: Builder, hint: Hint) -> Value:
    """Which lanes contradict a hint: those whose value differs from what the hint implies."""
    value, step = _number(b, hint.value)
    type, divisors = value.type, _checked_divisors(hint)
    if not isinstance(type, TensorType):
        return _indivisible(b, value, divisors[0])
    # Elements are looked up in a copy, so that the value itself may stay an expression.
    copy = b.binary("addi", value, b.constant(type, 0))
    found, starts = [], []
    for axis in range(len(type.shape)):
        position = _position(b, type, axis)
        contiguous, constant = hint.contiguity[axis], hint.constancy[axis]
        if contiguous > 1:
            inside = b.binary("remsi", position, b.constant(position.type, contiguous))
            first = _element(b, copy, b.binary("subi", position, inside), axis)
            way = b.binary("muli", _like(b, inside, type), b.constant(type, step))
            found.append(b.compare("ne", value, b.binary("addi", first, way)))
        if constant > 1:
            inside = b.binary("remsi", position, b.constant(position.type, constant))
            first = _element(b, copy, b.binary("subi", position, inside), axis)
            found.append(b.compare("ne", value, first))
        if any(n > 1 for n in divisors):
            starts.append(_starts(b, copy, position, axis, contiguous, step))
    for divisor in sorted({n for n in divisors if n > 1}):
        indivisible = _indivisible(b, value, divisor)
        found.append(reduce(lambda x, y: b.binary("andi", x, y), starts, indivisible))
    return b.any_of(found)


def _checked_divisors(hint: Hint) -> tuple[int, ...]:
    if not isinstance(element_type(hint.value.type), PointerType):
        return hint.divisibility
    return tuple(gcd(n, _STORAGE_ALIGNMENT) for n in hint.divisibility)


def _starts(
    b: Builder, value: Value, position: Value, axis: int, contiguous: int, step: int
) -> Value:
    """The first lanes of contiguous groups; as they happen to be where no hint says anything."""
    zero = b.constant(position.type, 0)
    if contiguous > 1:
        inside = b.binary("remsi", position, b.constant(position.type, contiguous))
        return b.compare("eq", inside, zero)
    before = b.binary("maxsi", b.binary("subi", position, b.constant(position.type, 1)), zero)
    expected = b.binary("addi", _element(b, value, before, axis), b.constant(value.type, step))
    jumps = b.compare("ne", value, expected)
    return b.binary("ori", jumps, b.compare("eq", position, zero))


def _number(b: Builder, value: Value) -> tuple[Value, int]:
    """A value as an integer, and by how much neighbours differ in contiguous ones."""
    element = element_type(value.type)
    if isinstance(element, PointerType):
        return b.cast(value, IntegerType(64), "tt.ptr_to_int"), byte_size(element.pointee)
    return value, 1


def _indivisible(b: Builder, value: Value, divisor: int) -> Value:
    rest = b.binary("remsi", value, b.constant(value.type, divisor))
    return b.compare("ne", rest, b.constant(value.type, 0))


def _position(b: Builder, type: TensorType, axis: int) -> Value:
    """Each lane's coordinate along an axis."""
    number = IntegerType(32)
    extent = type.shape[axis]
    flat = TensorType((extent,), number)
    value = b.value("tt.make_range", [], flat, {"start": 0, "end": extent})
    for other in range(len(type.shape)):
        if other != axis:
            value = b.expand(value, other)
    return b.broadcast(value, type.shape)


def _element(b: Builder, value: Value, position: Value, axis: int) -> Value:
    return b.value("tt.gather", [value, position], value.type, {"axis": axis})


def _like(b: Builder, value: Value, type: TensorType) -> Value:
    """A small non-negative i32 as another integer type."""
    element = type.element
    assert isinstance(element, IntegerType)
    if element.width > 32:
        return b.cast(value, element, "arith.extsi")
    return value if element.width == 32 else b.cast(value, element, "arith.trunci")


# ---- proofs


def is_kept(hint: Hint, parameters: Mapping[Value, int]) -> bool:
    """Whether a hint can be seen to hold for all programs and arguments.

    Args:
        hint: of a scalar or a row.
        parameters: what divides the kernel's parameters.
    """
    value = hint.value
    shape = shape_of(value.type)
    divides = _divides(value, hint.divisibility[0], parameters, 0)
    if not shape:
        return divides
    if len(shape) > 1 or hint.constancy[0] > 1:
        return False
    return divides and _is_contiguous(value, 0)


def _divides(value: Value, divisor: int, parameters: Mapping[Value, int], depth: int) -> bool:
    """Whether a number divides a value, or the first element of a contiguous row."""
    if divisor == 1:
        return True
    known = parameters.get(value)
    if known is not None:
        return known % divisor == 0
    op = value.defining_op
    if depth > _DEEPEST:
        return False
    if op is None:
        return _divides_counter(value, divisor, parameters, depth)
    constant = _constant(value)
    if constant is not None:
        return constant % divisor == 0
    parts = [_divides(v, divisor, parameters, depth + 1) for v in op.operands]
    match op.name:
        case "tt.make_range":
            start = op.attributes["start"]
            return isinstance(start, int) and start % divisor == 0
        case "arith.muli":
            return any(parts) or _product_divides(op, divisor)
        case "arith.addi" | "arith.subi" | "tt.splat" | "arith.extsi":
            return all(parts)
    return False


def _product_divides(op: Operation, divisor: int) -> bool:
    numbers = [_constant(v) for v in op.operands]
    return any(n is not None and n % divisor == 0 for n in numbers)


def _divides_counter(
    value: Value, divisor: int, parameters: Mapping[Value, int], depth: int
) -> bool:
    """The counter of a loop starts at its lower bound and grows by its step."""
    assert isinstance(value.owner, Block)
    loop = holder_of(value.owner)
    if loop is None or loop.name != "scf.for" or value.index != 0:
        return False
    return all(_divides(loop.operands[n], divisor, parameters, depth + 1) for n in (0, 2))


def _constant(value: Value) -> int | None:
    data, element = constant_of(value), element_type(value.type)
    if data is not None and data.is_splat and isinstance(element, IntegerType):
        return as_signed(data.bits[0], element.width)
    return None


def _is_contiguous(value: Value, depth: int) -> bool:
    """Whether a row grows by one from lane to lane, unless the narrow sum wraps."""
    op = value.defining_op
    if op is None or depth > _DEEPEST:
        return False
    if op.name == "tt.make_range":
        return True
    if op.name == "arith.addi":
        a, b = op.operands
        return any(_is_contiguous(x, depth + 1) and _is_uniform(y) for x, y in ((a, b), (b, a)))
    return op.name == "arith.extsi" and _is_contiguous(op.operands[0], depth + 1)


def _is_uniform(value: Value) -> bool:
    op = value.defining_op
    return op is not None and (op.name == "tt.splat" or _constant(value) is not None)
