"""Tests that inline PTX (`ptx_cases`) computes the same bits as on an H200.

`ptx_h200.json` is the output of `record_ptx.py` on an H200. All NaNs are equal, and approximate
instructions agree within the tolerance of their case.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ptx_cases import CASES, NUMPY, PtxCase, samples
from vector_jit import TYPES, apply

RECORDS: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "ptx_h200.json").read_text(encoding="utf-8")
)
NUMBERS = {**NUMPY, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.asm[:60])
def test_same_as_an_h200(case: PtxCase) -> None:
    operands = [samples(case, i) for i in range(len(case.inputs))]
    typed = [x.view(TYPES[kind]) for x, kind in zip(operands, case.inputs, strict=True)]
    results = apply(
        "tt.elementwise_inline_asm",
        case.inputs,
        case.outputs,
        *typed,
        asm_string=case.asm,
        constraints=case.constraints,
        packed_element=case.pack,
        pure=True,
    )
    results = results if isinstance(results, tuple) else (results,)
    for actual, kind, text in zip(results, case.outputs, RECORDS[case.asm], strict=True):
        expected = np.frombuffer(base64.b64decode(text), np.uint8).view(NUMBERS[case.view or kind])
        actual = actual.view(expected.dtype)
        integer = f"u{actual.itemsize}"
        wide, wide_expected = actual.astype(np.float64), expected.astype(np.float64)
        same = (actual.view(integer) == expected.view(integer)) | (
            np.isnan(wide) & np.isnan(wide_expected)
        )
        if case.tolerance:
            same |= np.abs(wide - wide_expected) <= case.tolerance * np.maximum(
                np.abs(wide_expected), 1e-3
            )
        where = np.flatnonzero(~same)[:5]
        assert same.all(), f"elements, actual, GPU: {where, actual[where], expected[where]}"


def test_every_case_is_recorded_once() -> None:
    assert len({case.asm for case in CASES}) == len(CASES) == len(RECORDS)
