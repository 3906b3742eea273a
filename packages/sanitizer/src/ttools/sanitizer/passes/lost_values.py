"""Integers that are not what was computed: sums and products that wrap, floats that do not fit.

The part of `numeric` that looks at integers on their way to memory, as `overflow` does on their way
to addresses. MLIR's integers have no sign: how a result is read is seen by what uses it. Where
nothing does but a store, one of 32 bits has a sign, as nearly all of torch's have, and a narrower
one is wrong if it is so with a sign and without one. Left alone is what loses bits on purpose:
products with large constants and what Triton's own functions compute, random numbers for example;
and bit operations, remainders and comparisons end what is followed.

Must not know where a wrong integer matters.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from ttools.core.location import user_location
from ttools.interpreter.dialects import declared
from ttools.interpreter.ir import (
    Constant,
    FloatType,
    Operation,
    Type,
    Value,
    as_signed,
    element_type,
)
from ttools.interpreter.ir.rewriting import BOOLEAN, Builder, with_element
from ttools.sanitizer.analysis.dataflow import constant_of
from ttools.sanitizer.passes.combining import combined_by
from ttools.sanitizer.passes.intervals import width_of
from ttools.sanitizer.passes.lanes import outside
from ttools.sanitizer.passes.twins import Twins, unsigned

#: What conversions of floats to integers end in, with a sign and without.
_CONVERSIONS = ("tosi", "toui")
#: What the results of operations that compute are called.
_COMPUTED = ("sum", "difference", "product")
#: Factors of hashes and of generators of random numbers are at least as large.
_LEAST_OF_HASHES = 1 << 16
_Extension: TypeAlias = Callable[[Builder, Value], Value]
_RULES = Twins(frozenset())


def may_lose(op: Operation) -> str:
    """What an integer result of an operation may be wrong as; empty if it never is."""
    if not op.results or not 8 <= width_of(op.results[0]) < 64:
        return ""
    result = f"int{width_of(op.results[0])}"
    if op.name.endswith(_CONVERSIONS):
        sign = "" if op.name.endswith(_CONVERSIONS[0]) else "u"
        return f"a float beyond the range of {sign}{result} is converted to it"
    combine = combined_by(op)
    noun = declared(combine or op.name).noun
    if noun not in _COMPUTED:
        return ""
    if combine is not None:
        return f"the {result} {noun} of several elements wraps around"
    is_own = op.location is None or user_location(op.location) == op.location
    on_purpose = not is_own or any(map(_is_of_hash, op.operands))
    return "" if on_purpose else f"an {result} {noun} wraps around"


def _is_of_hash(value: Value) -> bool:
    data = constant_of(value)
    return data is not None and any(
        abs(as_signed(bits, width_of(value))) >= _LEAST_OF_HASHES for bits in data.bits
    )


def hands_on(op: Operation, value: Value) -> bool:
    """Whether a wrong integer makes a result wrong that is computed from it."""
    result = element_type(op.results[0].type)
    return isinstance(result, FloatType) or any(value is each for each in _RULES.flowing(op))


def is_lost(b: Builder, op: Operation) -> Value:
    """Where the result is not what was computed, of an operation of which `may_lose` says so."""
    if op.name.endswith(_CONVERSIONS):
        return _does_not_fit(b, op)
    found = None
    for extended in _readings(op):
        wide = [extended(b, value) for value in op.operands]
        combine = combined_by(op)
        if combine is None:
            exact = b.binary(op.name.removeprefix("arith."), *wide)
        else:
            axis, reverse = op.attributes["axis"], bool(op.attributes.get("reverse"))
            assert isinstance(axis, int)
            name = combine.removeprefix("arith.")
            exact = b.combine(op.name, wide[0], axis, name, reverse=reverse)
        differs = b.compare("ne", exact, extended(b, op.results[0]))
        found = differs if found is None else b.binary("andi", found, differs)
    assert found is not None
    return found


def _signed(b: Builder, value: Value) -> Value:
    return b.signed(value, 64)


def _readings(op: Operation) -> list[_Extension]:
    """How a result is made longer as its uses read it; in two ways if that is not known."""
    result = op.results[0]
    ways = {way for user, _ in result.uses if (way := _reading(user)) is not None}
    if len(ways) == 1:
        return list(ways)
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
