"""Integers that are not what was computed: sums and products that wrap, floats that do not fit.

The part of `numeric` that looks at integers on their way to memory, as `overflow` does on their way
to addresses. MLIR's integers have no sign: how a result is read is seen by what uses it. Where
nothing does but a store to a tensor of unsigned integers, it has none; but for that one of 32 bits
has a sign, as nearly all of torch's have, and a narrower one is wrong if it is so with a sign and
without one, as is what is cut to a narrower integer. Left alone is what loses bits on purpose:
products with large constants and what Triton's own functions compute, random numbers for example;
cutting what a bit operation made; and bit operations, remainders and comparisons end what is
followed.

Must not know where a wrong integer matters.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from typing import TypeAlias

from ttools.core.location import user_location
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import (
    Constant,
    FloatType,
    Operation,
    Type,
    Value,
    as_signed,
    element_type,
)
from ttools.ir.combining import combined_by
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import READS, WRITES
from ttools.ir.rewriting import BOOLEAN, Builder, with_element
from ttools.ir.semantics import width_of
from ttools.sanitizer.analysis.dataflow import constant_of, parameter_of
from ttools.sanitizer.passes.exact_integers import ExactIntegers, combination, unsigned
from ttools.sanitizer.passes.lanes import outside

#: What conversions of floats to integers end in, with a sign and without.
_CONVERSIONS = ("tosi", "toui")
#: What the conversion of integers to narrower ones ends in.
_CUT = "trunci"
#: What conversions cut bits of on purpose; a remainder fits, or is one of a hash.
_PACKING = ("andi", "ori", "xori", "shli", "shrui", "shrsi", "remsi", "remui", "_to_int", "mulhiui")
_DEEPEST = 8
#: What the results of operations that compute are called.
_COMPUTED = ("sum", "difference", "product")
#: Factors of hashes and of generators of random numbers are at least as large.
_LEAST_OF_HASHES = 1 << 16
_Extension: TypeAlias = Callable[[Builder, Value], Value]
_RULES = ExactIntegers(frozenset())


def may_lose(op: Operation) -> str:
    """What an integer result of an operation may be wrong as; empty if it never is."""
    if not op.results or not 8 <= width_of(op.results[0]) < 64:
        return ""
    result = f"int{width_of(op.results[0])}"
    if op.name.endswith(_CONVERSIONS):
        sign = "" if op.name.endswith(_CONVERSIONS[0]) else "u"
        return f"a float beyond the range of {sign}{result} is converted to it"
    combine = combined_by(op)
    is_own = op.location is None or user_location(op.location) == op.location
    if op.name.endswith(_CUT):
        on_purpose = not is_own or _is_packed(op.operands[0])
        what = f"an int{width_of(op.operands[0])} beyond the range of {result} is converted to it"
        return "" if on_purpose else what
    noun = declared(combine or op.name).noun
    if noun not in _COMPUTED:
        return ""
    if combine is not None:
        return f"the {result} {noun} of several elements wraps around"
    on_purpose = not is_own or any(map(_is_of_hash, op.operands))
    return "" if on_purpose else f"an {result} {noun} wraps around"


def _is_packed(value: Value, depth: int = 0) -> bool:
    """Whether bit operations, or a hash, have to do with an integer."""
    op = value.defining_op
    if op is None or depth > _DEEPEST:
        return False
    if op.name.endswith(_PACKING) or _is_of_hash(value):
        return True
    return not op.has(READS) and any(_is_packed(each, depth + 1) for each in op.operands)


def _is_of_hash(value: Value) -> bool:
    data = constant_of(value)
    return data is not None and any(
        abs(as_signed(bits, width_of(value))) >= _LEAST_OF_HASHES for bits in data.bits
    )


def hands_on(op: Operation, value: Value) -> bool:
    """Whether a wrong integer makes a result wrong that is computed from it."""
    result = element_type(op.results[0].type)
    return isinstance(result, FloatType) or any(value is each for each in _RULES.flowing(op))


class Unsigned:
    """Which stores are to tensors of unsigned integers.

    Args:
        parameters: those that are pointers to such.
    """

    def __init__(self, kernel: Operation, parameters: Collection[int]) -> None:
        self._provenance, self._parameters = Provenance(kernel), parameters

    def takes(self, op: Operation, value: Value) -> bool:
        """Whether an operation stores a value there."""
        return op.has(WRITES) and op.operand("value") is value and self._leads(op)

    def gives(self, value: Value) -> bool:
        """Whether a value was loaded there, or is not a load's."""
        op = value.defining_op
        return op is None or not op.has(READS) or self._leads(op)

    def _leads(self, op: Operation) -> bool:
        if not self._parameters:
            return False
        return parameter_of(op.address, self._provenance) in self._parameters


