"""What a finding shows of the variables that an address is made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

# mypy: disable-error-code="no-untyped-def"


class Matrix(NamedTuple):
    ptr: torch.Tensor
    rows: int
    stride: int


@triton.jit
def counted(x_ptr, o_ptr, n, B: tl.constexpr):
    for tile in range(0, n, B):
        i = tile + tl.arange(0, B)
        tl.store(o_ptr + i, tl.load(x_ptr + i), mask=i < n)


@triton.jit
def carried(x_ptr, o_ptr, n):
    place = 0
    steps = 0
    while steps <= n:
        place += tl.load(x_ptr + steps)
        steps += 1
    tl.store(o_ptr, place)


@triton.jit
def walked(x_ptr, o_ptr, n):
    at = 1
    for _ in range(n):
        tl.store(o_ptr, tl.load(x_ptr + at))
        at = at * 3


@triton.jit
def wrapped(x_ptr, o_ptr, first, stride):
    far = first * stride
    tl.store(o_ptr, tl.load(x_ptr + far))


@triton.jit
def named(matrix, o_ptr, B: tl.constexpr):
    row = tl.program_id(0) + 1
    x = tl.load(matrix.ptr + row * matrix.stride + tl.arange(0, B))
    tl.store(o_ptr + tl.arange(0, B), x)


def _launches() -> dict[str, Any]:
    x, o = torch.zeros(40, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
    return {
        "counted": lambda: counted[(1,)](x, o, 40, B=16),
        "carried": lambda: carried[(1,)](x, o, 40),
        "walked": lambda: walked[(1,)](x, o, 5),
        "wrapped": lambda: wrapped[(1,)](x, o, 3, 1_000_000_007),
        "named": lambda: named[(1,)](Matrix(x, 1, 40), o, B=8),
    }


@pytest.mark.parametrize(
    ("kernel", "name", "variables"),
    [
        ("counted", "x_ptr", {"i": "40", "tile": "32"}),
        ("carried", "x_ptr", {"steps": "40"}),
        ("walked", "x_ptr", {"at": "81"}),
        ("wrapped", "x_ptr", {"far": "-1294967275", "first": "3", "stride": "1000000007"}),
        ("named", "matrix.ptr", {"row": "1", "matrix.stride": "40"}),
    ],
)
def test_what_an_address_is_made_of(kernel: str, name: str, variables: dict[str, str]) -> None:
    with sanitize() as report:
        _launches()[kernel]()
    found = next(f for f in report.findings if f.kind == "oob_load")
    assert found.argument is not None
    assert found.argument.name == name
    assert dict(found.variables) == {**variables, "mask": "none"}
