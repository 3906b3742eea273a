"""Accesses in functions that Triton does not inline."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit(noinline=True)
def read_one(p, i):
    return tl.load(p + i)  # BUG: oob_load


@triton.jit(noinline=True)
def add_to(p, i, x):
    tl.store(p + i, tl.load(p + i) + x)  # BUG: race


@triton.jit
def by_calls(x_ptr, o_ptr, shift, group):
    i = tl.program_id(0)
    add_to(o_ptr, i // group, read_one(x_ptr, i + shift))


@buggy("oob_load", "x_ptr")
def function_that_is_not_inlined_reads(fixed: bool) -> None:
    by_calls[(30,)](torch.rand(30), torch.zeros(30), 0 if fixed else 2, 1)


@buggy("race", "o_ptr", also=["overlapping_store"], checks="racecheck")
def function_that_is_not_inlined_races(fixed: bool) -> None:
    by_calls[(30,)](torch.rand(30), torch.zeros(30), 0, 1 if fixed else 2)
