"""Floating-point operations that one execution of an operation performs, by the executing unit.

Operations are counted as in NVIDIA's profilers: an addition or multiplication counts as one
operation per lane, a fused multiply-add as two, and a matrix product as two for each result and
element of the inner dimension. Elementary functions, divisions and comparisons are counted
separately, because other units execute them.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod

from ttools.ir import FloatType, Operation, TensorType, element_type, shape_of
from ttools.ir.dialects.traits import COMBINES, CROSS_LANE

#: Triton's names of float types.
_NAMES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}

#: Units whose operations are not included in the floating-point operations that reports show.
OTHER_UNITS = ("compare", "divide", "function", "library", "integer")
#: The names in reports of those units whose operations are on floats.
OTHER_NAMES = {
    "compare": "comparisons",
    "divide": "divisions",
    "function": "elementary functions",
    "library": "library calls",
}


def is_product(op: Operation) -> bool:
    """Return whether an operation multiplies two matrices."""
    return op.has(CROSS_LANE) and op.operand("b") is not None


def cost(op: Operation) -> Counter[str]:
    """Return the number of operations that one execution performs, by unit.

    Units are `fp32`, `dot fp16` and the like, `function`, `divide`, `compare`, and `library` for
    calls of libdevice. A product that is split into several products of narrower numbers is counted
    once, for example as `dot tf32x3`; a product that accumulates in fp16 is `dot fp16 (fp16 sums)`.
    """
    if op.has(COMBINES):
        return _combined(op)
    if is_product(op):
        return _dot(op)
    operation = op.declaration
    if not operation.unit:
        return Counter()
    unit: str = operation.unit
    if unit == "arithmetic":
        element = element_type(op.results[0].type)
        unit = type_name(element) if isinstance(element, FloatType) else "integer"
    lanes = prod(shape_of(op.results[0].type))
    return Counter({unit: lanes * operation.operations_per_lane})


def type_name(element: object) -> str:
    """Return the name of a type in Triton's source: `fp16`, `bf16`, `fp8e4nv`."""
    name = str(element)
    return _NAMES.get(name, name)


def _dot(op: Operation) -> Counter[str]:
    a = op.operands[0].type
    assert isinstance(a, TensorType)
    unit, count = type_name(a.element), 2 * prod(shape_of(op.results[0].type)) * a.shape[-1]
    # MLIR's text omits the attribute if it has its default, `ieee`.
    precision = op.attributes.get("inputPrecision", "ieee")
    if op.name == "tt.dot" and unit == "fp32" and precision == "ieee":
        return Counter({unit: count})
    if op.name == "tt.dot" and isinstance(precision, str) and _PARTS.fullmatch(precision):
        return Counter({f"dot {precision}": count})
    # A byte holds two values of 4 bits.
    packed = op.name == "tt.dot_scaled" and op.attributes.get("lhs_k_pack", True) is not False
    count = 2 * count if packed and unit == "i8" else count
    sums = " (fp16 sums)" if str(element_type(op.results[0].type)) == "f16" else ""
    return Counter({f"dot {unit}{sums}": count})


#: Precisions at which a product is computed as several products of narrower numbers.
_PARTS = re.compile(r"(tf32|bf16)x\d")


def _combined(op: Operation) -> Counter[str]:
    """Return the cost of an operation with a region that is executed for each combined element."""
    if op.name == "tt.map_elementwise":
        steps = prod(shape_of(op.results[0].type))
    else:
        shape, axis = shape_of(op.operands[0].type), op.attributes.get("axis", 0)
        assert isinstance(axis, int)
        steps = prod(shape) // max(1, shape[axis]) * (shape[axis] - 1)
    per_step = sum((cost(inner) for inner in op.regions[0].entry.operations), Counter[str]())
    return Counter({unit: number * steps for unit, number in per_step.items()})
