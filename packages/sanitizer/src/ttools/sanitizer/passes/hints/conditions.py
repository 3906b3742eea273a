"""The conditions that `tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` state.

Triton stores hints as attributes of the operation that computes the value; its AxisInfo analysis
(lib/Analysis/AxisInfo.cpp) interprets them for each axis. In each aligned group of `contiguity`
lanes, each element is one greater than the previous one. In each group of `constancy` lanes, all
elements are equal. `divisibility` divides the first element of each contiguous group (in bytes for
pointers). Accesses are vectorised only along the axis with the longest groups. The divisors of
other axes therefore also refer to the first elements of these groups: `tl.multiple_of(rows[:, None]
* stride + columns[None, :], [16, 16])` holds for strides of 16. This module builds the conditions
under which a lane contradicts a hint, and tries to prove that no lane can.

For `tl.max_contiguous(x, 4)` and `x = [8, 9, 10, 11, 20, 21, 23, 24]`, the groups are `[8, 9, 10,
11]` and `[20, 21, 23, 24]`; lanes 6 and 7 differ from the first lane of their group plus 2 and 3,
so these lanes contradict the hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd

from ttools.interpreter.llvm.builder import byte_size
from ttools.ir import (
    Constant,
    IntegerType,
    Operation,
    PointerType,
    TensorType,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.domains.axis_info import AxisInfoAnalysis
from ttools.ir.rewriting import Builder

HINTS = ("tt.divisibility", "tt.contiguity", "tt.constancy")
"""Names of the attributes; for values that a loop carries, followed by `_arg` and the position."""
#: Alignment in bytes of torch's storages on the CPU; on a GPU, it is 512. Larger divisors cannot be
#: checked on the CPU, and no access is that wide.
_STORAGE_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class Hint:
    """The hints of one value.

    Attributes:
        value: The value to which the hints apply.
        divisibility: A divisor per axis (one for a scalar). In this and the following attributes, 1
            means that there is no hint.
        contiguity: Length of contiguous groups per axis.
        constancy: Length of groups of equal elements per axis.
    """

    value: Value
    divisibility: tuple[int, ...]
    contiguity: tuple[int, ...]
    constancy: tuple[int, ...]

    def describe(self) -> str:
        """Return the hint as Triton source."""
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
    """Return the hints on the result of an operation with one result, or None."""
    attributes = {name: op.attributes.get(name) for name in HINTS}
    if len(op.results) != 1 or not any(isinstance(v, Constant) for v in attributes.values()):
        return None
    rank = max(1, len(shape_of(op.result.type)))
    divisibility, contiguity, constancy = (_numbers(v, rank) for v in attributes.values())
    return Hint(op.result, divisibility, contiguity, constancy)


def _numbers(data: object, rank: int) -> tuple[int, ...]:
    if not isinstance(data, Constant):
        return (1,) * rank
    bits = data.bits * rank if data.is_splat else data.bits
    return tuple(bits[:rank])


# ---- conditions


def broken(b: Builder, hint: Hint) -> Value:
    """Build the mask of the lanes that differ from what a hint implies."""
    value, step = _number(b, hint.value)
    type, divisors = value.type, _checked_divisors(hint)
    if not isinstance(type, TensorType):
        return _indivisible(b, value, divisors[0])
    # Elements are gathered from a copy, so that the value itself need not be stored in memory.
    copy = b.binary("addi", value, b.constant(type, 0))
    wrong, starts = [], []
    for axis in range(len(type.shape)):
        position = b.coordinate(type.shape, axis)
        contiguous, constant = hint.contiguity[axis], hint.constancy[axis]
        if contiguous > 1:
            inside = b.binary("remsi", position, b.constant(position.type, contiguous))
            first = _element(b, copy, b.binary("subi", position, inside), axis)
            distance = b.binary("muli", _like(b, inside, type), b.constant(type, step))
            wrong.append(b.compare("ne", value, b.binary("addi", first, distance)))
        if constant > 1:
            inside = b.binary("remsi", position, b.constant(position.type, constant))
            first = _element(b, copy, b.binary("subi", position, inside), axis)
            wrong.append(b.compare("ne", value, first))
        if any(n > 1 for n in divisors):
            starts.append(_starts(b, copy, position, axis, contiguous, step))
    for divisor in sorted({n for n in divisors if n > 1}):
        indivisible = _indivisible(b, value, divisor)
        wrong.append(reduce(lambda x, y: b.binary("andi", x, y), starts, indivisible))
    return b.any_of(wrong)


def _checked_divisors(hint: Hint) -> tuple[int, ...]:
    if not isinstance(element_type(hint.value.type), PointerType):
        return hint.divisibility
    return tuple(gcd(n, _STORAGE_ALIGNMENT) for n in hint.divisibility)


def _starts(
    b: Builder, value: Value, position: Value, axis: int, contiguous: int, step: int
) -> Value:
    """Build the mask of the first lanes of contiguous groups.

    If no hint gives the length of the groups, they are determined at run time.
    """
    zero = b.constant(position.type, 0)
    if contiguous > 1:
        inside = b.binary("remsi", position, b.constant(position.type, contiguous))
        return b.compare("eq", inside, zero)
    before = b.binary("maxsi", b.binary("subi", position, b.constant(position.type, 1)), zero)
    expected = b.binary("addi", _element(b, value, before, axis), b.constant(value.type, step))
    jumps = b.compare("ne", value, expected)
    return b.binary("ori", jumps, b.compare("eq", position, zero))


def _number(b: Builder, value: Value) -> tuple[Value, int]:
    """Return a value as an integer, and the difference between contiguous neighbouring lanes."""
    element = element_type(value.type)
    if isinstance(element, PointerType):
        return b.cast(value, IntegerType(64), "tt.ptr_to_int"), byte_size(element.pointee)
    return value, 1


def _indivisible(b: Builder, value: Value, divisor: int) -> Value:
    rest = b.binary("remsi", value, b.constant(value.type, divisor))
    return b.compare("ne", rest, b.constant(value.type, 0))


def _element(b: Builder, value: Value, position: Value, axis: int) -> Value:
    return b.value("tt.gather", [value, position], value.type, {"axis": axis})


def _like(b: Builder, value: Value, type: TensorType) -> Value:
    """Convert a small non-negative i32 to another integer type."""
    element = type.element
    assert isinstance(element, IntegerType)
    if element.width > 32:
        return b.cast(value, element, "arith.extsi")
    return value if element.width == 32 else b.cast(value, element, "arith.trunci")


# ---- proofs


def is_kept(hint: Hint, parameters: Mapping[Value, int]) -> bool:
    """Return whether a hint provably holds for all programs and arguments.

    Args:
        hint: The hints of a scalar or a row.
        parameters: Divisors of the kernel's parameters.
    """
    info, shape = AxisInfoAnalysis(parameters).of(hint.value), shape_of(hint.value.type)
    if not shape:
        return info.divides(hint.divisibility[0])
    if len(shape) > 1 or hint.constancy[0] > 1:
        return False
    return info.divides(hint.divisibility[0]) and info.contiguity == shape
