"""Several parameters are parts of one tensor; the finding names the parameter that is accessed."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def add_rows(q_ptr, v_ptr, FIXED: tl.constexpr, D: tl.constexpr):
    d = tl.arange(0, D)
    x = tl.load(q_ptr + tl.program_id(0) * 2 * D + d)
    if FIXED:
        tl.atomic_add(v_ptr + d, x)
    else:
        tl.store(v_ptr + d, tl.load(v_ptr + d) + x)  # BUG: race


@buggy("race", "v_ptr", also=["overlapping_store"])
def gradients_are_packed(fixed: bool) -> None:
    packed = torch.zeros(4, 2, 16)
    add_rows[(4,)](packed[:, 0], packed[:, 1], FIXED=fixed, D=16)


@triton.jit
def write_both(q_ptr, v_ptr, s, D: tl.constexpr):
    p = tl.program_id(0)
    d = tl.arange(0, D)
    tl.store(q_ptr + p * 2 * D + d, 1.0)
    tl.store(v_ptr + p * s + d, p.to(tl.float32))  # BUG: overlapping_store


@buggy("overlapping_store", "v_ptr")
def values_of_a_packed_output_have_no_stride(fixed: bool) -> None:
    packed = torch.zeros(4, 2, 16)
    write_both[(4,)](packed[:, 0], packed[:, 1], 32 if fixed else 0, D=16)


@triton.jit
def through_scratch(x_ptr, s_ptr, o_ptr, FIXED: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(s_ptr + r * N + c, tl.load(x_ptr + r * N + c))
    if FIXED:
        tl.debug_barrier()
    tl.store(o_ptr + r * N + c, tl.load(s_ptr + c * N + r))  # BUG: intra_program_race


@buggy("intra_program_race", "s_ptr")
def scratch_lies_behind_the_input(fixed: bool) -> None:
    work = torch.rand(2, 256)
    through_scratch[(1,)](work[0], work[1], torch.empty(16, 16), FIXED=fixed, N=16)


@triton.jit
def count_under_lock(lock_ptr, n_ptr, FIXED: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)
    if FIXED:
        tl.atomic_add(n_ptr, 1)
    else:
        tl.store(n_ptr, tl.load(n_ptr) + 1)  # BUG: race


@buggy("race", "n_ptr", also=["overlapping_store"])
def lock_and_counter_are_one_tensor(fixed: bool) -> None:
    words = torch.zeros(8, dtype=torch.int32)
    count_under_lock[(4,)](words[:1], words[4:5], FIXED=fixed)


@triton.jit
def nested_locks(all_ptr, a_ptr, b_ptr, o_ptr, FIXED: tl.constexpr):
    if FIXED or tl.program_id(0) == 0:
        while tl.atomic_cas(a_ptr, 0, 1) == 1:
            pass
        while tl.atomic_cas(b_ptr, 0, 1) == 1:  # BUG: deadlock
            pass
    else:
        while tl.atomic_cas(b_ptr, 0, 1) == 1:
            pass
        while tl.atomic_cas(a_ptr, 0, 1) == 1:
            pass
    tl.store(o_ptr, tl.load(o_ptr) + tl.load(all_ptr))
    tl.debug_barrier()
    tl.atomic_xchg(a_ptr, 0)
    tl.atomic_xchg(b_ptr, 0)


@buggy("deadlock", "b_ptr")
def both_locks_are_parts_of_a_tensor(fixed: bool) -> None:
    words = torch.zeros(8, dtype=torch.int32)
    nested_locks[(2,)](words, words[2:3], words[3:4], torch.zeros(1), FIXED=fixed)
