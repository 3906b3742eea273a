"""Tests that kernels that run as Python compute the same results as their native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language.core import _aggregate as aggregate
from triton.language.extra import libdevice

from ttools.core.errors import KernelError
from ttools.core.triton_versions import triton_version
from ttools.interpreter import interpret

Arguments = Callable[[], tuple[Any, ...]]


def both(launch: Callable[..., None], *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Run a launch eagerly and natively on copies, compare, and return the eager results."""
    eager = [t.clone() for t in tensors]
    native = [t.clone() for t in tensors]
    with interpret(engine="eager") as run:
        launch(*eager)
    assert run.stats[0].programs > 0
    # The results of atomic operations depend on the order of programs, so there is one thread.
    with interpret(threads=1):
        launch(*native)
    for left, right in zip(eager, native, strict=True):
        assert torch.equal(left.view(torch.uint8), right.view(torch.uint8)) or torch.allclose(
            left.double(), right.double(), rtol=1e-5, atol=1e-5, equal_nan=True
        )
    return tuple(eager)


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
def test_vector_add(dtype: torch.dtype) -> None:
    x = torch.arange(-150, 150).to(dtype)
    y = (torch.arange(300) % 7 * 3).to(dtype)
    (out,) = both(
        lambda out: vector_add[(5,)](x, y, out, 300, BLOCK=64), torch.zeros(300, dtype=dtype)
    )
    torch.testing.assert_close(out, x + y)


