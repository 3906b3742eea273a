"""Errors of Triton's front end are explained with the values that caused them, and the remedies of
the explanations compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.compilation.compile_errors import (
    explain_in_message,
    explanation,
    message_in_one_line,
)
from ttools.interpreter import interpret

GLOBAL = 3


@triton.jit
def range_kernel(x_ptr, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), 0.0)


@triton.jit
def runtime_range_kernel(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, n), 0.0)


@triton.jit
def zeros_kernel(x_ptr, B: tl.constexpr):
    tl.store(x_ptr, tl.sum(tl.zeros((B,), tl.float32), 0))


@triton.jit
def runtime_zeros_kernel(x_ptr, n):
    tl.store(x_ptr, tl.sum(tl.zeros((n,), tl.float32), 0))


@triton.jit
def static_range_kernel(x_ptr, n):
    for i in tl.static_range(n):
        tl.store(x_ptr + i, 0.0)


@triton.jit
def broadcast_kernel(x_ptr, A: tl.constexpr, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, A) + tl.arange(0, B), 0.0)


@triton.jit
def doubling_kernel(x_ptr, s, n):
    for _ in range(n):
        s = s * 2
    tl.store(x_ptr, s)


@triton.jit(do_not_specialize=["s"])
def doubling_mended_kernel(x_ptr, s, n):
    for _ in range(n):
        s = s * 2
    tl.store(x_ptr, s)


@triton.jit
def doubling_copied_kernel(x_ptr, s, n):
    s = tl.full([], s, tl.int32)
    for _ in range(n):
        s = s * 2
    tl.store(x_ptr, s)


@triton.jit
def integer_sum_kernel(x_ptr, n):
    total = 0
    for i in range(n):
        total += tl.load(x_ptr + i)
    tl.store(x_ptr, total)


@triton.jit
def float_sum_kernel(x_ptr, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x_ptr + i)
    tl.store(x_ptr, total)


@triton.jit
def half_sum_kernel(x_ptr, n):
    total = tl.zeros([16], tl.float16)
    for _ in range(n):
        total += tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr + tl.arange(0, 16), total)


@triton.jit
def shrinking_kernel(x_ptr, n):
    total = tl.zeros([16], tl.float32)
    for _ in range(n):
        total = tl.sum(total, 0)
    tl.store(x_ptr, total)


@triton.jit
def product_kernel(x_ptr, y_ptr, K: tl.constexpr, L: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x_ptr + i[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(y_ptr + tl.arange(0, L)[:, None] * 16 + i[None, :])
    tl.store(x_ptr + i[:, None] * 16 + i[None, :], tl.dot(a, b).to(tl.float16))


@triton.jit
def global_kernel(x_ptr):
    tl.store(x_ptr, GLOBAL)


@triton.jit
def branch_kernel(x_ptr, n):
    if n > 3:
        y = 1.0
    tl.store(x_ptr, y)


@triton.jit
def two_types_kernel(x_ptr, n):
    if n > 3:
        y = tl.zeros([16], tl.float32)
    else:
        y = 1.0
    tl.store(x_ptr + tl.arange(0, 16), y)


@triton.jit
def return_kernel(x_ptr, n):
    for i in range(n):
        if i > 3:
            return
    tl.store(x_ptr, 0.0)


@triton.jit
def break_kernel(x_ptr, n):
    for i in range(n):
        if i > 3:
            break
    tl.store(x_ptr, 0.0)


@triton.jit
def continue_kernel(x_ptr, n):
    for i in range(n):
        if i > 3:
            continue
        tl.store(x_ptr + i, 0.0)


@triton.jit
def try_kernel(x_ptr):
    try:  # noqa: SIM105
        tl.store(x_ptr, 0.0)
    except ValueError:
        pass


@triton.jit
def lambda_kernel(x_ptr):
    double = lambda v: v * 2  # noqa: E731
    tl.store(x_ptr, double(1.0))


@triton.jit
def list_kernel(x_ptr):
    values = [i for i in range(3)]  # noqa: C416
    tl.store(x_ptr, values)


@triton.jit
def condition_kernel(x_ptr):
    if tl.load(x_ptr + tl.arange(0, 16)) > 0:
        tl.store(x_ptr, 0.0)


@triton.jit
def element_kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr, x[0])


@triton.jit
def element_mended_kernel(x_ptr):
    index = tl.arange(0, 16)
    x = tl.load(x_ptr + index)
    tl.store(x_ptr, tl.sum(tl.where(index == 0, x, 0)))


@triton.jit
def mask_kernel(x_ptr, n):
    tl.store(x_ptr, 0.0, mask=tl.arange(0, 16) < n)


@triton.jit
def large_kernel(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i[:, None] * B + i[None, :], 0.0)


@triton.jit
def offset_kernel(x_ptr):
    tl.store(x_ptr + 1.5, 0.0)


@triton.jit
def bits_kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) & tl.load(x_ptr))


@triton.jit
def reshape_kernel(x_ptr):
    tl.store(x_ptr + tl.arange(0, 16), tl.reshape(tl.arange(0, 32), [16]))


@triton.jit
def store_kernel(x_ptr):
    tl.store(x_ptr + tl.arange(0, 16), tl.zeros([16, 16], tl.float32))


@triton.jit
def optional_kernel(x_ptr, bias_ptr):
    tl.store(x_ptr, tl.load(bias_ptr))


@triton.jit
def optional_mended_kernel(x_ptr, bias_ptr):
    if bias_ptr is not None:
        tl.store(x_ptr, tl.load(bias_ptr))


@triton.jit
def spelling_kernel(x_ptr):
    tl.store(x_ptr, tl.expp(1.0))


def plain(v: Any) -> Any:
    return v


@triton.jit
def plain_kernel(x_ptr):
    tl.store(x_ptr, plain(tl.load(x_ptr)))


def floats() -> torch.Tensor:
    return torch.zeros(256)


def integers() -> torch.Tensor:
    return torch.zeros(64, dtype=torch.int32)


def halves() -> torch.Tensor:
    return torch.zeros(1024, dtype=torch.float16)


Launch = Callable[[], object]
#: Failing launches, and parts of their explanations.
FAILING: dict[str, tuple[Launch, tuple[str, ...]]] = {
    "range": (
        lambda: range_kernel[1,](floats(), B=48),
        ("has 48 elements (`B` is 48)", "use 64", "triton.next_power_of_2(48)"),
    ),
    "range at run time": (
        lambda: runtime_range_kernel[1,](floats(), 48),
        ("declare `n: tl.constexpr`",),
    ),
    "shape": (lambda: zeros_kernel[1,](floats(), B=48), ("`B` is 48", "use 64")),
    "shape at run time": (
        lambda: runtime_zeros_kernel[1,](floats(), 48),
        ("`n` must be known when the kernel is compiled",),
    ),
    "static range": (
        lambda: static_range_kernel[1,](floats(), 4),
        ("declare `n: tl.constexpr`",),
    ),
    "broadcast": (
        lambda: broadcast_kernel[1,](floats(), A=32, B=64),
        ("must be equal or 1 (`A` is 32, `B` is 64)",),
    ),
    "argument equal to 1": (
        lambda: doubling_kernel[1,](integers(), 1, 3),
        ("`s` is 1 in this launch", 'do_not_specialize=["s"]', "tl.full([], s, tl.int32)"),
    ),
    "integer becomes float": (
        lambda: integer_sum_kernel[1,](floats(), 3),
        ("`total` changes from int32 to fp32", "begin with `total = 0.0`"),
    ),
    "half becomes float": (
        lambda: half_sum_kernel[1,](floats(), 3),
        ("begin with `total = tl.zeros([16], tl.float32)`", ".to(tl.float16)"),
    ),
    "shape changes": (
        lambda: shrinking_kernel[1,](floats(), 3),
        ("`total` changes its shape from [16] to a scalar",),
    ),
    "shapes of a product": (
        lambda: product_kernel[1,](halves(), halves(), K=16, L=32),
        ("`a` of shape [M, K] and `b` of shape [K, N]",),
    ),
    "types of a product": (
        lambda: product_kernel[1,](halves(), torch.zeros(1024), K=16, L=16),
        ("are fp16 and fp32", "b.to(a.dtype)"),
    ),
    "global variable": (
        lambda: global_kernel[1,](integers()),
        ("`GLOBAL = tl.constexpr(…)`",),
    ),
    "assigned in a branch": (lambda: branch_kernel[1,](floats(), 2), ("`y`", "assign it before")),
    "two types": (
        lambda: two_types_kernel[1,](floats(), 2),
        ("`y` is <['16'], fp32> in one branch and fp32 in the other",),
    ),
    "return": (lambda: return_kernel[1,](floats(), 2), ("set a variable in the loop",)),
    "break": (lambda: break_kernel[1,](floats(), 2), ("`while` loop",)),
    "continue": (lambda: continue_kernel[1,](floats(), 2), ("under an `if`",)),
    "try": (lambda: try_kernel[1,](floats()), ("no exceptions", "tl.device_assert")),
    "lambda": (lambda: lambda_kernel[1,](floats()), ("write a function with `@triton.jit`",)),
    "list": (lambda: list_kernel[1,](floats()), ("kernels have no lists",)),
    "condition": (lambda: condition_kernel[1,](floats()), ("tl.where", "each lane")),
    "element": (lambda: element_kernel[1,](floats()), ("tl.sum(tl.where(index == i, x, 0))",)),
    "number as pointer": (
        lambda: range_kernel[1,](5, B=16),
        ("`x_ptr + tl.arange(0, B)` is a number, not a pointer",),
    ),
    "mask of a scalar": (lambda: mask_kernel[1,](floats(), 12), ("the pointer is a scalar",)),
    "too large": (
        lambda: large_kernel[1,](floats(), B=2048),
        ("at most 1,048,576 elements", "has 4,194,304"),
    ),
    "float offset": (lambda: offset_kernel[1,](floats()), ("must be an integer",)),
    "bits of floats": (lambda: bits_kernel[1,](floats()), ("need integers",)),
    "reshape": (lambda: reshape_kernel[1,](integers()), ("product of the new extents",)),
    "store": (lambda: store_kernel[1,](floats()), ("must have the same shape",)),
    "None": (
        lambda: optional_kernel[1,](floats(), None),
        ("`bias_ptr` is None in this launch", "if bias_ptr is not None:"),
    ),
    "spelling": (lambda: spelling_kernel[1,](floats()), ("check the spelling",)),
    "function of Python": (
        lambda: plain_kernel[1,](floats()),
        ("decorate `plain` with `@triton.jit`",),
    ),
    "missing argument": (
        lambda: broadcast_kernel[1,](floats(), A=16),
        ("pass 'B' in the launch",),
    ),
    "unknown argument": (
        lambda: range_kernel[1,](floats(), B=16, C=3),
        ("`C` is neither a parameter of the kernel nor a launch option",),
    ),
}
#: Launches of kernels that follow the advice.
MENDED: dict[str, Launch] = {
    "range": lambda: range_kernel[1,](floats(), B=64),
    "do_not_specialize": lambda: doubling_mended_kernel[1,](integers(), 1, 3),
    "copy": lambda: doubling_copied_kernel[1,](integers(), 1, 3),
    "float": lambda: float_sum_kernel[1,](floats(), 3),
    "element": lambda: element_mended_kernel[1,](floats()),
    "None": lambda: optional_mended_kernel[1,](floats(), None),
}


def raised(launch: Launch) -> BaseException:
    with interpret(), pytest.raises(Exception) as error:  # noqa: PT011 - the texts are compared
        launch()
    return error.value


@pytest.mark.parametrize("name", FAILING)
def test_an_error_is_explained(name: str) -> None:
    launch, parts = FAILING[name]
    text = explanation(raised(launch))
    assert [part for part in parts if part not in text] == [], text


@pytest.mark.parametrize("name", MENDED)
def test_the_advice_compiles(name: str) -> None:
    with interpret():
        MENDED[name]()


def test_the_explanation_follows_the_message() -> None:
    error = raised(FAILING["range"][0])
    one_line = message_in_one_line(error)
    assert one_line.startswith("arange's range must be a power of 2; help: the range has 48")
    explain_in_message(error)
    lines = str(error).splitlines()
    assert lines[-2] == "arange's range must be a power of 2"
    assert lines[-1].startswith("help: the range has 48 elements")
    explain_in_message(error)
    assert str(error).splitlines() == lines


@pytest.mark.parametrize("error", [ValueError("a value"), KeyError("a key"), KeyboardInterrupt()])
def test_other_errors_stay_as_they_are(error: BaseException) -> None:
    before = str(error)
    explain_in_message(error)
    assert (explanation(error), str(error)) == ("", before)
