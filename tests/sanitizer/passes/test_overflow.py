"""Offsets that wrap are reported at the operation that overflows, if they reach an address."""

from __future__ import annotations

from typing import Any

import instrumented
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings, strategies
from instrumented import line_of
from wrapping import B, bytes_of, candidates, run


@triton.jit
def rows(x_ptr, o_ptr, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    offset = row * stride  # here
    x = tl.load(x_ptr + offset + i, mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@triton.jit
def wide_rows(x_ptr, o_ptr, stride, n, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + row * stride + i, mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@triton.jit
def steps(x_ptr, o_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    offset = i * 0
    for _ in range(n):
        x = tl.load(x_ptr + offset + i, mask=i < n)
        tl.store(o_ptr + i, x, mask=i < n)
        offset += stride  # here


@triton.jit
def hashed(x_ptr, o_ptr, stride, n, B: tl.constexpr):
    i = tl.arange(0, B)
    h = (i + n) * 1103515245 + 12345
    slot = (h % 64 + 64) % 64 + ((h >> 16) & 7) + (h ^ (h * 31)) % 8
    tl.store(o_ptr + i, tl.load(x_ptr + slot, mask=i < n))


def arguments_of(stride: int, n: int = 5) -> dict[str, Any]:
    return {"x_ptr": torch.zeros(128), "o_ptr": torch.zeros(64), "stride": stride, "n": n}


@pytest.mark.parametrize(
    ("kernel", "grid", "stride"),
    [
        (rows, (1000,), 2_000_000),
        (wide_rows, (1000,), 2**31 - 1),
        (steps, (1,), 2**28),
        (hashed, (1,), 1),
    ],
)
def test_launches_that_cannot_overflow_are_not_instrumented(
    kernel: Any, grid: tuple[int, ...], stride: int
) -> None:
    assert candidates(kernel, grid, arguments_of(stride)) == set()


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_a_product_that_wraps(schedule: str) -> None:
    (check,) = run(rows, (3,), arguments_of(1_500_000_000, 6), schedule=schedule)
    expected = [[program == 2 and lane < 6 for lane in range(B)] for program in range(3)]
    np.testing.assert_array_equal(check.where, expected)
    assert line_of(check) == "offset = row * stride  # here"
    assert check.argument == 0
    assert "int32 product" in check.message
    assert "int64 would suffice" in check.message


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_a_loop_that_wraps(schedule: str) -> None:
    failures = [h for h in run(steps, (1,), arguments_of(2**29, 6), schedule=schedule) if h.any]
    assert [line_of(h) for h in failures] == ["offset += stride  # here"]


@triton.jit
def blocks(x_ptr, index_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    j = tl.load(index_ptr + tl.program_id(0))
    tl.store(o_ptr + i, tl.load(x_ptr + j * B + i, mask=i < n))


def test_narrow_indices_from_memory() -> None:
    index = torch.tensor([0, 4095, 4096, -4097], dtype=torch.int16)
    arguments = {"x_ptr": torch.zeros(8), "index_ptr": index, "o_ptr": torch.zeros(8), "n": 8}
    (check,) = run(blocks, (4,), arguments)
    assert check.where.any(axis=1).tolist() == [False, False, True, True]
    assert "int16 product" in check.message
    assert "int32 would suffice" in check.message


# ---- comparison with exact arithmetic

# Constants are few and small, because Triton folds operations on constants with wrapping.
_LEAVES = ("x", "y", "i", "s", "t", "p")
_NODES = (
    *("({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} * {b})", "({a} << {k})"),
    *("({a} + 900)", "({a} * 1000)", "(5 - {a})"),
    *("tl.where({a} < {b}, {b}, {a})", "tl.minimum({a}, {b})", "tl.maximum({a}, {b})"),
    *("tl.sum(i * 0 + {a}, 0)", "tl.max(i * 0 + {a}, 0)"),
    *("tl.cumsum(i * 0 + {a}, 0)", "tl.cumsum(i * 0 + {a}, 0, reverse=True)"),
)
_TEXT = """
@triton.jit
def kernel(q_ptr, x_ptr, y_ptr, o_ptr, s, t, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr)
    e = i * 0 + {expression}
    for k in range({turns}):
        e += {step}
    tl.store(o_ptr + i, tl.load(q_ptr + e, mask=i < 8, other=0.0))
"""


@strategies.composite
def expressions(draw: strategies.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(strategies.integers(0, 3)) == 0:
        return draw(strategies.sampled_from(_LEAVES))
    a, b = (draw(expressions(depth=depth - 1)) for _ in range(2))
    k = draw(strategies.integers(0, 9))
    return draw(strategies.sampled_from(_NODES)).format(a=a, b=b, k=k)


def _wrapped(values: Any, bits: int) -> Any:
    half = 2 ** (bits - 1)
    wrap = np.vectorize(lambda v: (int(v) + half) % (2 * half) - half, otypes=[object])
    return wrap(np.asarray(values, object))


class _Both:
    """An integer in 32-bit arithmetic, as the kernel computes it, and in 64-bit arithmetic."""

    def __init__(self, exact: Any, wrapped: Any = None) -> None:
        self.exact = _wrapped(exact, 64)
        self.wrapped = _wrapped(exact if wrapped is None else wrapped, 32)

    def _with(self, operand: Any, compute: Any) -> _Both:
        operand = operand if isinstance(operand, _Both) else _Both(operand)
        return _Both(compute(self.exact, operand.exact), compute(self.wrapped, operand.wrapped))

    def __add__(self, other: Any) -> _Both:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> _Both:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> _Both:
        return self._with(other, lambda a, b: a * b)

    def __lshift__(self, other: Any) -> _Both:
        return self._with(other, lambda a, b: a * 2**b)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> _Both:
        return _Both(other) - self

    def __rlshift__(self, other: Any) -> _Both:
        return _Both(other) << self

    def __lt__(self, other: Any) -> Any:
        return self.wrapped < (other.wrapped if isinstance(other, _Both) else other)

    def __gt__(self, other: Any) -> Any:
        return self.wrapped > (other.wrapped if isinstance(other, _Both) else other)


class _Language:
    """Evaluates the functions of `tl` that occur in expressions."""

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> _Both:
        a, b = (v if isinstance(v, _Both) else _Both(v) for v in (a, b))
        return _Both(
            np.where(condition, a.exact, b.exact), np.where(condition, a.wrapped, b.wrapped)
        )

    @staticmethod
    def minimum(a: Any, b: Any) -> _Both:
        return _Both(a)._with(b, np.minimum) if isinstance(a, int) else a._with(b, np.minimum)

    @staticmethod
    def _along(values: _Both, compute: Any) -> _Both:
        return _Both(compute(values.exact), compute(values.wrapped))

    @staticmethod
    def sum(a: _Both, axis: int) -> _Both:
        return _Language._along(a, np.sum)

    @staticmethod
    def max(a: _Both, axis: int) -> _Both:
        return _Language._along(a, np.max)

    @staticmethod
    def cumsum(a: _Both, axis: int, reverse: bool = False) -> _Both:
        step = -1 if reverse else 1
        return _Language._along(a, lambda values: np.cumsum(values[::step])[::step])

    @staticmethod
    def maximum(a: Any, b: Any) -> _Both:
        return _Both(a)._with(b, np.maximum) if isinstance(a, int) else a._with(b, np.maximum)


_SMALL = strategies.integers(-(2**31), 2**31 - 1) | strategies.integers(-100, 100)


@settings(max_examples=40)
@given(
    expression=expressions(),
    step=expressions(depth=1),
    turns=strategies.integers(0, 3),
    x=strategies.lists(_SMALL, min_size=B, max_size=B),
    numbers=strategies.tuples(_SMALL, _SMALL, _SMALL),
    schedule=strategies.sampled_from(["fused", "materialised"]),
)
def test_exactly_the_lanes_with_inexact_offsets_are_reported(
    expression: str, step: str, turns: int, x: list[int], numbers: Any, schedule: Any
) -> None:
    text = _TEXT.format(expression=expression, step=step, turns=turns)
    kernel = instrumented.kernel_from(text)
    y, s, t = numbers
    arguments = {
        "q_ptr": torch.zeros(1),
        "x_ptr": torch.tensor(x, dtype=torch.int32),
        "y_ptr": torch.tensor([y], dtype=torch.int32),
        "o_ptr": torch.zeros(B),
        "s": s,
        "t": t,
    }
    results = run(kernel, (2,), arguments, schedule=schedule)
    reported = (
        np.any([h.where != 0 for h in results], axis=0) if results else np.zeros((2, B), bool)
    )
    assert sum((h.where != 0).astype(int) for h in results).max() <= 1 if results else True
    for program in range(2):
        names = {"x": x, "y": y, "i": range(B), "s": s, "t": t, "p": program}
        values = {
            name: _Both(list(v) if not isinstance(v, int) else v) for name, v in names.items()
        }
        e = values["i"] * 0 + eval(expression, {"tl": _Language}, values)
        for _ in range(turns):
            e = e + eval(step, {"tl": _Language}, values)
        np.testing.assert_array_equal(reported[program], e.exact != e.wrapped, err_msg=text)


@triton.jit
def by_bytes(x_ptr, o_ptr, i_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    index = tl.load(i_ptr + i)
    offset = index * 3  # here
    x = tl.load(x_ptr + offset, mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@triton.jit
def two_steps(x_ptr, o_ptr, i_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    index = tl.load(i_ptr + i)
    first = index + 100  # first
    offset = first * 2  # second
    x = tl.load(x_ptr + offset, mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@triton.jit
def unsigned_hash(x_ptr, o_ptr, i_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    h = tl.load(i_ptr + i).to(tl.uint32) * 2654435761
    slot = (h >> 26) + (h ^ (h * 31)) % 8 + (h * 7 & 15)
    tl.store(o_ptr + i, tl.load(x_ptr + slot, mask=i < n))


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_unsigned_integers_have_their_own_limits(schedule: str) -> None:
    # 85 * 3 = 255 fits in an unsigned byte, but not in a signed one; 86 * 3 fits in neither.
    arguments = bytes_of(0, 42, 43, 85, 86, 128, 200, 255)
    (failure,) = [h for h in run(by_bytes, (1,), arguments, schedule=schedule) if h.any]
    np.testing.assert_array_equal(failure.where[0], [0, 0, 0, 0, 1, 1, 1, 1])
    assert line_of(failure) == "offset = index * 3  # here"
    assert "a uint8 product wraps around" in failure.message


def test_the_first_of_two_unsigned_overflows_is_named() -> None:
    # 27 and 28 are on both sides of 2 * (27 + 100) < 256; 155 and 156 of 155 + 100 < 256.
    arguments = bytes_of(0, 27, 28, 100, 155, 156, 200, 255)
    lanes = {line_of(h): h.where[0].tolist() for h in run(two_steps, (1,), arguments) if h.any}
    assert lanes == {
        "first = index + 100  # first": [0, 0, 0, 0, 0, 1, 1, 1],
        "offset = first * 2  # second": [0, 0, 1, 1, 1, 0, 0, 0],
    }


def test_unsigned_hashes_wrap_on_purpose() -> None:
    assert not any(h.any for h in run(unsigned_hash, (1,), bytes_of(*range(0, 240, 30))))