@triton.jit
def softmax(out_ptr, x_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(
        out_ptr + row * columns + offsets,
        numerator / tl.sum(numerator, axis=0),
        mask=offsets < columns,
    )


@pytest.mark.smoke
def test_softmax() -> None:
    x = torch.randn(3, 50)
    (out,) = both(lambda out: softmax[(3,)](out, x, 50, BLOCK=64), torch.zeros(3, 50))
    torch.testing.assert_close(out, torch.softmax(x, dim=1))


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, K, stride_am, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, STEP)
    a = a_ptr + rows[:, None] * stride_am + inner[None, :]
    b = b_ptr + inner[:, None] * (tl.num_programs(1) * BLOCK) + columns[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(tl.cdiv(K, STEP)):
        left = tl.load(a, mask=inner[None, :] < K - k * STEP, other=0.0)
        right = tl.load(b, mask=inner[:, None] < K - k * STEP, other=0.0)
        total = tl.dot(left, right, total)
        a += STEP
        b += STEP * tl.num_programs(1) * BLOCK
    c = c_ptr + rows[:, None] * (tl.num_programs(1) * BLOCK) + columns[None, :]
    tl.store(c, total.to(c_ptr.dtype.element_ty))


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matmul(dtype: torch.dtype) -> None:
    a, b = torch.randn(32, 40).to(dtype), torch.randn(40, 32).to(dtype)
    (c,) = both(
        lambda c: matmul[(2, 2)](a, b, c, 40, a.stride(0), BLOCK=16, STEP=16),
        torch.zeros(32, 32, dtype=dtype),
    )
    torch.testing.assert_close(c.float(), (a.float() @ b.float()).to(dtype).float(), rtol=2e-2,
                               atol=1e-2)  # fmt: skip


@triton.jit
def clipped(x, low):
    if x < low:
        return low
    return x


@triton.jit
def control(out_ptr, n, limit, FLAG: tl.constexpr):
    pid = tl.program_id(0)
    a = b = 3
    total = a.to(tl.float32) * b  # type: ignore[attr-defined]
    first, second = 5, pid
    for i in range(n):
        total += i.to(tl.float32)  # type: ignore[attr-defined]
        if i % 2 == 0 and pid > 0:
            total += 0.5
        elif not (i == 3 or pid == 2):
            total -= first
    count = 0
    while count * count < limit:
        count += 1
    if FLAG is not None and FLAG:
        total += count if pid > 1 else -count
    for j in tl.static_range(3):
        total += j * second
    tl.store(out_ptr + pid, clipped(total, -4.0))


@pytest.mark.smoke
@pytest.mark.parametrize("flag", [None, False, True])
def test_control_flow_calls_and_implicit_scalars(flag: bool | None) -> None:
    def launch(out: torch.Tensor) -> None:
        control[(4,)](out, 7, 30, FLAG=flag)

    # Triton cannot compile `a = b = 3`, so the expected values are computed in Python.
    out = torch.zeros(4)
    with interpret(engine="eager"):
        launch(out)
    expected = []
    for pid in range(4):
        total = 9.0
        for i in range(7):
            total += i
            if i % 2 == 0 and pid > 0:
                total += 0.5
            elif not (i == 3 or pid == 2):
                total -= 5
        if flag:
            total += 6 if pid > 1 else -6
        expected.append(max(total + 3 * pid, -4.0))
    assert out.tolist() == expected


@triton.jit
def larger(value, index, other_value, other_index):
    takes = other_value > value
    return tl.where(takes, other_value, value), tl.where(takes, other_index, index)


@triton.jit
def branching(a, b):
    if a < 0:
        result = a + b
    else:
        result = a * 2 + b
    return result


@triton.jit
def affine(slope, offset, other_slope, other_offset):
    return slope * other_slope, offset * other_slope + other_offset


@triton.jit
def custom(x_ptr, best_ptr, where_ptr, scan_ptr, mapped_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    rows = tl.arange(0, 4)
    x = tl.load(x_ptr + rows[:, None] * N + lanes[None, :])
    index = tl.broadcast_to(lanes[None, :], x.shape)
    best, where = tl.reduce((x, index), 1, larger)
    tl.store(best_ptr + rows, best)
    tl.store(where_ptr + rows, where)
    _, scanned = tl.associative_scan((x, x + 1), 1, affine, reverse=True)
    tl.store(scan_ptr + rows[:, None] * N + lanes[None, :], scanned)
    mapped = tl.map_elementwise(branching, x, x + 1)
    tl.store(mapped_ptr + rows[:, None] * N + lanes[None, :], mapped)


def test_combine_functions_of_the_users() -> None:
    x = torch.randn(4, 32) * 0.5
    best, where, scanned, mapped = both(
        lambda *out: custom[(1,)](x, *out, N=32),
        torch.zeros(4),
        torch.zeros(4, dtype=torch.int32),
        torch.zeros(4, 32),
        torch.zeros(4, 32),
    )
    assert torch.equal(best, x.max(1).values)
    assert torch.equal(where.long(), x.argmax(1))
    offset = torch.zeros(4)
    for column in reversed(range(32)):
        slope = x[:, column]
        offset = offset * slope + (slope + 1)
        torch.testing.assert_close(scanned[:, column], offset, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mapped, torch.where(x < 0, 2 * x + 1, 3 * x + 1))


@triton.jit
def atomics(count_ptr, lock_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    before = tl.atomic_add(count_ptr + lanes // 2, lanes, mask=lanes < N - 1)
    lock = tl.atomic_cas(lock_ptr, 0, 7)
    top = tl.atomic_max(lock_ptr + 1, tl.program_id(0).to(tl.int32) + 1)
    tl.store(out_ptr + tl.program_id(0) * N + lanes, before + lock + top)


def test_atomics() -> None:
    count, _, _ = both(
        lambda count, lock, out: atomics[(2,)](count, lock, out, N=8),
        torch.zeros(4, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int32),
        torch.zeros(16, dtype=torch.int32),
    )
    assert count.tolist() == [2, 10, 18, 12]


@triton.jit
def narrow(x_ptr, y_ptr, wide_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    narrowed = x.to(tl.float8e5)
    tl.store(y_ptr + lanes, narrowed)
    rounded = x.to(tl.bfloat16)
    tl.store(wide_ptr + lanes, (narrowed.to(tl.float32) + rounded).to(tl.bfloat16))


def test_narrow_floats_round_and_saturate() -> None:
    x = torch.tensor([126.99, 1e9, -1e9, float("nan"), 1e-7, 1.0, -0.3, 448.0])
    y, wide = both(
        lambda y, wide: narrow[(1,)](x, y, wide, N=8),
        torch.zeros(8, dtype=torch.float8_e5m2),
        torch.zeros(8, dtype=torch.bfloat16),
    )
    assert y.float().tolist()[:3] == [128.0, 57344.0, -57344.0]
    assert torch.isnan(wide[3])


@triton.jit
def says(x_ptr, n, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    tl.device_print("x", x)
    print("pid", tl.program_id(0), hex=True)  # type: ignore[call-overload]
    tl.device_assert(x < n, "too large")
    assert x >= 0, "negative"


@pytest.mark.parametrize("engine", ["eager", "native"])
def test_prints_and_asserts(engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([3, 1, 4, 1], dtype=torch.int32)
    with interpret(engine=engine, programs="1"):
        says[(2,)](x, 5, N=4)
        says[(2,)](x, 4, N=4)  # asserts are off without debug
        with pytest.raises(KernelError, match=r"device_assert `too large` failed") as raised:
            says[(2,)](x, 4, N=4, debug=True)
    assert "program (1, 0, 0), lane [2] of [4]" in str(raised.value)
    assert 'tl.device_assert(x < n, "too large")' in str(raised.value)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pid (1, 0, 0) idx (0) x: 3"
    assert lines[4] == "pid (1, 0, 0) idx () pid: 0x00000001"


@triton.jit
def strided(x_ptr, stride_row, stride_column, N: tl.constexpr):
    lanes = tl.arange(0, N)
    where = x_ptr + lanes[:, None] * stride_row + lanes[None, :] * stride_column
    tl.store(where, tl.load(where) * 2 + lanes[:, None])


def test_views_keep_their_strides() -> None:
    base = torch.arange(15 * 20, dtype=torch.float32).reshape(15, 20)

    def launch(base: torch.Tensor) -> None:
        view = base.t()[3:19:2, 2:10]
        strided[(1,)](view, view.stride(0), view.stride(1), N=8)

    (after,) = both(launch, base)
    expected = base.clone()
    expected.t()[3:19:2, 2:10] *= 2
    expected.t()[3:19:2, 2:10] += torch.arange(8)[:, None]
    assert torch.equal(after, expected)


@aggregate
class Scaled:
    # Annotations are objects here because Triton 3.6 does not evaluate textual ones.
    __annotations__ = {"first": tl.tensor, "factor": tl.constexpr}

    @triton.constexpr_function
    def __init__(self, first, factor):
        self.first = first
        self.factor = tl.constexpr(factor)

    @triton.jit
    def plus(self, offset):
        return self.first * self.factor + offset


FACTOR = tl.constexpr(3)


@triton.constexpr_function
def twice(n):
    return 2 * n


@triton.jit
def square(x):
    return x * x


@triton.jit
def apply(function: tl.constexpr, x):
    return function(x)


@triton.jit
def language(x_ptr, N: tl.constexpr, pair):
    a, b = pair
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    y = Scaled(x, FACTOR).plus(a) + apply(square, x) + twice(N) + b
    values = [y, x]
    chosen = values[0] if N == 8 else values[1]
    ordered = tl.sort(chosen, descending=True)
    smooth = tl.sigmoid(ordered) + libdevice.tanh(ordered)
    left, right = tl.split(tl.join(smooth, ordered))
    w = tl.rand(7, lanes) + left + right
    shape: tl.constexpr = [N]
    w += tl.zeros(shape, tl.float32)
    while tl.max(w, 0) > 100:
        w = w / 2
    if N > 2 and (a > 1 or b < 0):
        w = -w
    w += tl.histogram(lanes % 4, N)
    w += tl.flip(w, 0) * (lanes % 2 == 0)
    tl.store(x_ptr + lanes, w)


def test_other_features_of_the_language() -> None:
    # The kernel uses aggregates, constexpr functions, functions as arguments, tuples, lists,
    # sorting and random numbers.
    both(lambda x: language[(1,)](x, 8, (2, 0.5)), torch.arange(8.0))


@triton.jit
def blocks(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    x = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (row, 0), (BLOCK, BLOCK), (1, 0))
    out = tl.make_block_ptr(
        out_ptr, (rows, columns), (columns, 1), (row, 0), (BLOCK, BLOCK), (1, 0)
    )
    for _ in range(0, columns, BLOCK):
        tile = tl.load(x, boundary_check=(0, 1), padding_option="zero")
        tl.store(out, tile * 2 + tl.sum(tile), boundary_check=(0, 1))
        x = tl.advance(x, (0, BLOCK))
        out = tl.advance(out, (0, BLOCK))


@pytest.mark.skipif(triton_version() >= (3, 8), reason="Triton 3.8 removed block pointers")
def test_block_pointers() -> None:
    x = torch.randn(13, 20)
    both(lambda out: blocks[(2,)](x, out, 13, 20, BLOCK=8), torch.zeros(13, 20))


@triton.jit
def count_iterations(out_ptr, low, high, step):
    count, last = 0, 0
    for i in range(low, high, step):
        count += 1
        last = i
    tl.store(out_ptr, count)
    tl.store(out_ptr + 1, last)


@triton.jit
def count_with_constants(out_ptr, low: tl.constexpr, high: tl.constexpr, step: tl.constexpr):
    count, last = 0, 0
    for i in range(low, high, step):
        count += 1
        last = i
    tl.store(out_ptr, count)
    tl.store(out_ptr + 1, last)


@triton.jit
def count_unsigned(out_ptr, bounds_ptr):
    count = 0
    for _ in range(tl.load(bounds_ptr), tl.load(bounds_ptr + 1)):
        count += 1
    tl.store(out_ptr, count)


RANGES = [(40, -3, -1), (-3, 40, 1), (40, -3, 7), (0, 10, 3), (10, 0, -3), (5, 5, -1), (3, 3, 2)]


@pytest.mark.parametrize("bounds", RANGES)
def test_trip_counts_of_loops(bounds: tuple[int, int, int]) -> None:
    out = torch.zeros(2, dtype=torch.int32)
    (constant,) = both(lambda out: count_with_constants[(1,)](out, *bounds), out)
    expected = range(*bounds)
    assert constant.tolist() == [len(expected), expected[-1] if expected else 0]
    (dynamic,) = both(lambda out: count_iterations[(1,)](out, *bounds), out)
    upwards = range(*bounds) if bounds[2] > 0 else ()
    assert dynamic.tolist() == [len(upwards), upwards[-1] if upwards else 0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_bounds_of_loops_are_signed(dtype: torch.dtype) -> None:
    bounds = torch.tensor([120, 130], dtype=torch.int32).to(dtype)
    both(lambda out: count_unsigned[(1,)](out, bounds), torch.zeros(1, dtype=torch.int32))


@pytest.mark.parametrize("engine", ["native", "eager"])
def test_the_default_device_does_not_affect_launches(engine: Any) -> None:
    x, y, out = torch.arange(100.0), torch.ones(100), torch.zeros(100)
    torch.set_default_device("meta")
    try:
        with interpret(engine=engine, first_config=True):
            vector_add[(2,)](x, y, out, 100, BLOCK=64)
    finally:
        torch.set_default_device("cpu")
    assert torch.equal(out, x + y)
