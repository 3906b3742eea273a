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

from ttools.core.location import user_location
from ttools.interpreter.dialects import declared
from ttools.interpreter.ir import (
    Constant,
    FloatType,
    IntegerType,
    Operation,
    Value,
    as_signed,
    element_type,
)
from ttools.interpreter.ir.rewriting import BOOLEAN, Builder, with_element
from ttools.sanitizer.analysis.dataflow import constant_of
from ttools.sanitizer.passes.combining import combined_by
from ttools.sanitizer.passes.intervals import width_of
from ttools.sanitizer.passes.lanes import outside
from ttools.sanitizer.passes.twins import Twins

#: Of floats, by whether the integer has a sign.
_CONVERSIONS = {"arith.fptosi": True, "arith.fptoui": False}
_SIGNED, _UNSIGNED = "arith.extsi", "arith.extui"
_COMPUTING = ("arith.addi", "arith.subi", "arith.muli")
#: Factors of hashes and of generators of random numbers are at least as large.
_LEAST_OF_HASHES = 1 << 16
_RULES = Twins(frozenset())


def may_lose(op: Operation) -> str:
    """What an integer result of an operation may be wrong as; empty if it never is."""
    if not op.results or not 8 <= width_of(op.results[0]) < 64:
        return ""
    result = f"int{width_of(op.results[0])}"
    if op.name in _CONVERSIONS:
        sign = "" if _CONVERSIONS[op.name] else "u"
        return f"a float beyond the range of {sign}{result} is converted to it"
    combine = combined_by(op)
    if combine is not None and combine in _COMPUTING:
        return f"the {result} {declared(combine).noun} of several elements wraps around"
    is_own = op.location is None or user_location(op.location) == op.location
    if op.name in _COMPUTING and is_own and not any(map(_is_of_hash, op.operands)):
        return f"an {result} {declared(op.name).noun} wraps around"
    return ""


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
    if op.name in _CONVERSIONS:
        return _does_not_fit(b, op)
    found = None
    for extension in _readings(op):
        wide = [b.cast(value, IntegerType(64), extension) for value in op.operands]
        combine = combined_by(op)
        if combine is None:
            exact = b.binary(op.name.removeprefix("arith."), *wide)
        else:
            axis, reverse = op.attributes["axis"], bool(op.attributes.get("reverse"))
            assert isinstance(axis, int)
            name = combine.removeprefix("arith.")
            exact = b.combine(op.name, wide[0], axis, name, reverse=reverse)
        kept = b.cast(op.results[0], IntegerType(64), extension)
        differs = b.compare("ne", exact, kept)
        found = differs if found is None else b.binary("andi", found, differs)
    assert found is not None
    return found


def _readings(op: Operation) -> list[str]:
    """How a result is made longer by which its uses read it; two ways if that is not known."""
    result = op.results[0]
    ways = {way for user, _ in result.uses if (way := _reading(user))}
    if len(ways) == 1:
        return list(ways)
    return [_SIGNED] if ways or width_of(result) == 32 else [_SIGNED, _UNSIGNED]


def _reading(op: Operation) -> str:
    """With which sign an operation reads its operands; empty if it makes no difference."""
    name = str(op.attributes.get("predicate", "")) if op.name == "arith.cmpi" else op.name
    if name.endswith(("si", "sitofp")) or name in ("slt", "sle", "sgt", "sge"):
        return _SIGNED
    if name.endswith(("ui", "uitofp")) or name in ("ult", "ule", "ugt", "uge"):
        return _UNSIGNED
    return ""


def _does_not_fit(b: Builder, op: Operation) -> Value:
    """Where a float, cut to a whole number, is no number of the integer's type, or no number."""
    value, width, signed = op.operands[0], width_of(op.results[0]), _CONVERSIONS[op.name]
    low, high = (-(1 << width - 1), 1 << width - 1) if signed else (0, 1 << width)
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
    limit = b.value("arith.constant", [], value.type, {"value": Constant(value.type, (bits,))})
    type = with_element(value.type, BOOLEAN)
    return b.value("arith.cmpf", [value, limit], type, {"predicate": predicate})
