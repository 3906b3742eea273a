"""The pass that screens a launch for losses of accuracy: a kernel that also computes exact values.

Each float of 16 or 32 bits gets an exact value in float64, computed by the same operation from the
exact values of the operands. A value whose exact value is the value itself, such as an input, needs
none. The rules are those of `accuracy.rules`, so that a launch without defects in these rules needs
no repetition in Python. For example:

    x = load(p)                # exact by definition
    y = exp(x)                 y' = exp(x as f64)
    s = sum(y)                 s' = sum(y')
    store(q, y / s)            store(shadow of q, y' / s'); flag |= |y / s - y' / s'| > allowed

Integers, masks, addresses and control flow are those of the kernel. Exact values of elements in
memory are in shadow memory, in which NaN stands for an element that is exact. A program sets its
flag if it may have a finding: a stored element has a larger error than rounding explains, a
comparison of exact values has a different result, a reduction counts lanes that a mask leaves out,
or a number that is not finite becomes an integer.

On request, the kernel also estimates how sensitive each output is to its inputs, in the way that
`docs/design/accuracy.md` derives: each input changes by a random number of a Cauchy distribution,
and each value has some rows with its change to first order.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.emit.instruments.probe import SHADOW
from ttools.ir import (
    Block,
    FloatType,
    IntegerType,
    Module,
    Operation,
    PointerType,
    Region,
    TensorType,
    Type,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.combining import chooses, combined_by
from ttools.ir.dialects.traits import CONSTANT, LOADS, PURE, READS, STRUCTURED, TERMINATOR
from ttools.ir.numpy_types import numpy_type
from ttools.ir.rewriting import (
    Builder,
    Rewriter,
    add_argument,
    add_operand,
    add_parameter,
    with_element,
)
from ttools.ir.semantics import is_view
from ttools.sanitizer.accuracy.functions import is_rounding, library_function, library_name
from ttools.sanitizer.accuracy.rules.reductions import NEUTRAL
from ttools.sanitizer.accuracy.verdicts import ALLOWED_BY_SENSITIVITY, allowed_by_rounding
from ttools.sanitizer.analysis.dataflow import constant_of, operations, parameter_of
from ttools.sanitizer.passes.check import Note
from ttools.sanitizer.passes.lanes import (
    any_lane,
    compare_floats,
    float_constant,
    lane_type,
    outside,
    unmarked,
    within,
)
from ttools.sanitizer.passes.shadow_memory import ShadowMemory, add_hidden_parameters
from ttools.sanitizer.passes.tracking import Demand, Key, Lookup, State, Tracking

_WORD = IntegerType(32)
_SINGLE, _DOUBLE = FloatType("f32"), FloatType("f64")
#: Types of the values that have exact values.
_FOLLOWED = ("f16", "bf16", "f32")
#: The exact value of a value; the lanes that are computed from lanes left out by a mask.
_EXACT, _PADDED = "exact", "padded"
_STATE: dict[str, State] = {key: {key: None} for key in (_EXACT, _PADDED)}
_FUNCTIONS = (
    *("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf"),
    *("absf", "fma"),
)
#: Operations on floats, and the operations that compute their exact results in float64.
_SMOOTH = {
    **{f"arith.{name}": f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "negf")},
    **{f"math.{name}": f"math.{name}" for name in _FUNCTIONS},
    "tt.precise_divf": "arith.divf",
    "tt.approx_divf": "arith.divf",
    "tt.precise_sqrt": "math.sqrt",
}
#: Operations that choose one of their operands. Their exact results are those of the same operation
#: on exact values, which differ from the kernel's choice by no more than the errors.
_EXTREMES = ("arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf", "tt.clampf")
_CASTS = ("arith.extf", "arith.truncf", "tt.fp_to_fp")
_FROM_INTEGERS = ("arith.sitofp", "arith.uitofp")
_TO_INTEGERS = ("arith.fptosi", "arith.fptoui")
#: Operations that round on purpose: exact values restart from their results.
_ROUNDING = ("math.floor", "math.ceil")
_MOVES = ("tt.cat", "tt.gather", "arith.select")
#: Operations that only read floats.
_READING = (*_TO_INTEGERS, "arith.cmpf", "tt.store", "tt.print")
#: Random numbers have no exact values, see `rules.elementwise`.
_RANDOM = "triton/language/random.py"
_INFINITY = float("inf")

#: Number of rows from which the sensitivity of an output is estimated.
ROWS = 4

_Values: TypeAlias = "Sequence[Value]"
_Derivative: TypeAlias = "Callable[[Builder, _Values, Value, _Values], Value]"
#: The values whose shadows a check needs, and a function that inserts it.
_Site: TypeAlias = "tuple[list[Demand], Callable[[], None]]"


def apply(module: Module, tracked: Sequence[int], *, follows_inputs: bool = False) -> list[Note]:
    """Insert exact values and checks into a kernel without calls, for which `unsupported` is empty.

    Args:
        module: The module to rewrite.
        tracked: Indices of the parameters whose memory has shadows. All float tensors that the
            launch writes are among them.
        follows_inputs: If True, larger errors are allowed where an output is sensitive to changes
            of its inputs; `without_derivative` must be empty.
    """
    kernel = module.kernel
    provenance, rewriter = Provenance(kernel), Rewriter()
    memories = add_hidden_parameters(kernel, tracked)
    flags = add_parameter(kernel, PointerType(_WORD), {"tt.divisibility": 16})
    flag = _own_flag(rewriter.start(kernel.regions[0].entry), flags)
    values = _ExactValues(
        {
            op: memories[index]
            for op in operations(kernel)
            if op.name in ("tt.load", "tt.store")
            and (index := parameter_of(op.address, provenance)) in memories
        },
        range(ROWS if follows_inputs else 0),
        flag,
    )
    tracking = Tracking(kernel, values, rewriter)
    sites = [site for op in operations(kernel) for site in values.sites(op, tracking, rewriter)]
    for demands, _ in sites:
        for value, key in demands:
            tracking.demand(value, key)
    tracking.build()
    for _, insert in sites:
        insert()
    rewriter.apply()
    return []


def unsupported(module: Module) -> str:
    """Return the first operation that the pass does not support; empty if there is none."""
    provenance = Provenance(module.kernel)
    for op in operations(module.kernel):
        if not _is_supported(op, provenance):
            return op.name
    return ""


def without_derivative(module: Module) -> str:
    """Return the first operation for which changes of inputs cannot be followed; empty if none."""
    for op in operations(module.kernel):
        if any(map(_is_followed, op.results)) and op.operands:
            if op.name in ("tt.extern_elementwise", "math.erf"):
                return op.name
            if op.name in ("tt.reduce", "tt.scan") and not _is_linear(op):
                return op.name
    return ""


def float_parameters(module: Module) -> dict[int, str]:
    """Return the type of the elements for each parameter that is a pointer to followed floats."""
    types = {
        index: value.type.pointee
        for index, value in enumerate(module.kernel.regions[0].entry.arguments)
        if isinstance(value.type, PointerType)
    }
    return {n: t.name for n, t in types.items() if isinstance(t, FloatType) and t.name in _FOLLOWED}


def loaded_parameters(module: Module) -> frozenset[int]:
    """Return the parameters through which a kernel reads memory, also by atomics."""
    provenance = Provenance(module.kernel)
    return frozenset(
        parameter_of(op.address, provenance) for op in operations(module.kernel) if op.has(READS)
    )


def _is_supported(op: Operation, provenance: Provenance) -> bool:
    values = [*op.operands, *op.results, *(v for r in op.regions for v in _arguments(r))]
    floats = [v for v in values if isinstance(element_type(v.type), FloatType)]
    if not all(map(_is_followed, floats)):
        return False
    name = op.name
    if name in ("tt.bitcast", "tt.int_to_ptr"):
        pointees = [getattr(element_type(v.type), "pointee", None) for v in values]
        if any(isinstance(pointee, FloatType) for pointee in pointees):
            return False
    if name in ("tt.load", "tt.store"):
        other = op.operand("other")
        is_known = other is None or not floats or constant_of(other) is not None
        return not floats or (is_known and parameter_of(op.address, provenance) >= 0)
    if not floats or op.has(STRUCTURED, TERMINATOR, CONSTANT) or is_view(op):
        return True
    if name in ("tt.reduce", "tt.scan"):
        return _is_computed(op)
    if name in ("tt.bitcast", "arith.bitcast"):
        return not _is_followed(op.results[0])
    if name == "tt.extern_elementwise":
        own = library_name(str(op.attributes.get("symbol")))
        return is_rounding(own) or (_symbol(op) != "" and all(map(_is_followed, op.operands)))
    handled = (*_SMOOTH, *_EXTREMES, *_CASTS, *_FROM_INTEGERS, *_ROUNDING, *_MOVES, *_READING)
    return name in handled or name == "tt.dot"


def _arguments(region: Region) -> Iterator[Value]:
    for block in region.blocks:
        yield from block.arguments


def _is_computed(op: Operation) -> bool:
    """Return whether a combine function can be computed in float64, too."""
    (region,) = op.regions
    inside = set(region.entry.operations)
    handled = (*_SMOOTH, *_EXTREMES, *_CASTS, *_FROM_INTEGERS, "arith.select", "arith.cmpf")
    for inner in region.entry.operations[:-1]:
        floats = [v for v in (*inner.operands, *inner.results) if _is_followed(v)]
        is_known = inner.has(CONSTANT) or not floats or inner.name in handled
        if inner.regions or not inner.has(PURE) or not is_known:
            return False
        for value in inner.operands:
            source = value.defining_op
            if source is not None and source not in inside and not source.has(CONSTANT):
                return False
    return len(region.blocks) == 1


def _is_linear(op: Operation) -> bool:
    """Return whether a reduction or scan adds its elements, or chooses one of them."""
    name = combined_by(op)
    return name == "arith.addf" or (name in _EXTREMES and op.name == "tt.reduce")


def _is_followed(value: Value) -> bool:
    element = element_type(value.type)
    return isinstance(element, FloatType) and element.name in _FOLLOWED


def _symbol(op: Operation) -> str:
    """Return the function of libdevice for doubles that computes the exact result of an operation.

    Returns:
        The empty string if there is no rule for the function.
    """
    name = library_name(str(op.attributes.get("symbol")))
    return f"__nv_{name}" if library_function(name) is not None else ""


def _is_random(op: Operation) -> bool:
    place = op.location
    return place is not None and any(
        location.file.replace("\\", "/").endswith(_RANDOM) for location in (place, *place.callers)
    )


def _rounds_operands(op: Operation) -> bool:
    """Return whether `input_precision` makes a product round its float32 operands."""
    both = {str(element_type(v.type)) for v in op.operands[:2]}
    return both == {"f32"} and op.attributes.get("inputPrecision", "ieee") != "ieee"


class _ExactValues:
    """The rules by which exact values and padded lanes propagate.

    Args:
        memories: The shadow memory that each load or store accesses, if there is one.
        rows: Keys of the changes of values that result from random changes of the inputs.
        flag: Address of the program's flag, which is set if a check fails.
    """

    def __init__(
        self, memories: Mapping[Operation, ShadowMemory], rows: Sequence[int], flag: Value
    ) -> None:
        self._memories, self._rows, self._flag = memories, rows, flag
        #: The operations that compute all exact results of an operation with several results.
        self._copies: dict[tuple[Operation, Key], Sequence[Value]] = {}

    # ---- the rules of `tracking`
    def transfer(self, op: Operation, index: int, lookup: Lookup) -> State:
        state: dict[Key, Hashable] = {}
        if _is_followed(op.results[index]) and not op.has(CONSTANT):
            if not _is_random(op) and self._is_inexact(op, index, lookup):
                state[_EXACT] = None
            if self._may_be_padded(op, lookup):
                state[_PADDED] = None
            if op.has(LOADS) or (
                op.name not in _ROUNDING
                and any(self._rows[0] in lookup.state(v) for v in op.operands if self._rows)
            ):
                state.update(dict.fromkeys(self._rows))
        return state

    def join(self, first: object, second: object) -> Hashable:
        return None

    def moved(self, target: Value, state: State) -> State:
        return state if _is_followed(target) else {}

    def depends(self, op: Operation, index: int, key: Key, lookup: Lookup) -> Iterator[Demand]:
        for value in self._flowing(op, key):
            if key in lookup.state(value):
                yield value, key

    def build(self, b: Builder, op: Operation, index: int, key: Key, lookup: Lookup) -> Value:
        if key == _PADDED:
            return self._padded(b, op, index, lookup)
        if isinstance(key, int):
            return self._change(b, op, index, key, lookup)
        return self._exact_result(b, op, index, lookup)

    def shadow_type(self, value: Value, key: Key) -> Type:
        if isinstance(key, int):
            return with_element(value.type, _SINGLE)
        return with_element(value.type, _DOUBLE) if key == _EXACT else lane_type(value)

    def default(self, b: Builder, value: Value, key: Key) -> Value:
        if isinstance(key, int):
            return _number(b, with_element(value.type, _SINGLE), 0.0)
        return _extended(b, value) if key == _EXACT else unmarked(b, value)

    # ---- what may reach a value
    def _flowing(self, op: Operation, key: Key) -> list[Value]:
        """Return the operands on whose exact values or marks those of the results depend."""
        if op.has(LOADS) or op.name in _FROM_INTEGERS:
            return []
        if key != _PADDED and op.name in _ROUNDING:
            return []
        return [value for value in op.operands if _is_followed(value)]

    def _is_inexact(self, op: Operation, index: int, lookup: Lookup) -> bool:
        """Return whether the exact value of a result may differ from the result."""
        if op.has(LOADS):
            return op in self._memories
        is_carried = any(_EXACT in lookup.state(v) for v in self._flowing(op, _EXACT))
        moves = is_view(op) or op.name in (*_MOVES, *_EXTREMES, "arith.extf", *_ROUNDING)
        if op.name == "tt.extern_elementwise":
            moves = is_rounding(library_name(str(op.attributes.get("symbol"))))
            is_carried &= not moves
        elif op.name in ("tt.reduce", "tt.scan"):
            moves = combined_by(op) in _EXTREMES or chooses(op, index)
        elif op.name == "tt.dot":
            moves = _rounds_operands(op)
        elif op.name in ("arith.negf", "math.absf"):
            moves = True
        return is_carried or not moves

    def _may_be_padded(self, op: Operation, lookup: Lookup) -> bool:
        if op.has(LOADS):
            return op.mask is not None
        if op.name in ("tt.reduce", "tt.scan") and len(op.operands) > 1:
            return False
        return any(_PADDED in lookup.state(value) for value in self._flowing(op, _PADDED))

    # ---- exact values
    def _exact(self, b: Builder, value: Value, lookup: Lookup) -> Value:
        """Return the exact value of an operand; one that is no followed float is returned as is."""
        shadow = lookup.shadow(value, _EXACT)
        if shadow is not None:
            return shadow
        return _extended(b, value) if _is_followed(value) else value

    def _exact_result(self, b: Builder, op: Operation, index: int, lookup: Lookup) -> Value:
        name, result = op.name, op.results[index]
        type = with_element(result.type, _DOUBLE)
        if op.has(LOADS):
            return self._loaded(b, op)
        if name in _FROM_INTEGERS:
            return b.value(name, op.operands, type)
        if name == "tt.dot":
            return self._product(b, op, lookup)
        if name in ("tt.reduce", "tt.scan"):
            return self._combined(b, op, lookup)[index]
        operands = [self._exact(b, value, lookup) for value in op.operands]
        if name in _CASTS:
            return operands[0]
        attributes = dict(op.attributes)
        if name == "tt.extern_elementwise":
            attributes["symbol"] = _symbol(op)
        if len(op.results) > 1:
            return self._copied(b, op, _EXACT, operands, type)[index]
        return b.value(_SMOOTH.get(name, name), operands, type, attributes)

    def _copied(
        self, b: Builder, op: Operation, key: Key, operands: Sequence[Value], type: Type
    ) -> Sequence[Value]:
        """Return the results of an operation, which all have one type, on shadows."""
        if (op, key) not in self._copies:
            types = [type] * len(op.results)
            self._copies[op, key] = b.operation(op.name, operands, types, op.attributes).results
        return self._copies[op, key]

    def _loaded(self, b: Builder, op: Operation) -> Value:
        cells, exist = self._memories[op].cells(b, op.address, _DOUBLE)
        type = with_element(op.result.type, _DOUBLE)
        nothing = _number(b, type, float("nan"))
        inside = within(b, exist, op.mask)
        exact = b.value("tt.load", [cells, inside, nothing], type, {SHADOW: True})
        is_missing = compare_floats(b, "uno", exact, exact)
        return b.select(is_missing, _extended(b, op.result), exact)

    def _product(self, b: Builder, op: Operation, lookup: Lookup) -> Value:
        like = with_element(op.result.type, _DOUBLE)
        if not _rounds_operands(op):
            operands = [self._exact(b, value, lookup) for value in op.operands]
            return b.value("tt.dot", operands, like, {"inputPrecision": "ieee"})
        # The rounding of the operands to tf32 is requested, so the exact value contains the errors
        # of this product, and differs from it by the errors of the operands to first order.
        left, right, added = op.operands
        total = _extended(b, op.result)
        if lookup.shadow(added, _EXACT) is not None:
            total = b.binary("addf", total, _difference(b, self._exact(b, added, lookup), added))
        for value, place in ((left, 0), (right, 1)):
            if lookup.shadow(value, _EXACT) is not None:
                error = _difference(b, self._exact(b, value, lookup), value)
                factors = [left, right]
                factors[place] = b.cast(error, _SINGLE, "arith.truncf")
                zero = _number(b, with_element(op.result.type, _SINGLE), 0.0)
                change = b.value("tt.dot", [*factors, zero], zero.type, {"inputPrecision": "ieee"})
                total = b.binary("addf", total, _extended(b, change))
        return total

    def _combined(self, b: Builder, op: Operation, lookup: Lookup) -> Sequence[Value]:
        """Return the results of a reduction or scan of exact values."""
        if (op, _EXACT) not in self._copies:
            operands = [self._exact(b, value, lookup) for value in op.operands]
            types = [_widened(result) for result in op.results]
            region = _widened_region(op, b)
            made = b.operation(op.name, operands, types, op.attributes, [region])
            self._copies[op, _EXACT] = made.results
        return self._copies[op, _EXACT]

    # ---- padded lanes
    def _padded(self, b: Builder, op: Operation, index: int, lookup: Lookup) -> Value:
        if op.has(LOADS):
            assert op.mask is not None
            return b.spread(b.negate(op.mask), op.result.type)
        marks = [
            mark if (mark := lookup.shadow(value, _PADDED)) is not None else unmarked(b, value)
            for value in op.operands
            if _is_followed(value)
        ]
        type = lane_type(op.results[index])
        if op.name == "tt.reduce":
            return b.combine("tt.reduce", marks[0], op.axis, "andi")
        if op.name == "tt.scan":
            return marks[0]
        if op.name == "tt.dot":
            return self._padded_product(b, op, marks)
        if is_view(op) or op.name in (*_MOVES, *_EXTREMES[:4]):
            return self._moved(b, op, _PADDED, marks, type)[index]
        return b.any_of(marks)

    def _moved(
        self, b: Builder, op: Operation, key: Key, shadows: Sequence[Value], type: Type
    ) -> Sequence[Value]:
        """Return the shadows of lanes that an operation moves or chooses."""
        if op.name in _EXTREMES:
            order = "oge" if "max" in op.name else "ole"
            return [b.select(compare_floats(b, order, *op.operands), *shadows)]
        own = iter(shadows)
        moved = [next(own) if _is_followed(v) else v for v in op.operands]
        return self._copied(b, op, key, moved, type)

    # ---- changes that result from changes of the inputs
    def _change(self, b: Builder, op: Operation, index: int, row: int, lookup: Lookup) -> Value:
        """Return the change of a result to first order."""
        name, result = op.name, op.results[index]
        type = with_element(result.type, _SINGLE)
        if op.has(LOADS):
            change = b.binary("mulf", _as_single(b, result), _random(b, op.address, row))
            zero = _number(b, type, 0.0)
            return change if op.mask is None else b.select(b.spread(op.mask, type), change, zero)
        operands = [value for value in op.operands if _is_followed(value)]
        rows = [lookup.shadow(value, row) for value in operands]
        changes = [
            self.default(b, value, row) if own is None else own
            for value, own in zip(operands, rows, strict=True)
        ]
        if name == "tt.scan" or (name == "tt.reduce" and combined_by(op) == "arith.addf"):
            reverse = bool(op.attributes.get("reverse"))
            return b.combine(name, changes[0], op.axis, "addf", reverse=reverse)
        if name == "tt.reduce":
            return self._chosen(b, op, changes[0])
        if name == "tt.clampf":
            value, low, high = operands
            inner = b.select(compare_floats(b, "ogt", value, high), changes[2], changes[0])
            return b.select(compare_floats(b, "olt", value, low), changes[1], inner)
        if is_view(op) or name in (*_MOVES, *_EXTREMES):
            return self._moved(b, op, row, changes, type)[index]
        values = [_as_single(b, value) for value in operands]
        if name == "tt.dot":
            return self._changed_product(b, values, changes)
        return _DERIVATIVES[_SMOOTH.get(name, "")](b, values, _as_single(b, result), changes)

    def _chosen(self, b: Builder, op: Operation, change: Value) -> Value:
        """Return the change of a maximum or minimum: that of an element that has this value."""
        (value,) = op.operands
        shape = shape_of(value.type)
        best = op.result
        if isinstance(best.type, TensorType):
            best = b.broadcast(b.expand(best, op.axis), shape)
        else:
            best = b.spread(best, value.type)
        least = _number(b, change.type, -_INFINITY)
        own = b.select(compare_floats(b, "oeq", value, best), change, least)
        return b.combine("tt.reduce", own, op.axis, "maxnumf")

    def _changed_product(
        self, b: Builder, values: Sequence[Value], changes: Sequence[Value]
    ) -> Value:
        total = changes[2]
        for left, right in ((changes[0], values[1]), (values[0], changes[1])):
            attributes = {"inputPrecision": "ieee"}
            total = b.value("tt.dot", [left, right, total], total.type, attributes)
        return total

    def _padded_product(self, b: Builder, op: Operation, marks: Sequence[Value]) -> Value:
        shape = shape_of(op.result.type)
        lines = [
            b.broadcast(b.expand(b.combine("tt.reduce", mark, axis, "andi"), axis), shape)
            for mark, axis in zip(marks, (len(shape) - 1, len(shape) - 2), strict=False)
        ]
        return b.any_of([*lines, marks[2]])

    # ---- checks
    def sites(self, op: Operation, lookup: Lookup, rewriter: Rewriter) -> Iterator[_Site]:
        """Yield the checks of an operation."""
        values = [v for v in op.operands if _is_followed(v)]
        inexact: list[Demand] = [(v, _EXACT) for v in values if _EXACT in lookup.state(v)]
        padded: list[Demand] = [(v, _PADDED) for v in values if _PADDED in lookup.state(v)]
        if op.name == "tt.store" and values:
            if inexact:
                inexact += [(values[0], row) for row in self._rows]
            yield inexact, lambda: self._check_store(rewriter.before(op), op, lookup)
        elif op.name == "arith.cmpf" and inexact:
            yield inexact, lambda: self._check_comparison(rewriter.after(op), op, lookup)
        elif op.name in _TO_INTEGERS and inexact:
            yield [], lambda: self._check_finite(rewriter.before(op), op)
        elif op.name == "tt.reduce" or op.name == "tt.scan":
            if inexact and not all(map(_is_followed, op.results)):
                yield inexact, lambda: self._check_choice(rewriter.after(op), op, lookup)
            if padded and op.name == "tt.reduce" and len(op.operands) == 1:
                yield padded, lambda: self._check_padding(rewriter.after(op), op, lookup)
        elif op.name == "tt.dot":
            factors = [demand for demand in padded if demand[0] is not op.operands[2]]
            yield factors, lambda: self._check_factors(rewriter.before(op), op, lookup)

    def _check(self, b: Builder, condition: Value) -> None:
        """Set the flag of the program if a condition is true in any lane."""
        operands = [self._flag, b.constant(_WORD, 1), any_lane(b, condition)]
        b.operation("tt.store", operands, attributes={SHADOW: True})

    def _check_store(self, b: Builder, op: Operation, lookup: Lookup) -> None:
        _, value, *_ = op.operands
        exact = self._exact(b, value, lookup)
        if op in self._memories:
            cells, exist = self._memories[op].cells(b, op.address, _DOUBLE)
            inside = within(b, exist, op.mask)
            b.operation("tt.store", [cells, exact, inside], attributes={SHADOW: True})
        if lookup.shadow(value, _EXACT) is None:
            return
        element = element_type(value.type)
        assert isinstance(element, FloatType)
        dtype = numpy_type(element.name)
        assert dtype is not None
        relative, absolute = allowed_by_rounding(dtype)
        error = _absolute(b, _difference(b, exact, value))
        scaled = b.binary("mulf", _absolute(b, exact), _number(b, exact.type, relative))
        allowed = b.binary("maxnumf", scaled, _number(b, exact.type, absolute))
        is_right = compare_floats(b, "olt", error, allowed)
        rows = [lookup.shadow(value, row) for row in self._rows]
        if rows and None not in rows:
            # The geometric mean of the rows is the sensitivity; no root is needed to compare it.
            power, product = error, _number(b, error.type, ALLOWED_BY_SENSITIVITY**ROWS)
            for n, row in enumerate(rows):
                assert row is not None
                product = b.binary("mulf", product, _absolute(b, _extended(b, row)))
                power = b.binary("mulf", power, error) if n else power
            is_sensitive = compare_floats(b, "olt", power, product)
            is_right = b.binary("ori", is_right, is_sensitive)
        self._check(b, within(b, b.negate(is_right), op.mask))

    def _check_comparison(self, b: Builder, op: Operation, lookup: Lookup) -> None:
        exact = [self._exact(b, value, lookup) for value in op.operands]
        own = b.value("arith.cmpf", exact, op.result.type, op.attributes)
        self._check(b, b.binary("xori", own, op.result))

    def _check_finite(self, b: Builder, op: Operation) -> None:
        (value,) = op.operands
        self._check(b, b.negate(_is_finite(b, value)))

    def _check_choice(self, b: Builder, op: Operation, lookup: Lookup) -> None:
        for own, result in zip(self._combined(b, op, lookup), op.results, strict=True):
            if not _is_followed(result):
                self._check(b, b.compare("ne", own, result))

    def _check_padding(self, b: Builder, op: Operation, lookup: Lookup) -> None:
        """Check whether the padded lanes of a sum, maximum or minimum change its result."""
        (value,) = op.operands
        mark = lookup.shadow(value, _PADDED)
        assert mark is not None
        name = combined_by(op)
        total = op.result
        others = b.negate(b.combine("tt.reduce", mark, op.axis, "andi"))
        if name == "arith.addf":
            wide = _as_single(b, value)
            zero = _number(b, wide.type, 0.0)
            part = b.select(within(b, mark, _is_finite(b, value)), wide, zero)
            padding = _absolute(b, b.combine("tt.reduce", part, op.axis, "addf"))
            least = b.binary(
                "mulf", _absolute(b, _as_single(b, total)), _number(b, padding.type, NEUTRAL)
            )
            self._check(b, b.binary("andi", others, compare_floats(b, "ogt", padding, least)))
        elif name in _EXTREMES:
            lowest = -_INFINITY if "max" in name else _INFINITY
            rest = b.select(mark, _number(b, value.type, lowest), value)
            best = b.combine("tt.reduce", rest, op.axis, name.removeprefix("arith."))
            differs = compare_floats(b, "one", best, total)
            self._check(b, b.binary("andi", others, within(b, differs, _is_finite(b, best))))

    def _check_factors(self, b: Builder, op: Operation, lookup: Lookup) -> None:
        """Check whether padded lanes of a product's factors add to sums of other lanes."""
        for number, value in enumerate(op.operands[:2]):
            mark = lookup.shadow(value, _PADDED)
            if mark is not None:
                shape = shape_of(value.type)
                axis = len(shape) - 1 - number
                line = b.expand(b.combine("tt.reduce", mark, axis, "andi"), axis)
                counts = compare_floats(b, "one", value, _number(b, value.type, 0.0))
                counts = within(b, within(b, counts, _is_finite(b, value)), mark)
                self._check(b, outside(b, counts, b.broadcast(line, shape)))


