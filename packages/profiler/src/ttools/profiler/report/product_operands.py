"""Finds the loads whose tiles are operands of matrix products, in TTIR."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ttools.core.location import SourceLocation
from ttools.ir import FloatType, IntegerType, Operation, Value, element_type, shape_of
from ttools.ir.dialects.traits import CAST, LOADS
from ttools.ir.parser import parse_module
from ttools.profiler.counting.costs import is_product


@dataclass(frozen=True)
class ProductOperand:
    """An operand of a matrix product that is a loaded tile, possibly converted to a different type.

    Attributes:
        inner: Axis of the tile over which the product sums.
        bits: Width of an element of the operand.
    """

    inner: int
    bits: int


@lru_cache(maxsize=64)
def product_operands(ttir: str) -> dict[SourceLocation, ProductOperand]:
    """Return the operands of matrix products that are loaded tiles, by the location of the load."""
    operands: dict[SourceLocation, ProductOperand] = {}
    for op in parse_module(ttir).walk():
        if not is_product(op):
            continue
        for name, from_end in (("a", 1), ("b", 2)):
            value = op.operand(name)
            load = None if value is None else _load_of(value)
            if value is None or load is None or load.location is None:
                continue
            element = element_type(value.type)
            if isinstance(element, (FloatType, IntegerType)):
                inner = len(shape_of(value.type)) - from_end
                operands[load.location] = ProductOperand(inner, element.width)
    return operands


def _load_of(value: Value) -> Operation | None:
    """Return the load from which a value comes, possibly through casts; None if there is none."""
    op = value.defining_op
    while op is not None and op.has(CAST) and len(op.operands) == 1:
        op = op.operands[0].defining_op
    return op if op is not None and op.has(LOADS) else None
