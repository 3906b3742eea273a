"""Tests that conversions, division, shifts and extrema agree with an H200 (Triton 3.6.0).

For each operation, `h200.json` contains the bytes of the operands and of the GPU's result in
base64. It omits operations with several possible results: remainders by zero, which depend on
whether the quotient is also computed, f32 denormals in libdevice, which are flushed, and
approximate functions.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_jit import TYPES, apply

RECORDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "h200.json").read_text())

BINARY = {
    "max": "arith.maxnumf",
    "min": "arith.minnumf",
    "maxp": "arith.maximumf",
    "minp": "arith.minimumf",
    "add": "arith.addf",
    "mul": "arith.mulf",
    "shl": "arith.shli",
}
SIGNED = {"div": "arith.divsi", "shr": "arith.shrsi"}
UNSIGNED = {"div": "arith.divui", "shr": "arith.shrui"}


def signless(kind: str) -> str:
    return f"i{kind[1:]}" if kind[0] == "u" else kind


def decode(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.uint8).view(TYPES[signless(kind)])


def cast(source: str, target: str, rounding: str, x: np.ndarray) -> Any:
    kinds = [signless(source)], [signless(target)]
    if source[0] in "iu":
        return apply("arith.sitofp" if source[0] == "i" else "arith.uitofp", *kinds, x)
    if target[0] in "iu":
        return apply("arith.fptosi" if target[0] == "i" else "arith.fptoui", *kinds, x)
    return apply("tt.fp_to_fp", *kinds, x, rounding=rounding or "rtne")


def compute(record: dict[str, Any], inputs: list[np.ndarray]) -> Any:
    op, (source, target) = record["op"], record["types"]
    kind = signless(source)
    if op == "cast":
        return cast(source, target, record["rounding"], inputs[0])
    if op == "fma":
        return apply("math.fma", [kind] * 3, [kind], inputs[0], inputs[1], inputs[1])
    if op == "clamp":
        x = inputs[0]
        ends = np.full_like(x, -1), np.full_like(x, 2)
        return apply("tt.clampf", [kind] * 3, [kind], x, *ends, propagateNan="none")
    table = BINARY | (UNSIGNED if source[0] == "u" else SIGNED)
    if op in table:
        return apply(table[op], [kind] * 2, [kind], *inputs)
    if op == "mul24":
        inputs = inputs * 2
    if op == "byte_perm":
        wide = inputs[0].astype(np.int64)
        inputs = [inputs[0], (wide * 31 + 0x85).astype(np.int32), (wide * 7).astype(np.int32)]
    return apply(
        "tt.extern_elementwise", [kind] * len(inputs), [target], *inputs, symbol=f"__nv_{op}"
    )


def name(record: dict[str, Any]) -> str:
    return "-".join(filter(None, [record["op"], *record["types"], record.get("rounding")]))


@pytest.mark.parametrize("record", RECORDS, ids=name)
def test_same_bits_as_an_h200(record: dict[str, Any]) -> None:
    source, target = record["types"]
    inputs = [decode(text, source) for text in record["in"]]
    expected = decode(record["out"], target)
    actual = compute(record, inputs)
    wide, wide_expected = actual.astype(np.float64), expected.astype(np.float64)
    integer = f"u{actual.itemsize}"
    same = (actual.view(integer) == expected.view(integer)) | (
        np.isnan(wide) & np.isnan(wide_expected)
    )
    where = np.flatnonzero(~same)[:5]
    detail = [(*(x[i] for x in inputs), actual[i], expected[i]) for i in where]
    assert same.all(), f"operands, actual, GPU: {detail}"
