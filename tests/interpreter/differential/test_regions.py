"""Tests of complex functions as arguments of `tl.map_elementwise`, `tl.reduce` and scans.

The functions contain branches, loops, early returns, calls, program ids and loads.
"""

from __future__ import annotations

import kernel_text
import numpy as np
import pytest
import torch
from kernel_text import run_tiles
from number_formats import F32, I32, I64, assert_same

from ttools.core.errors import KernelError

pytestmark = pytest.mark.usefixtures("schedule")

#: Functions that return the larger operand.
LARGER = {
    "early return": """
    def larger(a, b):
        if a > b:
            return a
        elif a == b:
            return a + 0
        return b
    """,
    "loop": """
    def larger(a, b):
        for _ in range(2):
            if a < b:
                a = b
        return a
    """,
    "while": """
    def larger(a, b):
        while a < b:
            a += tl.where(b - a > 1, (b - a) // 2, 1)
        return a
    """,
    "call": """
    def inner(a, b):
        result = a
        if b > a:
            result = b
        return result

    @triton.jit(noinline=True)
    def outer(a, b):
        return inner(a, b)

    @triton.jit
    def larger(a, b):
        return outer(a, b)
    """,
    "program": """
    def larger(a, b):
        return tl.maximum(a, b) + tl.program_id(1) * tl.num_programs(2)
    """,
}


@pytest.mark.parametrize("name", LARGER)
def test_combining(name: str, schedule: str) -> None:
    if schedule == "eager" and name == "call":
        pytest.skip(
            "the eager engine combines whole tiles, and cannot call a noinline function with them"
        )
    x = np.random.default_rng(1).integers(-50, 50, (4, 32)).astype(np.int32)
    rows, columns, scanned, mapped = run_tiles(
        """
        rows = tl.reduce(x, 1, larger)
        columns = tl.reduce(x, 0, larger)
        scanned = tl.associative_scan(x, 1, larger, reverse=True)
        mapped = tl.map_elementwise(larger, x, -x)
        """,
        {"x": x},
        {"rows": ((4,), I32), "columns": ((32,), I32)}
        | dict.fromkeys(("scanned", "mapped"), ((4, 32), I32)),
        "    @triton.jit" + LARGER[name],
    )
    assert_same(rows, x.max(1))
    assert_same(columns, x.max(0))
    assert_same(scanned, np.flip(np.maximum.accumulate(np.flip(x, 1), 1), 1))
    assert_same(mapped, abs(x))


def test_several_results_of_different_types() -> None:
    x = np.random.default_rng(2).integers(-9, 9, 64).astype(np.int32)
    definitions = """
    @triton.jit
    def steps(a, b):
        count = 0
        while a != 0:
            a -= tl.where(a > 0, 1, -1)
            count += 1
        return count, b * 0.5, count.to(tl.int64) << 40
    """
    count, half, wide = run_tiles(
        "count, half, wide = tl.map_elementwise(steps, x, x.to(tl.float32))",
        {"x": x},
        {"count": ((64,), I32), "half": ((64,), F32), "wide": ((64,), I64)},
        definitions,
    )
    assert_same(count, abs(x))
    assert_same(half, x.astype(np.float32) / 2)
    assert_same(wide, abs(x).astype(np.int64) << 40)


@pytest.mark.parametrize("pack", [2, 4, 32])
@pytest.mark.parametrize("shape", [(64,), (4, 16), (32, 2)], ids=str)
def test_packed_elements_are_consecutive(shape: tuple[int, ...], pack: int) -> None:
    x = np.random.default_rng(3).integers(-9, 9, shape).astype(np.int32)
    elements = [f"a{n}" for n in range(pack)]
    second_elements = [f"b{n}" for n in range(pack)]
    results = [f"total + {b}" for b in second_elements] + [
        f"{a} - {n}" for n, a in enumerate(elements)
    ]
    definitions = f"""
    @triton.jit
    def grouped({", ".join([*elements, *second_elements])}):
        total = {" + ".join(elements)}
        if total < 0:
            total = -total
        return {", ".join(results)}
    """
    total, less = run_tiles(
        f"total, less = tl.map_elementwise(grouped, x, -x, pack={pack})",
        {"x": x},
        dict.fromkeys(("total", "less"), (shape, I32)),
        definitions,
    )
    groups = x.reshape(-1, pack)
    assert_same(total, (abs(groups.sum(1, keepdims=True)) - groups).reshape(shape).astype(np.int32))
    assert_same(less, (groups - np.arange(pack)).reshape(shape).astype(np.int32))


def test_loads_in_single_lanes() -> None:
    text = """
    @triton.jit
    def look_up(pointer, index):
        found = index
        if index >= 0:
            found = tl.load(pointer + index)
        return found + tl.load(pointer, mask=index == 3, other=0)

    @triton.jit
    def kernel(x_ptr, out_ptr, N: tl.constexpr):
        lanes = tl.arange(0, N)
        pointers = x_ptr + tl.zeros((N,), tl.int32)
        tl.store(out_ptr + lanes, tl.map_elementwise(look_up, pointers, lanes - 2))
    """
    x, out = torch.arange(100, 114, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    kernel_text.kernel(text)[(1,)](x, out, N=16)
    assert out.tolist() == [-2, -1, 100, 101, 102, 203, *range(104, 114)]


def test_an_assertion_in_a_combining_function() -> None:
    text = """
    @triton.jit
    def checked(a, b):
        tl.device_assert(b < 40, "too large")
        return tl.maximum(a, b)

    @triton.jit
    def kernel(x_ptr, out_ptr, N: tl.constexpr):
        tl.store(out_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, N)), 0, checked))
    """
    out = torch.zeros(1, dtype=torch.int32)
    kernel = kernel_text.kernel(text)
    kernel[(1,)](torch.arange(32, dtype=torch.int32), out, N=32, debug=True)
    assert out.item() == 31
    with pytest.raises(KernelError, match="too large"):
        kernel[(1,)](torch.arange(64, dtype=torch.int32), out, N=64, debug=True)
