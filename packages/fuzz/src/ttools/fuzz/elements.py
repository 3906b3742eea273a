"""Element types: their names in Triton and torch, and their representation in NumPy.

`i1` is NumPy's boolean type; bf16 and the 8-bit floats are types of ml_dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Kind = Literal["bool", "signed", "unsigned", "float", "pointer"]


@dataclass(frozen=True)
class Element:
    """A scalar type.

    Attributes:
        name: Short name as in MLIR, except that unsigned types have names of their own.
        kind: Class of arithmetic: signed, unsigned, float and so on.
        bits: Width of an element in bits.
        triton: Name of the type in `triton.language`.
        torch: Name of the type in `torch`.
        numpy: NumPy type that the oracle uses.
        digits: Significand bits of a float, the hidden one included.
    """

    name: str
    kind: Kind
    bits: int
    triton: str
    torch: str
    numpy: Any
    digits: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Elements are compared by identity, so unpickling must return the existing object.
        return _by_name, (self.name,)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def low(self) -> int:
        return -(2 ** (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def high(self) -> int:
        return int(2 ** (self.bits - (self.kind == "signed"))) - 1

    @property
    def largest(self) -> float:
        """Return the largest finite value of a float type."""
        return float(ml_dtypes.finfo(self.numpy).max)  # type: ignore[no-untyped-call]


I1 = Element("i1", "bool", 1, "int1", "bool", np.bool_)
I8 = Element("i8", "signed", 8, "int8", "int8", np.int8)
I16 = Element("i16", "signed", 16, "int16", "int16", np.int16)
I32 = Element("i32", "signed", 32, "int32", "int32", np.int32)
I64 = Element("i64", "signed", 64, "int64", "int64", np.int64)
U8 = Element("u8", "unsigned", 8, "uint8", "uint8", np.uint8)
U16 = Element("u16", "unsigned", 16, "uint16", "uint16", np.uint16)
U32 = Element("u32", "unsigned", 32, "uint32", "uint32", np.uint32)
U64 = Element("u64", "unsigned", 64, "uint64", "uint64", np.uint64)
F16 = Element("f16", "float", 16, "float16", "float16", np.float16, 11)
BF16 = Element("bf16", "float", 16, "bfloat16", "bfloat16", ml_dtypes.bfloat16, 8)
F32 = Element("f32", "float", 32, "float32", "float32", np.float32, 24)
F64 = Element("f64", "float", 64, "float64", "float64", np.float64, 53)
FP8E5 = Element("fp8e5", "float", 8, "float8e5", "float8_e5m2", ml_dtypes.float8_e5m2, 3)
FP8E4NV = Element("fp8e4nv", "float", 8, "float8e4nv", "float8_e4m3fn", ml_dtypes.float8_e4m3fn, 4)
#: Addresses of a buffer's elements; the oracle represents them as indices.
POINTER = Element("pointer", "pointer", 64, "", "", np.int64)

SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (F16, BF16, F32, F64)
FP8 = (FP8E5, FP8E4NV)
ELEMENTS = (I1, *INTEGERS, *FLOATS, *FP8)
BY_NAME = {element.name: element for element in (*ELEMENTS, POINTER)}


def _by_name(name: str) -> Element:
    return BY_NAME[name]


def promoted(a: Element, b: Element) -> Element:
    """Return the type in which Triton combines two tensors (`computation_type_impl`)."""
    if a is b:
        return a
    for wide in (F64, F32):
        if wide in (a, b):
            return wide
    if F16 in (a, b):
        return F16
    if BF16 in (a, b):
        return F32
    if a.kind == b.kind or "bool" in (a.kind, b.kind):
        return a if a.bits > b.bits else b
    unsigned, signed = (a, b) if a.kind == "unsigned" else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed
