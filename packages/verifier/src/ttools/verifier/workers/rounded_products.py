"""Finds matrix products in a kernel whose float32 operands a GPU rounds to tf32."""

from __future__ import annotations

from functools import lru_cache

from ttools.ir import FloatType, element_type
from ttools.ir.parser import parse_module

_PRECISION = "inputPrecision"


@lru_cache(maxsize=256)
def rounded_products(ttir: str) -> tuple[str, ...]:
    """Return the places of the products that are rounded, in the form `FILE:LINE:COLUMN`.

    Products that are split into three or more parts (`tf32x3`) are left out, because they are
    nearly as accurate as float32 products.
    """
    if _PRECISION not in ttir:
        return ()
    places = {
        str(op.location): None
        for op in parse_module(ttir).walk()
        if op.attributes.get(_PRECISION) == "tf32"
        and element_type(op.operands[0].type) == FloatType("f32")
        and op.location is not None
    }
    return tuple(places)