def _random(b: Builder, address: Value, row: int) -> Value:
    """Return a random number for each address, whose distribution is nearly a Cauchy distribution.

    A hash of the address is uniformly distributed, and tan(pi/2 u) is about 4/pi u / (1 - u^2).
    """
    bits = b.cast(b.cast(address, IntegerType(64), "tt.ptr_to_int"), _WORD, "arith.trunci")
    bits = b.binary("addi", bits, b.constant(_WORD, 0x3C6EF372 * (row + 1)))
    for factor, shift in ((0x9E3779B1, 15), (0x85EBCA6B, 13), (0xC2B2AE35, 16)):
        bits = b.binary("muli", bits, b.constant(_WORD, factor))
        bits = b.binary("xori", bits, b.binary("shrui", bits, b.constant(_WORD, shift)))
    u = b.cast(bits, _SINGLE, "arith.sitofp")
    u = b.binary("mulf", u, _number(b, u.type, 2.0**-31))
    rest = b.binary("subf", _number(b, u.type, 1.0), b.binary("mulf", u, u))
    rest = b.binary("maxnumf", rest, _number(b, u.type, 2.0**-10))
    return b.binary("divf", b.binary("mulf", u, _number(b, u.type, 4 / math.pi)), rest)


def _scaled(b: Builder, value: Value, number: float) -> Value:
    return b.binary("mulf", value, _number(b, value.type, number))


