"""Tests of errors in eager kernels, which have the line and values and do not end the process."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.errors import CompilationError

from ttools.core.errors import KernelError, UnsupportedError, UsageError
from ttools.interpreter import interpret


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    with interpret(engine="eager"):
        yield


def line_of(kernel: Any, text: str) -> int:
    """Return the number of the line of a kernel in this file that contains a text."""
    lines, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, line in enumerate(lines) if text in line)


@triton.jit
def shifted(x_ptr, n, shift, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK) + shift
    values = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, values + 1, mask=offsets < n)


@pytest.mark.parametrize("shift", [2, -3, 1 << 28])
def test_an_out_of_bounds_access_is_an_error_at_its_line(shift: int) -> None:
    x = torch.zeros(10)
    with pytest.raises(
        KernelError, match=r"out-of-bounds load of 4 bytes through `x_ptr`"
    ) as raised:
        shifted[(1,)](x, 1 << 30, shift, BLOCK=16)
    error = raised.value
    assert error.location is not None
    assert error.location.line == line_of(shifted, "values = tl.load")
    element = shift if shift < 0 or shift > 10 else 10
    assert f"element {element} of `x_ptr`, float32[10] (40 bytes)" in str(error)
    assert "program (0, 0, 0)" in str(error)
    # Nothing was stored, and the next launch works.
    shifted[(1,)](x, 10, 0, BLOCK=16)
    assert x.tolist() == [1.0] * 10


@triton.jit
def through_table(table_ptr, out_ptr):
    address = tl.load(table_ptr)
    pointer = address.to(tl.pointer_type(tl.float32))
    tl.store(out_ptr, tl.load(pointer) + 1)


def test_loaded_pointers_must_point_to_a_tensor() -> None:
    x, out = torch.tensor([41.0]), torch.zeros(1)
    through_table[(1,)](torch.tensor([x.data_ptr()]), out)
    assert out.item() == 42.0
    with pytest.raises(KernelError, match="does not belong to a live tensor"):
        through_table[(1,)](torch.tensor([8]), out)
    with pytest.raises(KernelError, match="the address is null"):
        through_table[(1,)](torch.tensor([0]), out)


@triton.jit
def condition_on_a_block(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    if x > 0:
        tl.store(x_ptr, 1.0)


def test_conditions_on_blocks_are_errors() -> None:
    with pytest.raises(UnsupportedError, match=r"bool\(\) of a block of values") as raised:
        condition_on_a_block[(1,)](torch.zeros(4))
    assert raised.value.location is not None
    assert raised.value.location.line == line_of(condition_on_a_block, "if x > 0")


@triton.jit
def waits(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) < 1:
        pass


def test_waiting_for_another_program_is_an_error() -> None:
    with pytest.raises(KernelError, match="no other program can continue; ") as raised:
        waits[(2,)](torch.zeros(1, dtype=torch.int32))
    assert raised.value.kind == "deadlock"


def test_observed_launches_cannot_run_eagerly() -> None:
    with pytest.raises(UsageError, match="an observer needs the native engine"):
        interpret(engine="eager", observer=object())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must be one of native, eager"):
        interpret(engine="other")  # type: ignore[arg-type]


@triton.jit
def widens(x_ptr, n, N: tl.constexpr):
    offsets = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for i in range(n):
        total = total + tl.load(x_ptr + offsets).to(tl.float64) * i
    tl.store(x_ptr + offsets, total)


@triton.jit
def leaves(x_ptr, n):
    for i in range(n):
        tl.store(x_ptr, 1.0)
        if i > n - 2:
            return


@triton.jit
def keeps_types(out_ptr, n, N: tl.constexpr):
    """Change variables in loops in ways that Triton can compile."""
    total = 0
    scale = 1.0
    for i in tl.static_range(2):
        total = total + tl.full((), i, tl.int64)
    for i in range(n):
        part = i + tl.arange(0, N)
        total += tl.sum(part)
        scale *= 0.5
    for i in range(tl.full((), 3, tl.int64)):
        part = scale * i
        scale += part
    tl.store(out_ptr, total + scale)


@pytest.mark.parametrize("engine", ["native", "eager"])
@pytest.mark.parametrize(
    ("kernel", "constants", "sentence"),
    [
        (widens, {"N": 4}, r"Loop-carried variable total has initial type"),
        (leaves, {}, "Cannot have `return` statements inside `while` or `for`"),
    ],
    ids=["types", "return"],
)
def test_loops_that_do_not_compile(
    engine: Literal["native", "eager"],
    kernel: triton.JITFunction,
    constants: dict[str, int],
    sentence: str,
) -> None:
    with interpret(engine=engine), pytest.raises(CompilationError, match=sentence):
        kernel[(1,)](torch.zeros(4), 3, **constants)


def test_loops_that_compile() -> None:
    results = []
    for engine in ("native", "eager"):
        out = torch.zeros(1)
        with interpret(engine=engine):
            keeps_types[(1,)](out, 3, N=4)
        results.append(out.item())
    assert results[0] == results[1] == 1 + 30 + 0.125 * 6


@triton.jit
def mixes(v, w):
    return v & w


@triton.jit
def mistaken(x_ptr, N: tl.constexpr):
    v = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr + tl.arange(0, N), mixes(v, 1.5))


def test_compilation_errors_are_raised_at_their_line() -> None:
    with pytest.raises(CompilationError, match="invalid operands of type") as raised:
        mistaken[(1,)](torch.zeros(4), N=4)
    assert f"test_errors.py:{line_of(mixes, 'return v & w')}" in str(raised.value)
    # The last entry of the traceback is the user's code.
    last = raised.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (__file__, line_of(mixes, "return v & w"))
    assert "triton" not in [entry.path.parent.name for entry in raised.traceback[-2:]]
