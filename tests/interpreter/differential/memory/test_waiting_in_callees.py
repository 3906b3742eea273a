"""Tests of programs that wait, inside called functions, for a program that starts later."""

from __future__ import annotations

import kernel_text
import pytest
import torch

from ttools.interpreter import interpret

_TEXT = """\
@triton.jit(noinline={inner})
def peek(flag_ptr):
    return {observation}

@triton.jit(noinline={outer})
def peek_again(flag_ptr):
    return peek(flag_ptr)

@triton.jit(noinline={loop})
def wait(flag_ptr):
    while peek_again(flag_ptr) == 0:
        pass

@triton.jit
def kernel(flag_ptr, out_ptr):
    p = tl.program_id(0)
    if p == tl.num_programs(0) - 1:
        tl.atomic_xchg(flag_ptr, 1)
    else:
        wait(flag_ptr)
    tl.store(out_ptr + p, p)
"""


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    "observation", ["tl.atomic_add(flag_ptr, 0)", "tl.load(flag_ptr, volatile=True)"]
)
def test_waiting_programs_let_others_run(
    observation: str, loop: bool, outer: bool, inner: bool
) -> None:
    text = _TEXT.format(observation=observation, loop=loop, outer=outer, inner=inner)
    out = torch.full((8,), -1, dtype=torch.int32)
    with interpret(threads=1):
        kernel_text.kernel(text)[(8,)](torch.zeros(1, dtype=torch.int32), out)
    assert out.tolist() == list(range(8))
