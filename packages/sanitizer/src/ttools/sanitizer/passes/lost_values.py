"""Rules for integers that do not hold what was computed: wrapped sums, floats out of range.

This is the part of the pass `numeric` that follows wrong integers to memory, as `overflow` follows
them to addresses. MLIR's integers are signless, so whether a result has wrapped depends on how its
uses interpret it:

    s = a + b          # i8: 100 + 100 = -56 (signed) or 200 (unsigned)
    t = s.to(tl.int32) # arith.extsi: s is read as signed, and has wrapped

A use may also follow a loop that carries the result.

If the only use of a result is a store, the result is unsigned if the tensor contains unsigned
integers. Otherwise, a 32-bit result is treated as signed, because nearly all of torch's integers
are signed. A narrower result, or a truncated integer, is reported only if it is wrong under both
interpretations.

Losing bits on purpose is not a defect. This applies to products with large constants, to functions
of Triton's own library (random numbers, for example), and to truncation after a bit operation. Bit
operations, remainders and comparisons end the propagation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from ttools.core.location import user_location
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import (
    FloatType,
    Operation,
    Value,
    as_signed,
    element_type,
)
from ttools.ir.combining import combined_by
from ttools.ir.dataflow import passings, reachable
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import READS, STRUCTURED, TERMINATOR, WRITES
from ttools.ir.rewriting import Builder
from ttools.ir.semantics import width_of
from ttools.sanitizer.analysis.dataflow import constant_of, parameter_of
from ttools.sanitizer.passes.exact_integers import ExactIntegers, combination, unsigned
from ttools.sanitizer.passes.lanes import compare_floats, float_constant, outside

#: Suffixes of operations that convert floats to signed and to unsigned integers.
_CONVERSIONS = ("tosi", "toui")
#: Suffix of the operation that truncates integers.
_CUT = "trunci"
#: Suffixes of operations whose results are truncated on purpose; a remainder either fits or is a
#: hash.
_PACKING = ("andi", "ori", "xori", "shli", "shrui", "shrsi", "remsi", "remui", "_to_int", "mulhiui")
_DEEPEST = 8
#: Names of the results of operations that may wrap.
_COMPUTED = ("sum", "difference", "product")
#: Constants of at least this magnitude are regarded as factors of hashes and random number
#: generators.
_LEAST_OF_HASHES = 1 << 16
_Extension: TypeAlias = Callable[[Builder, Value], Value]
_RULES = ExactIntegers(frozenset())


def may_lose(op: Operation) -> str:
    """Describe how an integer result of an operation may be wrong; empty if it never is."""
    if not op.results or not 8 <= width_of(op.results[0]) < 64:
        return ""
    result = f"int{width_of(op.results[0])}"
    if op.name.endswith(_CONVERSIONS):
        sign = "" if op.name.endswith(_CONVERSIONS[0]) else "u"
        return f"a float that does not fit in {sign}{result} is converted to it"
    combine = combined_by(op)
    is_own = op.location is None or user_location(op.location) == op.location
    if op.name.endswith(_CUT):
        on_purpose = not is_own or _is_packed(op.operands[0])
        what = f"an int{width_of(op.operands[0])} that does not fit in {result} is converted to it"
        return "" if on_purpose else what
    noun = declared(combine or op.name).noun
    if noun not in _COMPUTED:
        return ""
    if combine is not None:
        return f"the {result} {noun} of several elements wraps around"
    on_purpose = not is_own or any(map(_is_of_hash, op.operands))
    return "" if on_purpose else f"an {result} {noun} wraps around"


def _is_packed(value: Value, depth: int = 0) -> bool:
    """Return whether an integer is computed by bit operations or is part of a hash."""
    op = value.defining_op
    if op is None or depth > _DEEPEST:
        return False
    if op.name.endswith(_PACKING) or _is_of_hash(value):
        return True
    return not op.has(READS) and any(_is_packed(operand, depth + 1) for operand in op.operands)


def _is_of_hash(value: Value) -> bool:
    data = constant_of(value)
    return data is not None and any(
        abs(as_signed(bits, width_of(value))) >= _LEAST_OF_HASHES for bits in data.bits
    )


def propagates(op: Operation, value: Value) -> bool:
    """Return whether a wrong operand makes the result of an operation wrong."""
    result = element_type(op.results[0].type)
    return isinstance(result, FloatType) or any(value is flowing for flowing in _RULES.flowing(op))


class Unsigned:
    """Accesses to tensors of unsigned integers.

    Args:
        parameters: Indices of the parameters that are pointers to unsigned integers.
    """

    def __init__(self, kernel: Operation, parameters: Collection[int]) -> None:
        self._provenance, self._parameters = Provenance(kernel), parameters

    def takes(self, op: Operation, value: Value) -> bool:
        """Return whether an operation stores `value` to such a tensor."""
        return op.has(WRITES) and op.operand("value") is value and self._leads(op)

    def gives(self, value: Value) -> bool:
        """Return whether a value was loaded from such a tensor, or was not loaded at all."""
        op = value.defining_op
        return op is None or not op.has(READS) or self._leads(op)

    def _leads(self, op: Operation) -> bool:
        if not self._parameters:
            return False
        return parameter_of(op.address, self._provenance) in self._parameters


def is_lost(b: Builder, op: Operation, stores: Unsigned) -> Value:
    """Build the condition that the result of an operation is wrong.

    Args:
        b: Builder positioned at the place of the condition.
        op: An operation for which the result of `may_lose` is not empty.
        stores: Accesses to tensors of unsigned integers, from which the interpretation is inferred.
    """
    if op.name.endswith(_CONVERSIONS):
        return _does_not_fit(b, op)
    if op.name.endswith(_CUT):
        return _is_cut(b, op)
    condition = None
    for extended in _readings(op, stores):
        wide = [extended(b, value) for value in op.operands]
        combine = combined_by(op)
        if combine is None:
            exact = b.binary(op.name.removeprefix("arith."), *wide)
        else:
            exact = combination(b, op, wide[0], combine)
        differs = b.compare("ne", exact, extended(b, op.results[0]))
        condition = differs if condition is None else b.binary("andi", condition, differs)
    assert condition is not None
    return condition


def _signed(b: Builder, value: Value) -> Value:
    return b.signed(value, 64)


def _is_cut(b: Builder, op: Operation) -> Value:
    """Build the condition that a truncation changes the integer under both interpretations."""
    value, narrow = op.operands[0], op.results[0]
    back = [b.cast(narrow, element_type(value.type), f"arith.ext{sign}i") for sign in "su"]
    return b.binary("andi", *(b.compare("ne", value, extended) for extended in back))


def _readings(op: Operation, stores: Unsigned) -> list[_Extension]:
    """Return how the uses of a result extend it: by sign, by zero, or both if ambiguous."""
    result = op.results[0]
    users = (user for value in reachable([result], _receivers) for user, _ in value.uses)
    readings = {reading for user in users if (reading := _reading(user)) is not None}
    if len(readings) == 1:
        return list(readings)
    is_stored = any(stores.takes(user, result) for user, _ in result.uses)
    if not readings and is_stored and all(map(stores.gives, op.operands)):
        return [unsigned]
    return [_signed] if readings or width_of(result) == 32 else [_signed, unsigned]


def _receivers(value: Value) -> Iterator[Value]:
    """Yield the values to which loops and branches pass a value, such as the result of a loop."""
    for user, _ in value.uses:
        holder = user.parent_op if user.has(TERMINATOR) else user
        if holder is not None and holder.has(STRUCTURED):
            for passing in passings(holder):
                # While shadows are being built, a loop may have more results than values passed to
                # it.
                for passed, receiver in zip(passing.values, passing.receivers, strict=False):
                    if passed is value:
                        yield receiver


def _reading(op: Operation) -> _Extension | None:
    """Return how an operation extends its integer operands; None if their sign does not matter."""
    predicate = op.attributes.get("predicate")
    if op.name.endswith(("si", "sitofp")) or predicate in ("slt", "sle", "sgt", "sge"):
        return _signed
    if op.name.endswith(("ui", "uitofp")) or predicate in ("ult", "ule", "ugt", "uge"):
        return unsigned
    return None


def _does_not_fit(b: Builder, op: Operation) -> Value:
    """Build the condition that a float is NaN or does not fit in the integer type of the result."""
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