def is_lost(b: Builder, op: Operation, stores: Unsigned) -> Value:
    """Where the result is not what was computed, of an operation of which `may_lose` says so.

    Args:
        b: where code is to be.
        stores: what is known of signs.
    """
    if op.name.endswith(_CONVERSIONS):
        return _does_not_fit(b, op)
    if op.name.endswith(_CUT):
        return _is_cut(b, op)
    found = None
    for extended in _readings(op, stores):
        wide = [extended(b, value) for value in op.operands]
        combine = combined_by(op)
        if combine is None:
            exact = b.binary(op.name.removeprefix("arith."), *wide)
        else:
            exact = combination(b, op, wide[0], combine)
        differs = b.compare("ne", exact, extended(b, op.results[0]))
        found = differs if found is None else b.binary("andi", found, differs)
    assert found is not None
    return found


def _signed(b: Builder, value: Value) -> Value:
    return b.signed(value, 64)


def _is_cut(b: Builder, op: Operation) -> Value:
    """Where an integer is neither the signed nor the unsigned reading of its narrow one."""
    value, narrow = op.operands[0], op.results[0]
    back = [b.cast(narrow, element_type(value.type), f"arith.ext{sign}i") for sign in "su"]
    return b.binary("andi", *(b.compare("ne", value, each) for each in back))


def _readings(op: Operation, stores: Unsigned) -> list[_Extension]:
    """How a result is made longer as its uses read it; in two ways if that is not known."""
    result = op.results[0]
    ways = {way for user, _ in result.uses if (way := _reading(user)) is not None}
    if len(ways) == 1:
        return list(ways)
    is_stored = any(stores.takes(user, result) for user, _ in result.uses)
    if not ways and is_stored and all(map(stores.gives, op.operands)):
        return [unsigned]
    return [_signed] if ways or width_of(result) == 32 else [_signed, unsigned]


def _reading(op: Operation) -> _Extension | None:
    """With which sign an operation reads its integers; None if it makes no difference."""
    predicate = op.attributes.get("predicate")
    if op.name.endswith(("si", "sitofp")) or predicate in ("slt", "sle", "sgt", "sge"):
        return _signed
    if op.name.endswith(("ui", "uitofp")) or predicate in ("ult", "ule", "ugt", "uge"):
        return unsigned
    return None


def _does_not_fit(b: Builder, op: Operation) -> Value:
    """Where a float, cut to a whole number, is no number of the integer's type, or no number."""
    value, width = op.operands[0], width_of(op.results[0])
    has_sign = op.name.endswith(_CONVERSIONS[0])
    low, high = (-(1 << width - 1), 1 << width - 1) if has_sign else (0, 1 << width)
    element = element_type(value.type)
    assert isinstance(element, FloatType)
    if element.name != "f64":
        value = b.cast(value, FloatType("f64"), "arith.extf")
    inside = b.binary(
        "andi", _compare(b, "ogt", value, float(low - 1)), _compare(b, "olt", value, float(high))
    )
    return outside(b, b.constant(inside.type, 1), inside)


def _compare(b: Builder, predicate: str, value: Value, number: float) -> Value:
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    return compare_floats(b, predicate, value, float_constant(b, value.type, bits))


def compare_floats(b: Builder, predicate: str, first: Value, second: Value) -> Value:
    """Where two floats of one type compare so."""
    type = with_element(first.type, BOOLEAN)
    return b.value("arith.cmpf", [first, second], type, {"predicate": predicate})


def float_constant(b: Builder, type: Type, bits: int) -> Value:
    """A float by its bits, or a tensor of equal ones."""
    return b.value("arith.constant", [], type, {"value": Constant(type, (bits,))})
