"""Exact semantics of integer operations, declared once for all analyses.

A declaration expresses the result of an operation by methods of `Integers`, for example as the sum
of its operands. Each subclass of `Integers` is a domain. `Evaluation` computes with Python integers
and thereby defines the meaning of a declaration. Intervals, strides and affine expressions are
abstract domains, which derive what they can about a sum or a quotient.

Results are exact integers that do not wrap, so that an analysis can check whether a result fits its
type. The declarations of unsigned operations convert operands to unsigned numbers and the result
back to a signed one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class UnknownError(Exception):
    """A domain has no information on a result; analyses catch this error."""


class Described(Protocol):
    """The properties of an operation on which its integer semantics may depend."""

    attributes: dict[str, Any]

    @property
    def operand_bits(self) -> int:
        """Width of the first operand's elements in bits; 0 if they are not integers."""

    @property
    def constant_integers(self) -> Sequence[int] | None:
        """Elements of an integer constant (one if all are equal); None for other operations."""

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the first result; `()` for a scalar."""


class Integers(Generic[T]):
    """A domain of integers: derives what is known about a result from its operands.

    A method raises `UnknownError` if nothing is known about the result. Almost all methods of this
    base class do so.
    """

    def constant(self, number: int) -> T:
        """Return a tile that holds `number` in every lane."""
        raise UnknownError

    def elements(self, numbers: Sequence[int]) -> T:
        """Return a tile of the given numbers in row-major order."""
        raise UnknownError

    def coordinate(self, axis: int, extent: int) -> T:
        """Return the coordinate of each lane along an axis of `extent` lanes."""
        raise UnknownError

    def program(self, axis: int) -> T:
        """Return the index of the program along an axis of the grid."""
        raise UnknownError

    def programs(self, axis: int) -> T:
        """Return the extent of the grid along an axis."""
        raise UnknownError

    def add(self, a: T, b: T) -> T:
        raise UnknownError

    def subtract(self, a: T, b: T) -> T:
        raise UnknownError

    def multiply(self, a: T, b: T) -> T:
        raise UnknownError

    def shift_left(self, a: T, by: T) -> T:
        """Return `a * 2**by`; not defined for negative `by`."""
        raise UnknownError

    def shift_right(self, a: T, by: T) -> T:
        """Return `a // 2**by`; not defined for negative `by`."""
        raise UnknownError

    def quotient(self, a: T, b: T) -> T:
        """Return `a / b` rounded towards 0.

        This and the following three methods are not defined for `b == 0`.
        """
        raise UnknownError

    def floor_quotient(self, a: T, b: T) -> T:
        raise UnknownError

    def ceiling_quotient(self, a: T, b: T) -> T:
        raise UnknownError

    def remainder(self, a: T, b: T) -> T:
        """Return the remainder of `quotient`, which has the sign of `a`."""
        raise UnknownError

    def least(self, a: T, b: T) -> T:
        raise UnknownError

    def greatest(self, a: T, b: T) -> T:
        raise UnknownError

    def bits_and(self, a: T, b: T) -> T:
        raise UnknownError

    def bits_or(self, a: T, b: T) -> T:
        raise UnknownError

    def bits_xor(self, a: T, b: T) -> T:
        raise UnknownError

    def choose(self, condition: T, a: T, b: T) -> T:
        """Return `a` where the condition is 1, else `b`."""
        raise UnknownError

    def compare(self, predicate: str, a: T, b: T) -> T:
        """Return 1 where a comparison holds, else 0.

        Unsigned predicates compare the operands as unsigned numbers.
        """
        return self.truth()

    def truth(self) -> T:
        """Return a boolean that may be 0 or 1."""
        raise UnknownError

    def unsigned(self, a: T, bits: int) -> T:
        """Return the lowest `bits` bits of `a` as an unsigned number: `a` itself if in range."""
        raise UnknownError

    def signed(self, a: T, bits: int) -> T:
        """Return the lowest `bits` bits of `a` as a signed number: `a` itself if in range."""
        raise UnknownError

    def displace(self, pointer: T, offset: T) -> T:
        """Return the address `offset` elements after `pointer`."""
        raise UnknownError


#: Computes the result of an operation in a domain, from its operands and its attributes.
Meaning: TypeAlias = "Callable[[Integers[Any], Sequence[Any], Described], Any]"


class Evaluation(Integers[int]):
    """Evaluates operations in Python integers, which defines the meaning of their declarations.

    Args:
        lane: Coordinates of the lane that is computed.
        programs: The program's index and the grid's extent along each axis.
    """

    def __init__(
        self, lane: Sequence[int] = (), programs: Sequence[tuple[int, int]] = ((0, 1),) * 3
    ) -> None:
        self._lane, self._programs = lane, programs

    def constant(self, number: int) -> int:
        return number

    def coordinate(self, axis: int, extent: int) -> int:
        return self._lane[axis]

    def program(self, axis: int) -> int:
        return self._programs[axis][0]

    def programs(self, axis: int) -> int:
        return self._programs[axis][1]

    def add(self, a: int, b: int) -> int:
        return a + b

    def subtract(self, a: int, b: int) -> int:
        return a - b

    def multiply(self, a: int, b: int) -> int:
        return a * b

    def shift_left(self, a: int, by: int) -> int:
        return a << by

    def shift_right(self, a: int, by: int) -> int:
        return a >> by

    def quotient(self, a: int, b: int) -> int:
        return truncated_quotient(a, b)

    def floor_quotient(self, a: int, b: int) -> int:
        return a // b

    def ceiling_quotient(self, a: int, b: int) -> int:
        return -(-a // b)

    def remainder(self, a: int, b: int) -> int:
        return a - b * truncated_quotient(a, b)

    def least(self, a: int, b: int) -> int:
        return min(a, b)

    def greatest(self, a: int, b: int) -> int:
        return max(a, b)

    def bits_and(self, a: int, b: int) -> int:
        return a & b

    def bits_or(self, a: int, b: int) -> int:
        return a | b

    def bits_xor(self, a: int, b: int) -> int:
        return a ^ b

    def choose(self, condition: int, a: int, b: int) -> int:
        return a if condition else b

    def compare(self, predicate: str, a: int, b: int) -> int:
        if predicate.startswith("u"):
            # Reinterpreted as unsigned, negative numbers keep their order and exceed all others.
            key = (a < 0, a), (b < 0, b)
            return int(_COMPARISONS[predicate[1:]](*key))
        return int(_COMPARISONS[predicate.removeprefix("s")](a, b))

    def unsigned(self, a: int, bits: int) -> int:
        return a & ((1 << bits) - 1)

    def signed(self, a: int, bits: int) -> int:
        return wrapped(a, bits)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def truncated_quotient(a: int, b: int) -> int:
    """Return a quotient rounded towards 0."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def wrapped(number: int, bits: int) -> int:
    """Return the lowest `bits` bits of a number as a signed number; a single bit is 0 or 1."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if bits > 1 and number >> (bits - 1) else number


# ---- semantics of operations: `i` is the domain, `v` the values of the operands


def _of_unsigned(meaning: Meaning) -> Meaning:
    """Apply `meaning` to the operands as unsigned numbers, and make the result signed again."""

    def meant(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
        bits = op.operand_bits
        return i.signed(meaning(i, [i.unsigned(value, bits) for value in v], op), bits)

    return meant


def _sign_extended(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    return i.subtract(i.constant(0), v[0]) if op.operand_bits == 1 else v[0]


def _zero_extended(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    return i.unsigned(v[0], op.operand_bits)


def unchanged(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    """Return the operand itself, because the operation changes only its type."""
    return v[0]


def _compared(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    return i.compare(str(op.attributes["predicate"]), v[0], v[1])


def _constant(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    numbers = op.constant_integers
    if numbers is None:
        raise UnknownError
    return i.constant(numbers[0]) if len(numbers) == 1 else i.elements(numbers)


def make_range(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    """Return consecutive numbers along the only axis."""
    (extent,) = op.result_shape
    return i.add(i.constant(op.attributes["start"]), i.coordinate(0, extent))


def program_id(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    """Return the index of the program along an axis."""
    return i.program(op.attributes["axis"])


def num_programs(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    """Return the number of programs along an axis."""
    return i.programs(op.attributes["axis"])


def high_product(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    """Return the upper half of an unsigned product."""
    bits = op.operand_bits
    product = i.multiply(i.unsigned(v[0], bits), i.unsigned(v[1], bits))
    return i.signed(i.shift_right(product, i.constant(bits)), bits)


def absolute(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    """Return the absolute value."""
    return i.greatest(v[0], i.subtract(i.constant(0), v[0]))


def displaced(i: Integers[Any], v: Sequence[Any], op: Described) -> Any:
    """Return a pointer moved by an offset."""
    return i.displace(v[0], v[1])


#: Semantics of the operations of the `arith` dialect, by their names without `arith.`.
ARITH: Mapping[str, Meaning] = {
    "constant": _constant,
    "addi": lambda i, v, op: i.add(v[0], v[1]),
    "subi": lambda i, v, op: i.subtract(v[0], v[1]),
    "muli": lambda i, v, op: i.multiply(v[0], v[1]),
    "shli": lambda i, v, op: i.shift_left(v[0], v[1]),
    "shrsi": lambda i, v, op: i.shift_right(v[0], v[1]),
    "shrui": _of_unsigned(lambda i, v, op: i.shift_right(v[0], v[1])),
    "divsi": lambda i, v, op: i.quotient(v[0], v[1]),
    "divui": _of_unsigned(lambda i, v, op: i.quotient(v[0], v[1])),
    "floordivsi": lambda i, v, op: i.floor_quotient(v[0], v[1]),
    "ceildivsi": lambda i, v, op: i.ceiling_quotient(v[0], v[1]),
    "ceildivui": _of_unsigned(lambda i, v, op: i.ceiling_quotient(v[0], v[1])),
    "remsi": lambda i, v, op: i.remainder(v[0], v[1]),
    "remui": _of_unsigned(lambda i, v, op: i.remainder(v[0], v[1])),
    "andi": lambda i, v, op: i.bits_and(v[0], v[1]),
    "ori": lambda i, v, op: i.bits_or(v[0], v[1]),
    "xori": lambda i, v, op: i.bits_xor(v[0], v[1]),
    "minsi": lambda i, v, op: i.least(v[0], v[1]),
    "maxsi": lambda i, v, op: i.greatest(v[0], v[1]),
    "minui": _of_unsigned(lambda i, v, op: i.least(v[0], v[1])),
    "maxui": _of_unsigned(lambda i, v, op: i.greatest(v[0], v[1])),
    "extsi": _sign_extended,
    "extui": _zero_extended,
    "trunci": unchanged,
    "index_cast": unchanged,
    "index_castui": _zero_extended,
    "select": lambda i, v, op: i.choose(v[0], v[1], v[2]),
    "cmpi": _compared,
    "cmpf": lambda i, v, op: i.truth(),
}
