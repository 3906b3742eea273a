"""Tests of the bit patterns of constants, compared with ml_dtypes, NumPy and MLIR's printer."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools import ir
from ttools.ir.parser import ParseError, parse_module
from ttools.ir.parser.floats import FORMATS

_ORACLES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}


def _constant(literal: str) -> ir.Constant:
    text = f"tt.func @f() {{\n %0 = arith.constant {literal}\n tt.return\n}}"
    constant = parse_module(text).kernel.regions[0].entry.operations[0]
    value = constant.attributes["value"]
    assert isinstance(value, ir.Constant)
    assert constant.result.type == value.type
    return value


def _bits(oracle: type, value: float) -> int:
    with np.errstate(all="ignore"):
        array: Any = np.array(value, dtype=np.float64).astype(oracle)
    return int.from_bytes(array.tobytes(), "little")


def test_every_format_has_an_oracle() -> None:
    assert set(FORMATS) == set(_ORACLES)


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"f64", "f32"}))
def test_every_pattern_encodes_to_itself(name: str) -> None:
    oracle = _ORACLES[name]
    width = FORMATS[name].width
    patterns = np.arange(1 << width, dtype=np.uint16 if width == 16 else np.uint8)
    with np.errstate(all="ignore"):
        values = patterns.view(oracle).astype(np.float64)
    for bits, value in zip(patterns, values, strict=True):
        if not math.isnan(value):
            assert FORMATS[name].encode(float(value)) == bits, value


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"f64", "f32"}))
def test_ties_go_to_even(name: str) -> None:
    oracle = _ORACLES[name]
    width = FORMATS[name].width
    patterns = np.arange(1 << (width - 1), dtype=np.uint16 if width == 16 else np.uint8)
    with np.errstate(all="ignore"):
        values = patterns.view(oracle).astype(np.float64)
    finite = values[np.isfinite(values)]
    for low, high in pairwise(finite):
        middle = float(low + high) / 2
        for value in (middle, math.nextafter(middle, 0), math.nextafter(middle, math.inf)):
            nearest = high if value - low > high - value else low
            if value == middle:
                nearest = low if FORMATS[name].encode(float(low)) % 2 == 0 else high
            assert FORMATS[name].encode(value) == FORMATS[name].encode(float(nearest))


@given(st.floats(allow_nan=False))
def test_single_and_half_precision_round_like_numpy(value: float) -> None:
    for name in ("f64", "f32", "f16"):
        assert FORMATS[name].encode(value) == _bits(_ORACLES[name], value)


@given(st.floats(allow_nan=False, width=32))
@pytest.mark.parametrize(
    "name", ["bf16", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ", "f8E5M2FNUZ", "f8E4M3FNUZ", "f8E4M3"]
)
def test_narrow_formats_round_like_ml_dtypes(name: str, value: float) -> None:
    array: Any = np.array(value, dtype=np.float32)
    with np.errstate(all="ignore"):
        expected = int.from_bytes(array.astype(_ORACLES[name]).tobytes(), "little")
    bits = FORMATS[name].encode(value)
    if math.isnan(float(array.astype(_ORACLES[name]))):
        # The sign of a NaN that results from an overflow is unspecified.
        sign = 1 << (FORMATS[name].width - 1)
        assert bits | sign == expected | sign
    else:
        assert bits == expected


@pytest.mark.parametrize(
    ("literal", "type", "bits"),
    [
        ("true", "i1", (1,)),
        ("false", "i1", (0,)),
        ("-1 : i8", "i8", (0xFF,)),
        ("-2147483648 : i32", "i32", (0x80000000,)),
        ("7 : index", "i64", (7,)),
        ("1.0 : f32", "f32", (0x3F800000,)),
        ("0xFF800000 : f32", "f32", (0xFF800000,)),
        ("0x7FC0 : bf16", "bf16", (0x7FC0,)),
        ("-0.0 : f16", "f16", (0x8000,)),
        ("1.000000e-01 : bf16", "bf16", (0x3DCD,)),
        ("1.0e+300 : f64", "f64", struct.unpack("<Q", struct.pack("<d", 1e300))),
        ("dense<true> : tensor<4xi1>", "tensor<4xi1>", (1,)),
        ("dense<[true, false]> : tensor<2xi1>", "tensor<2xi1>", (1, 0)),
        ("dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>", "tensor<2x2xi8>", (1, 0xFE, 3, 4)),
        ("dense<[5, 5]> : tensor<2xi8>", "tensor<2xi8>", (5,)),
        ("dense<2.0> : tensor<8xf8E5M2>", "tensor<8xf8E5M2>", (0x40,)),
        ("dense<0xFF80> : tensor<8xbf16>", "tensor<8xbf16>", (0xFF80,)),
        ('dense<"0x0100FEFF"> : tensor<2xi16>', "tensor<2xi16>", (1, 0xFFFE)),
        ('dense<"0x05"> : tensor<4xi1>', "tensor<4xi1>", (1, 0, 1, 0)),
        ('dense<"0x01000100"> : tensor<4xi1>', "tensor<4xi1>", (1, 0, 1, 0)),
    ],
)
def test_literals(literal: str, type: str, bits: tuple[int, ...]) -> None:
    constant = _constant(literal)
    assert str(constant.type) == type
    assert constant.bits == bits


def _printed_by_mlir(literal: str, tmp_path) -> str:
    from triton._C.libtriton import ir as mlir

    path = tmp_path / "constant.ttir"
    path.write_text(f"tt.func @f() {{\n %0 = arith.constant {literal}\n tt.return\n}}")
    context = mlir.context()
    mlir.load_dialects(context)
    return mlir.parse_mlir_module(str(path), context).str()


@pytest.mark.parametrize("count", [3, 128, 129])
@pytest.mark.parametrize("element", ["i1", "i8", "i16", "i64", "bf16", "f16", "f32", "f64"])
def test_large_constants_survive_mlir(element: str, count: int, tmp_path) -> None:
    # Above 100 elements MLIR prints the raw bytes in hexadecimal.
    values = [index * 7 % 3 for index in range(count)]
    words = [("false", "true")[v % 2] if element == "i1" else str(v) for v in values]
    if "f" in element:
        words = [f"{v}.5" for v in values]
    literal = f"dense<[{', '.join(words)}]> : tensor<{count}x{element}>"
    printed = parse_module(_printed_by_mlir(literal, tmp_path)).kernel
    value = printed.regions[0].entry.operations[0].attributes["value"]
    assert value == _constant(literal)
    assert len(value.bits) == count


@pytest.mark.parametrize(
    "literal",
    [
        "1.5 : i32",
        "x : f32",
        "dense<1> : i32",
        "dense<[1, 2]> : tensor<3xi32>",
        "dense<[[1], [2, 3]]> : tensor<3xi32>",
        'dense<"0x010203"> : tensor<4xi8>',
        'dense<"0xZZ"> : tensor<4xi8>',
        "1 :",
    ],
)
def test_invalid_literals_are_errors(literal: str) -> None:
    with pytest.raises(ParseError):
        _constant(literal)
