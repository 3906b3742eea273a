"""Tests that large tiles, which are in arenas, need no space on the stack.

A tile of 128x256 f32 has 128 KiB. The kernels have several such tiles at a time, and run in threads
whose stacks have 256 KiB, including the frames of Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import kernel_text
import pytest
import torch

from ttools.interpreter import interpret

ROWS, COLUMNS = 128, 256
STACK = 256 * 1024

KERNELS = {
    "carried through a loop": """
    total = x
    other = tl.flip(x, 1)
    for i in range(n):
        total, other = other + 1, total * 2
    result = total + other
    """,
    "chosen by a branch": """
    total = tl.cumsum(x, 1)
    if n > 2:
        result = tl.cumsum(x, 0) + total
    else:
        result = tl.flip(total, 0)
    """,
    "multiplied": """
    square = tl.dot(x, tl.trans(x), input_precision="ieee")
    result = tl.dot(square, x, input_precision="ieee")
    """,
    "reshaped and gathered": """
    mixed = tl.reshape(tl.trans(x), (R, C))
    columns = tl.broadcast_to((tl.arange(0, C) * 7 % C)[None, :], (R, C))
    result = tl.gather(tl.cumsum(mixed, 1), columns, 1) + n
    """,
    "in a function of its own": """
    result = x + apart(x_ptr + tl.program_id(0) * R * C, n, R, C)
    """,
}

_TEXT = """
@triton.jit(noinline=True)
def apart(x_ptr, n, R: tl.constexpr, C: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    total = tl.cumsum(x, 1)
    for i in range(n):
        total = total * 2 - x
    return tl.max(tl.max(total, 0), 0)

@triton.jit
def kernel(x_ptr, out_ptr, n, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    at += tl.program_id(0) * R * C
    x = tl.load(x_ptr + at)
{body}
    tl.store(out_ptr + at, result)
"""


def expected(name: str, x: torch.Tensor, n: int) -> torch.Tensor:
    x = x.double()
    if name == "carried through a loop":
        total, other = x, x.flip(-1)
        for _ in range(n):
            total, other = other + 1, total * 2
        return total + other
    if name == "chosen by a branch":
        return x.cumsum(1) + x.cumsum(2) if n > 2 else x.cumsum(2).flip(1)
    if name == "multiplied":
        return x @ x.transpose(1, 2) @ x
    if name == "reshaped and gathered":
        sums = x.transpose(1, 2).reshape(x.shape).cumsum(2)
        return sums[..., torch.arange(COLUMNS) * 7 % COLUMNS] + n
    total = x.cumsum(2)
    for _ in range(n):
        total = total * 2 - x
    return x + total.amax((1, 2), keepdim=True)


@pytest.fixture
def small_stack() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Return a function that calls another in three threads with small stacks and raises errors."""
    before = threading.stack_size(STACK)

    def run(function: Callable[[], None]) -> None:
        with ThreadPoolExecutor(3) as executor:
            for future in [executor.submit(function) for _ in range(3)]:
                future.result()

    yield run
    threading.stack_size(before)


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
@pytest.mark.parametrize("threads", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KERNELS)
def test_large_tiles_in_threads_with_small_stacks(
    name: str, threads: int, schedule: str, small_stack: Callable[[Callable[[], None]], None]
) -> None:
    kernel = kernel_text.kernel(_TEXT.replace("{body}", KERNELS[name].strip("\n")))
    x = torch.randn(2, ROWS, COLUMNS)

    def launch() -> None:
        out = torch.empty_like(x)
        with interpret(schedule=schedule, threads=threads):  # type: ignore[arg-type]
            kernel[(2,)](x, out, 3, R=ROWS, C=COLUMNS)
        torch.testing.assert_close(out, expected(name, x, 3).float(), rtol=1e-4, atol=1e-3)

    launch()  # compile in this thread, because Triton's compiler needs a larger stack
    small_stack(launch)
