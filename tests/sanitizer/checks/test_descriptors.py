"""Descriptors that are invalid on a GPU are reported where they are made; valid ones are not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from ttools.core.findings.findings import Finding
from ttools.core.spec import TensorSpec
from ttools.sanitizer import sanitize
from ttools.sanitizer.checks.memcheck import defects


@triton.jit
def made(x_ptr, m, n, stride, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [m, n], [stride, 1], [BM, BN])  # made here
    d.store([0, 0], tl.full((BM, BN), 1, x_ptr.dtype.element_ty))


@triton.jit
def made_in_a_loop(x_ptr, table_ptr, count, BN: tl.constexpr):
    for group in range(count):
        offset = tl.load(table_ptr + group)
        if offset >= 0:
            d = tl.make_tensor_descriptor(x_ptr + offset, [1, BN], [BN, 1], [1, BN])  # made here
            d.store([0, 0], tl.full((1, BN), 1.0, tl.float32))


@triton.jit
def given(d, BM: tl.constexpr, BN: tl.constexpr):
    d.store([0, 0], tl.full((BM, BN), 1.0, tl.float32))


def of_kernel(x: torch.Tensor, m: int, n: int, stride: int, block: int = 16) -> list[Finding]:
    with sanitize(checks="memcheck,overflow") as report:
        made[(2,)](x, m, n, stride, BM=16, BN=block)
    return list(report.findings)


@pytest.mark.parametrize(
    ("dtype", "stride", "size"),
    [(torch.float32, 18, 72), (torch.float16, 20, 40), (torch.int8, 24, 24)],
)
def test_a_stride_of_the_device(dtype: torch.dtype, stride: int, size: int) -> None:
    (finding,) = of_kernel(torch.zeros(16, stride, dtype=dtype), 16, stride, stride)
    assert (finding.kind, finding.severity) == ("misaligned", "error")
    assert finding.argument is not None
    assert finding.argument.name == "x_ptr"
    assert finding.location is not None
    line = Path(finding.location.file).read_text().splitlines()[finding.location.line - 1]
    assert "# made here" in line
    assert ("in bytes", str(size)) in finding.variables
    assert (finding.count, finding.programs) == (2, 2)


@pytest.mark.parametrize(
    ("dtype", "stride"), [(torch.float32, 20), (torch.float16, 24), (torch.int8, 32)]
)
def test_aligned_descriptors(dtype: torch.dtype, stride: int) -> None:
    assert of_kernel(torch.zeros(16, stride, dtype=dtype), 16, stride, stride) == []


def test_a_base_inside_a_row() -> None:
    (finding,) = of_kernel(torch.zeros(16 * 32 + 2)[2:], 16, 32, 32)
    assert finding.kind == "misaligned"
    assert ("bytes past a multiple of 16", "8") in finding.variables


def test_a_negative_extent() -> None:
    (finding,) = of_kernel(torch.zeros(16, 32), -1, 32, 32)
    assert (finding.kind, dict(finding.variables)["extent"]) == ("bad_descriptor", "-1")


def test_a_base_that_is_loaded() -> None:
    x = torch.zeros(64)
    for offsets, expected in (([0, 16, 32], []), ([0, 6, 32], ["misaligned"]), ([-3, 16], [])):
        with sanitize(checks="memcheck,overflow") as report:
            made_in_a_loop[(1,)](x, torch.tensor(offsets), len(offsets), BN=16)
        assert [finding.kind for finding in report.findings] == expected, offsets


def test_descriptors_that_the_host_modifies() -> None:
    descriptor = TensorDescriptor.from_tensor(torch.zeros(16, 20), [16, 16])
    with sanitize(checks="memcheck,overflow") as report:
        given[(1,)](descriptor, BM=16, BN=16)
    assert report.findings == []
    descriptor.base = torch.zeros(16 * 20 + 1)[1:].view(16, 20)
    descriptor.strides = [19, 1]
    with sanitize(checks="memcheck,overflow") as report:
        given[(1,)](descriptor, BM=16, BN=16)
    descriptor_findings = [
        finding for finding in report.findings if "descriptor" in finding.message
    ]
    assert [finding.kind for finding in descriptor_findings] == ["misaligned", "misaligned"]
    assert {finding.argument and finding.argument.name for finding in descriptor_findings} == {"d"}
    assert descriptor_findings[0].launch is not None
    assert "test_descriptors.py" in descriptor_findings[0].launch


def _described(**fields: object) -> Iterator[str]:
    good: dict[str, Any] = {
        "storage": 1 << 20,
        "offset": 0,
        "shape": (4, 64),
        "strides": (64, 1),
        "dtype": "float16",
        "itemsize": 2,
        "block": (512, 64),
    }
    described = {**good, **fields}
    block = described.pop("block")
    reported = defects(TensorSpec(**described), block)
    return (f"{kind}: {message}" for kind, message, _, _ in reported)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"storage": 8}, "misaligned: the base"),
        ({"strides": (60, 1)}, "misaligned: a stride .* dimension 0"),
        ({"strides": (1 << 40, 1)}, "bad_descriptor: a stride .* too large"),
        ({"strides": (-64, 1)}, "bad_descriptor: a stride .* negative"),
        ({"strides": (64, 2)}, "bad_descriptor: the last dimension"),
        ({"shape": (0, 64)}, "bad_descriptor: .* extent .*dimension 0"),
        ({"shape": (4, (1 << 32) + 1)}, "bad_descriptor: .* extent .*dimension 1"),
        ({"shape": (1,) * 6, "strides": (8,) * 5 + (1,)}, "bad_descriptor: .* 5 dimensions"),
        ({"block": (8, 4)}, "bad_descriptor: the row size"),
        ({"block": ()}, None),
    ],
)
def test_the_rules_for_descriptors_of_the_host(
    fields: dict[str, object], expected: str | None
) -> None:
    messages = list(_described(**fields))
    if expected is None:
        assert messages == []
    else:
        assert len(messages) == 1
        assert re.match(expected, messages[0].replace("(", "").replace(")", ""))


def rows_of(width: int, columns: int) -> torch.Tensor:
    return torch.zeros(16, width, dtype=torch.int8)[:, :columns]


@pytest.mark.parametrize(("columns", "is_warned_of"), [(464, False), (466, True), (512, False)])
def test_stores_that_end_inside_16_bytes_are_warned_of(columns: int, is_warned_of: bool) -> None:
    x = rows_of(512, columns)
    with sanitize(checks="memcheck", view_bounds="off") as in_kernel:
        made[(1,)](x, 16, columns, 512, BM=16, BN=32)
    with sanitize(checks="memcheck", view_bounds="off") as on_host:
        given[(1,)](TensorDescriptor.from_tensor(x, [16, 32]), BM=16, BN=32)
    for report in (in_kernel, on_host):
        reported = [(f.kind, f.severity) for f in report.findings]
        assert reported == [("bad_descriptor", "warning")] * is_warned_of
        assert all(
            "not a multiple of 16 bytes: a store may continue" in f.message for f in report.findings
        )


@triton.jit
def loaded(d, out_ptr, BM: tl.constexpr, BN: tl.constexpr):
    r, c = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(out_ptr + r[:, None] * BN + c[None, :], d.load([0, 0]))


def test_loads_that_end_inside_16_bytes_are_not_warned_of() -> None:
    d = TensorDescriptor.from_tensor(rows_of(512, 466), [16, 32])
    with sanitize(checks="memcheck") as report:
        loaded[(1,)](d, torch.empty(16, 32, dtype=torch.int8), BM=16, BN=32)
    assert report.findings == []


@triton.jit
def batches_kernel(x_ptr, rows, padded, BM: tl.constexpr, BN: tl.constexpr):
    x_ptr += tl.program_id(1) * rows * BN
    d = tl.make_tensor_descriptor(x_ptr, [padded, BN], [BN, 1], [BM, BN])
    number = tl.program_id(1) * 2 + tl.program_id(0)
    d.store([tl.program_id(0) * BM, 0], tl.zeros((BM, BN), tl.float32) + number)


def test_the_cause_of_a_store_beyond_the_tensor_is_the_bounds_check_of_the_descriptor() -> None:
    with sanitize(checks="memcheck,racecheck") as report:
        batches_kernel[(2, 2)](torch.zeros(2, 24, 16), 24, 32, BM=16, BN=16)
    assert [finding.kind for finding in report.findings] == ["oob_store", "overlapping_store"]
    text = report.to("text", verbose=True)
    assert "``" not in text
    assert text.startswith("the bounds check (line ")
    assert "correct the bounds check (line " in text
