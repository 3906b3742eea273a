"""What one execution of an operation costs: floating-point operations by the unit that does them.

As NVIDIA's profilers count: additions and products are one operation per lane, fused ones two, a
matrix product two per element of its inner dimension. Elementary functions, divisions and
comparisons are counted apart, since they go to other units. Must not know how often anything runs.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from ttools.interpreter.ir import FloatType, Operation, TensorType, element_type, shape_of

#: Operations of an arithmetic unit, by lane; the unit is the type they work on.
_ARITHMETIC = {
    "arith.addf": 1,
    "arith.subf": 1,
    "arith.mulf": 1,
    "math.fma": 2,
}
_COMPARISONS = {
    *("arith.cmpf", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"),
    *("tt.clampf", "math.clampf"),
}
_DIVISIONS = {"arith.divf", "arith.remf", "tt.precise_divf"}
#: Of `math`, what is no elementary function.
_NO_FUNCTION = {
    *("math.fma", "math.absf", "math.copysign", "math.floor", "math.ceil", "math.trunc"),
    *("math.round", "math.roundeven", "math.isnan", "math.isinf", "math.isfinite"),
    *("math.isnormal", "math.absi", "math.ctlz", "math.ctpop", "math.cttz", "math.ipowi"),
    *("math.clampf",),
}
#: Names of float types as Triton writes them.
_NAMES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}

#: Names of units that do no floating-point operations in the sense of a peak rate.
OTHER_UNITS = ("compare", "divide", "function")


def cost(op: Operation) -> Counter[str]:
    """Operations of one execution by unit: `fp32`, `dot fp16`, `function`, `divide`, `compare`."""
    rule = _WITH_REGIONS.get(op.name)
    if rule is not None:
        return rule(op)
    if op.name in ("tt.dot", "tt.dot_scaled"):
        return _dot(op)
    if not op.results:
        return Counter()
    lanes = prod(shape_of(op.results[0].type))
    unit, each = _per_lane(op)
    return Counter({unit: lanes * each}) if each else Counter()


def _per_lane(op: Operation) -> tuple[str, int]:
    if op.name in _ARITHMETIC:
        return _unit(element_type(op.results[0].type)), _ARITHMETIC[op.name]
    if op.name in _COMPARISONS:
        return "compare", 1
    if op.name in _DIVISIONS:
        return "divide", 1
    if op.name.startswith("math.") and op.name not in _NO_FUNCTION:
        return "function", 1
    if op.name in ("tt.extern_elementwise", "tt.precise_sqrt"):
        return "function", 1
    return "", 0


def _unit(element: object) -> str:
    return type_name(element) if isinstance(element, FloatType) else "integer"


def type_name(element: object) -> str:
    """`fp16`, `bf16`, `fp8e4nv`: a type as Triton's users write it."""
    name = str(element)
    return _NAMES.get(name, name)


def _dot(op: Operation) -> Counter[str]:
    a = op.operands[0].type
    assert isinstance(a, TensorType)
    # What is the default is not printed.
    precision = op.attributes.get("inputPrecision", "ieee")
    if op.name == "tt.dot" and str(element_type(a)) == "f32" and precision == "ieee":
        return Counter({"fp32": 2 * prod(shape_of(op.results[0].type)) * a.shape[-1]})
    result = op.results[0].type
    inner = a.shape[-1]
    # Two values of 4 bits lie in a byte.
    if op.name == "tt.dot_scaled" and op.attributes.get("lhs_k_pack", True) is not False:
        inner *= 2 if str(element_type(a)) == "i8" else 1
    return Counter({f"dot {type_name(element_type(a))}": 2 * prod(shape_of(result)) * inner})


def _reduce(op: Operation) -> Counter[str]:
    """Each line is combined in one step less than it has elements."""
    shape = shape_of(op.operands[0].type)
    axis = op.attributes.get("axis", 0)
    assert isinstance(axis, int)
    steps = prod(shape) // max(1, shape[axis]) * (shape[axis] - 1)
    return _times(_body(op), steps)


def _map(op: Operation) -> Counter[str]:
    return _times(_body(op), prod(shape_of(op.results[0].type)))


def _body(op: Operation) -> Counter[str]:
    found: Counter[str] = Counter()
    for inner in op.regions[0].entry.operations:
        found += cost(inner)
    return found


def _times(each: Counter[str], count: int) -> Counter[str]:
    return Counter({unit: number * count for unit, number in each.items()})


_WITH_REGIONS = {
    "tt.reduce": _reduce,
    "tt.scan": _reduce,
    "tt.map_elementwise": _map,
}