def _of_product(b: Builder, v: _Values, result: Value, c: _Values) -> Value:
    return b.binary("addf", b.binary("mulf", c[0], v[1]), b.binary("mulf", v[0], c[1]))


def _of_absolute(b: Builder, v: _Values, result: Value, c: _Values) -> Value:
    is_negative = compare_floats(b, "olt", v[0], _number(b, v[0].type, 0.0))
    return b.select(is_negative, _scaled(b, c[0], -1.0), c[0])


def _of_quotient(b: Builder, v: _Values, result: Value, c: _Values) -> Value:
    return b.binary("divf", b.binary("subf", c[0], b.binary("mulf", result, c[1])), v[1])


def _of_rsqrt(b: Builder, v: _Values, result: Value, c: _Values) -> Value:
    return b.binary("divf", b.binary("mulf", _scaled(b, c[0], -0.5), result), v[0])


def _by_function(name: str, factor: float) -> _Derivative:
    """Return the rule of a function whose derivative is another function times a number."""

    def change(b: Builder, v: _Values, result: Value, c: _Values) -> Value:
        slope = b.value(name, [v[0]], v[0].type)
        return _scaled(b, b.binary("mulf", slope, c[0]), factor)

    return change


#: For each operation that is computed lane by lane, the change of its result, from the values of
#: its operands, its result, and the changes of the operands.
_DERIVATIVES: dict[str, _Derivative] = {
    "": lambda b, v, result, c: c[0],
    "arith.addf": lambda b, v, result, c: b.binary("addf", c[0], c[1]),
    "arith.subf": lambda b, v, result, c: b.binary("subf", c[0], c[1]),
    "arith.mulf": _of_product,
    "arith.divf": _of_quotient,
    "arith.negf": lambda b, v, result, c: _scaled(b, c[0], -1.0),
    "math.absf": _of_absolute,
    "math.fma": lambda b, v, result, c: b.binary("addf", _of_product(b, v, result, c), c[2]),
    "math.exp": lambda b, v, result, c: b.binary("mulf", c[0], result),
    "math.exp2": lambda b, v, r, c: _scaled(b, b.binary("mulf", c[0], r), math.log(2)),
    "math.log": lambda b, v, result, c: b.binary("divf", c[0], v[0]),
    "math.log2": lambda b, v, r, c: _scaled(b, b.binary("divf", c[0], v[0]), 1 / math.log(2)),
    "math.sqrt": lambda b, v, result, c: b.binary("divf", _scaled(b, c[0], 0.5), result),
    "math.rsqrt": _of_rsqrt,
    "math.sin": _by_function("math.cos", 1.0),
    "math.cos": _by_function("math.sin", -1.0),
}


