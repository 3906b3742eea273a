"""NaN, infinity and division by zero are reported at their origin, if they reach memory."""

from __future__ import annotations

from typing import Any

import instrumented
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from instrumented import Held, line_of

from ttools.sanitizer.passes import numeric

B = 8


def run(kernel: Any, x: list[float], schedule: str = "fused", **arguments: Any) -> list[Held]:
    arguments |= {"x_ptr": torch.tensor(x), "o_ptr": torch.zeros(64), "n": len(x)}
    arguments = {name: arguments[name] for name in kernel.arg_names if name != "B"}
    checks = instrumented.run(
        kernel,
        (1,),
        arguments,
        {"B": B},
        numeric.apply,
        schedule=schedule,  # type: ignore[arg-type]
    )
    return [h for h in checks if h.any]


@triton.jit
def softmax(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=float("-inf"))
    shifted = x - tl.max(x, 0)  # inf - inf
    e = tl.exp(shifted)
    tl.store(o_ptr + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def unguarded(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    r = 1.0 / x  # by zero
    tl.store(o_ptr + i, tl.where(x != 0, r, 0.0), mask=i < n)
    tl.store(o_ptr + B + i, r, mask=i < n)


@triton.jit
def narrowed(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    acc = tl.zeros((B,), tl.float32)
    for _ in range(3):
        acc = acc + x * x  # grows
    tl.store(o_ptr + i, acc, mask=i < n)


@triton.jit
def whole(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.int32)
    tl.store(o_ptr + i, 100 // x, mask=i < n)  # whole numbers


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_origins_are_named(schedule: str) -> None:
    inf = float("inf")
    assert run(softmax, [1.0, 2.0, 3.0], schedule) == []
    (check,) = run(softmax, [-inf, -inf, -inf], schedule)
    assert (check.kind, line_of(check)) == ("nan", "shifted = x - tl.max(x, 0)  # inf - inf")
    assert check.where[0].nonzero()[0].tolist() == [0, 1, 2]

    assert run(unguarded, [1.0, 2.0], schedule) == []
    (check,) = run(unguarded, [1.0, 0.0, 2.0], schedule)
    assert (check.kind, line_of(check)) == ("div_by_zero", "r = 1.0 / x  # by zero")
    assert check.where[0].nonzero()[0].tolist() == [1]

    assert run(narrowed, [1e18, 1.0, inf], schedule) == []
    (check,) = run(narrowed, [1.4e19, 1.0, inf], schedule)
    assert (check.kind, line_of(check)) == ("inf", "acc = acc + x * x  # grows")
    np.testing.assert_array_equal(check.where[0].nonzero()[0], [0])

    assert run(whole, [1.0, 5.0], schedule) == []
    (check,) = run(whole, [1.0, 0.0], schedule)
    assert check.kind == "div_by_zero"
    assert check.argument == 1


def test_loaded_values_have_no_origin() -> None:
    assert run(softmax, [float("nan"), 1.0]) == []
    assert run(narrowed, [float("nan"), float("inf")]) == []
