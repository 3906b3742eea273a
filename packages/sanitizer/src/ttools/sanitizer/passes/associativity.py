"""The pass for `not_associative`: combine functions whose results depend on the grouping.

Triton requires the function of a reduction or scan to be associative, because a GPU groups the
elements differently than a loop does. The pass tests the function on triples of neighbouring
elements of the launch:

    (a . b) . c  !=  a . (b . c)

Floats are combined in 64 bits, in which the rounding errors of an associative function are far
smaller than the differences that are reported. Triples with infinities and NaN are not tested. To
save time, only the first program of a launch is tested.

Functions of Triton's library, sums, products, minima and maxima are not tested, and neither are
functions with branches, loops, calls or operations on the bits of floats.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import ttools.interpreter.elementwise as elementwise
from ttools.core.location import source_lines, user_location
from ttools.core.syntax_trees import functions_around
from ttools.ir import (
    FloatType,
    IntegerType,
    Module,
    Operation,
    TensorType,
    Type,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.combining import combined_by
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import CAST, CHOOSES, COMMUTATIVE, CONSTANT, PURE
from ttools.ir.rewriting import Builder, Rewriter, with_element
from ttools.sanitizer.analysis.dataflow import operations
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.lanes import compare_floats, float_constant, within

_DOUBLE, _INDEX = FloatType("f64"), IntegerType(32)
#: Smallest relative difference that is reported.
_DIFFERENCE = 1e-4
_HELP = (
    "combine tuples that make it associative, such as (factor, value) for `a * factor + b`, or "
    "compute in a loop if the order matters"
)
_Values = Sequence[Value]


def combinations(module: Module) -> Sequence[Operation]:
    """Return the reductions and scans whose functions are tested."""
    return [op for op in operations(module.kernel) if op.regions and _is_tested(op)]


def _is_tested(op: Operation) -> bool:
    # A map has no axis.
    if "axis" not in op.attributes or shape_of(op.operands[0].type)[op.axis] < 3:
        return False
    simple = combined_by(op)
    if simple is not None and COMMUTATIVE in declared(simple).traits:
        return False
    body = op.regions[0]
    if len(body.blocks) != 1 or not all(map(_is_supported, body.entry.operations[:-1])):
        return False
    numbers = (element_type(value.type) for value in (*op.operands, *op.results))
    # For Triton's own functions, the location of the result is in the user's line.
    own = [inner.location for inner in body.entry.operations[:-1] if inner.location is not None]
    return all(isinstance(number, (FloatType, IntegerType)) for number in numbers) and any(
        user_location(location) == location for location in own
    )


def _is_supported(op: Operation) -> bool:
    if op.has(CONSTANT):
        return True
    kinds = {type(element_type(value.type)) for value in (*op.operands, *op.results)}
    is_bitcast = op.has(CAST) and op.has(CHOOSES) and len(kinds) > 1
    return op.has(PURE) and elementwise.is_elementwise(op.name) and not is_bitcast


def apply(module: Module) -> list[Note]:
    """Insert the checks into a module without calls."""
    rewriter = Rewriter()
    for op in combinations(module):
        b = rewriter.before(op)
        first = [
            b.compare(
                "eq", b.value("tt.get_program_id", [], _INDEX, {"axis": axis}), _zero(b, _INDEX)
            )
            for axis in range(3)
        ]
        condition = b.binary("andi", b.binary("andi", *first[:2]), first[2])
        arms = [b.region([], _arm(op)), b.region([], lambda arm, _: [])]
        b.operation("scf.if", [condition], regions=arms)
    rewriter.apply()
    return []


def _arm(op: Operation) -> Callable[[Builder, _Values], list[Value]]:
    def fill(b: Builder, _: _Values) -> list[Value]:
        _check(b, op)
        return []

    return fill


def _check(b: Builder, op: Operation) -> None:
    """Insert one check for each result of a reduction or scan."""
    triple = [[_double(b, value) for value in _moved(b, op, distance)] for distance in range(3)]
    if op.attributes.get("reverse"):
        triple.reverse()
    first, second, third = triple
    left = _combined(b, op, _combined(b, op, first, second), third)
    right = _combined(b, op, first, _combined(b, op, second, third))
    inside = b.compare("slt", _position(b, op), _index(b, op, shape_of(first[0].type)[op.axis] - 2))
    for value in chain(first, second, third, left, right):
        if isinstance(element_type(value.type), FloatType):
            inside = within(b, inside, _is_finite(b, value))
    for n, (one, other) in enumerate(zip(left, right, strict=True)):
        values = (first[n], second[n], third[n])
        shown = [*zip(("a", "b", "c"), values, strict=True), ("(a∘b)∘c", one), ("a∘(b∘c)", other)]
        defect = Defect(
            check="racecheck",
            kind="not_associative",
            message=f"{_named(op)} is not associative: (a∘b)∘c and a∘(b∘c) differ, and a GPU "
            "groups the elements differently",
            location=op.location,
            help=_HELP,
        )
        insert_check(b, within(b, _differ(b, one, other, values), inside), defect, shown)


def _named(op: Operation) -> str:
    """Return the name of the combine function and the line of its result."""
    inner = op.regions[0].entry.operations[:-1][-1].location
    around = functions_around("".join(source_lines(inner.file)), inner.line) if inner else []
    return f"`{around[-1].name}` (line {inner.line})" if inner and around else "the function"


def _moved(b: Builder, op: Operation, distance: int) -> list[Value]:
    """Return the operands shifted by some lanes along the axis; the last lane is repeated."""
    if not distance:
        return list(op.operands)
    last = shape_of(op.operands[0].type)[op.axis] - 1
    position = b.binary("addi", _position(b, op), _index(b, op, distance))
    position = b.binary("minsi", position, _index(b, op, last))
    axis = {"axis": op.axis}
    return [b.value("tt.gather", [v, position], v.type, axis) for v in op.operands]


def _position(b: Builder, op: Operation) -> Value:
    return b.coordinate(shape_of(op.operands[0].type), op.axis)


def _index(b: Builder, op: Operation, number: int) -> Value:
    return b.constant(TensorType(shape_of(op.operands[0].type), _INDEX), number)


def _zero(b: Builder, type: Type) -> Value:
    return b.constant(type, 0)


def _double(b: Builder, value: Value) -> Value:
    """Convert a float to 64 bits; return integers unchanged."""
    element = element_type(value.type)
    if not isinstance(element, FloatType) or element == _DOUBLE:
        return value
    return b.cast(value, _DOUBLE, "arith.extf")


def _combined(b: Builder, op: Operation, one: _Values, other: _Values) -> list[Value]:
    """Insert the operations of the combine function, on tiles and with 64-bit floats."""
    block, like = op.regions[0].entry, one[0].type
    copies: dict[Value, Value] = dict(zip(block.arguments, (*one, *other), strict=True))
    for inner in block.operations[:-1]:
        _insert(b, inner, like, copies)
    return [_operand(b, value, like, copies) for value in block.terminator.operands]


def _insert(b: Builder, op: Operation, like: Type, known: dict[Value, Value]) -> None:
    if op.has(CONSTANT):
        constant = b.operation(op.name, [], [op.result.type], op.attributes).result
        known[op.result] = _double(b, b.spread(constant, like))
        return
    operands = [_operand(b, value, like, known) for value in op.operands]
    types = [with_element(like, _widened(result.type)) for result in op.results]
    if op.has(CAST) and types == [operands[0].type]:
        known[op.result] = operands[0]  # a conversion between types of floats
        return
    results = b.operation(op.name, operands, types, op.attributes).results
    known.update(zip(op.results, results, strict=True))


def _operand(b: Builder, value: Value, like: Type, known: Mapping[Value, Value]) -> Value:
    # Constants may be defined outside the region.
    return known[value] if value in known else _double(b, b.spread(value, like))


def _widened(type: Type) -> Type:
    return _DOUBLE if isinstance(type, FloatType) else type


def _differ(b: Builder, one: Value, other: Value, values: _Values) -> Value:
    """Build the condition that two results differ by more than rounding."""
    if not isinstance(element_type(one.type), FloatType):
        return b.compare("ne", one, other)
    scale = _absolute(b, one)
    for value in (other, *values):
        scale = b.binary("maxnumf", scale, _absolute(b, value))
    allowed = b.binary("mulf", scale, _number(b, one.type, _DIFFERENCE))
    difference = _absolute(b, b.binary("subf", one, other))
    return compare_floats(b, "ogt", difference, allowed)


def _is_finite(b: Builder, value: Value) -> Value:
    infinity = _number(b, value.type, float("inf"))
    return compare_floats(b, "olt", _absolute(b, value), infinity)


def _absolute(b: Builder, value: Value) -> Value:
    return b.value("math.absf", [value], value.type)


def _number(b: Builder, type: Type, number: float) -> Value:
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    return float_constant(b, type, bits)