def _own_flag(b: Builder, flags: Value) -> Value:
    """Return the address of the running program's flag."""
    number = b.constant(_WORD, 0)
    for axis in (2, 1, 0):
        own, count = (
            b.value(name, [], _WORD, {"axis": axis})
            for name in ("tt.get_program_id", "tt.get_num_programs")
        )
        number = b.binary("addi", b.binary("muli", number, count), own)
    return b.value("tt.addptr", [flags, number], flags.type)


def _extended(b: Builder, value: Value) -> Value:
    return b.cast(value, _DOUBLE, "arith.extf")


def _as_single(b: Builder, value: Value) -> Value:
    return value if element_type(value.type) == _SINGLE else b.cast(value, _SINGLE, "arith.extf")


def _difference(b: Builder, exact: Value, value: Value) -> Value:
    return b.binary("subf", exact, _extended(b, value))


def _absolute(b: Builder, value: Value) -> Value:
    return b.value("math.absf", [value], value.type)


def _is_finite(b: Builder, value: Value) -> Value:
    return compare_floats(b, "olt", _absolute(b, value), _number(b, value.type, _INFINITY))


def _number(b: Builder, type: Type, number: float) -> Value:
    """Return a constant of a float type, whose bits are those of the nearest number."""
    element = element_type(type)
    assert isinstance(element, FloatType)
    if element.name == "f64":
        (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    elif element.name == "f16":
        (bits,) = struct.unpack("<H", struct.pack("<e", number))
    else:
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        bits >>= 32 - element.width
    return float_constant(b, type, bits)


def _widened(value: Value) -> Type:
    return with_element(value.type, _DOUBLE) if _is_followed(value) else value.type


def _widened_region(op: Operation, b: Builder) -> Region:
    """Return a copy of a combine function whose floats are in float64."""
    source = op.regions[0].entry
    block = Block()
    region = Region([block])
    block.parent = region
    inner = Builder(block.operations, block, b.location)
    copies = {old: add_argument(block, _widened(old)) for old in source.arguments}

    def copied(values: Iterable[Value]) -> list[Value]:
        for value in values:
            if value not in copies:  # a constant, possibly outside of the region
                made = value.defining_op
                assert made is not None
                own = inner.value(made.name, [], value.type, made.attributes)
                copies[value] = _extended(inner, own) if _is_followed(value) else own
        return [copies[value] for value in values]

    for old in source.operations[:-1]:
        if old.has(CONSTANT):
            continue
        operands = copied(old.operands)
        if old.name in _CASTS:
            copies[old.result] = operands[0]
            continue
        types = [_widened(result) for result in old.results]
        name = _SMOOTH.get(old.name, old.name)
        made = inner.operation(name, operands, types, old.attributes)
        copies.update(zip(old.results, made.results, strict=True))
    end = Operation(f"{op.name}.return", location=b.location, parent=block)
    for value in copied(source.terminator.operands):
        add_operand(end, value)
    block.operations.append(end)
    return region
