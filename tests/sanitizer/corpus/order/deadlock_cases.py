"""Programs that wait for each other, or for a signal that never comes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def kept(x_ptr, o_ptr, lock_ptr, n, FIXED: tl.constexpr):
    p = tl.program_id(0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # BUG: deadlock
        pass
    tl.debug_barrier()
    tl.store(o_ptr, tl.load(o_ptr) + tl.load(x_ptr + p))
    tl.debug_barrier()
    if FIXED:
        tl.atomic_xchg(lock_ptr, 0)
    else:
        if p < n:
            tl.atomic_xchg(lock_ptr, 0)


@buggy("deadlock", "lock_ptr")
def lock_is_kept_on_one_path(fixed: bool) -> None:
    kept[(6,)](torch.rand(6), torch.zeros(1), torch.zeros(1, dtype=torch.int32), 3, FIXED=fixed)


@triton.jit
def never(flag_ptr, o_ptr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    if FIXED and p == 0:
        tl.atomic_xchg(flag_ptr, 1)
    if p == 1:
        while tl.atomic_add(flag_ptr, 0) == 0:  # BUG: deadlock
            pass
    tl.store(o_ptr + p, p)


@buggy("deadlock", "flag_ptr")
def nobody_raises_the_flag(fixed: bool) -> None:
    flag, o = torch.zeros(1, dtype=torch.int32), torch.empty(3, dtype=torch.int32)
    never[(3,)](flag, o, FIXED=fixed)


@triton.jit
def in_turn(turn_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    mine = p if FIXED else N - 1 - p
    while tl.atomic_add(turn_ptr, 0) != mine:  # BUG: deadlock
        pass
    tl.debug_barrier()
    tl.store(o_ptr + p, mine)
    tl.debug_barrier()
    tl.atomic_add(turn_ptr, 1)


@buggy("deadlock", "turn_ptr")
def first_waits_for_the_last(fixed: bool) -> None:
    turn, o = torch.zeros(1, dtype=torch.int32), torch.empty(5, dtype=torch.int32)
    in_turn[(5,)](turn, o, N=5, FIXED=fixed)


@triton.jit
def twice(x_ptr, lock_ptr, FIXED: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.debug_barrier()
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.debug_barrier()
    if not FIXED:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # BUG: deadlock
            pass
    tl.atomic_xchg(lock_ptr, 0)


@buggy("deadlock", "lock_ptr")
def lock_is_taken_twice(fixed: bool) -> None:
    twice[(2,)](torch.zeros(1), torch.zeros(1, dtype=torch.int32), FIXED=fixed)


@triton.jit
def everybody(n_ptr, part_ptr, o_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    tl.store(part_ptr + p, p * 1.0)
    tl.debug_barrier()
    tl.atomic_add(n_ptr, 1)
    while tl.atomic_add(n_ptr, 0) < N:  # BUG: deadlock
        pass
    tl.debug_barrier()
    tl.store(o_ptr + p, tl.sum(tl.load(part_ptr + tl.arange(0, N)), 0))


@triton.jit
def parts(part_ptr):
    tl.store(part_ptr + tl.program_id(0), tl.program_id(0) * 1.0)


@triton.jit
def whole(part_ptr, o_ptr, N: tl.constexpr):
    tl.store(o_ptr + tl.program_id(0), tl.sum(tl.load(part_ptr + tl.arange(0, N)), 0))


@buggy("deadlock", "n_ptr")
def barrier_of_a_grid_that_may_not_fit(fixed: bool) -> None:
    n, part, o = torch.zeros(1, dtype=torch.int32), torch.empty(8), torch.empty(8)
    if fixed:
        parts[(8,)](part)
        whole[(8,)](part, o, N=8)
    else:
        everybody[(8,)](n, part, o, N=8)


@buggy("deadlock", "n_ptr")
def barrier_of_a_grid_that_is_no_cooperative_one(fixed: bool) -> None:
    n, part, o = torch.zeros(1, dtype=torch.int32), torch.empty(8), torch.empty(8)
    everybody[(8,)](n, part, o, N=8, launch_cooperative_grid=fixed)


@triton.jit
def too_few(n_ptr, o_ptr, EXPECTED: tl.constexpr):
    p = tl.program_id(0)
    tl.atomic_add(n_ptr, 1)
    if p == 3:
        while tl.atomic_add(n_ptr, 0) < EXPECTED:  # BUG: deadlock
            pass
    tl.store(o_ptr + p, p)


@buggy("deadlock", "n_ptr")
def more_are_expected_than_launched(fixed: bool) -> None:
    n, o = torch.zeros(1, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
    too_few[(4,)](n, o, EXPECTED=4 if fixed else 5)


@triton.jit
def nested(x_ptr, lock_ptr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    first = 0 if FIXED else p % 2
    second = 1 - first
    while tl.atomic_cas(lock_ptr + first, 0, 1) == 1:
        pass
    while tl.atomic_cas(lock_ptr + second, 0, 1) == 1:  # BUG: deadlock
        pass
    tl.debug_barrier()
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + second, 0)
    tl.atomic_xchg(lock_ptr + first, 0)


@buggy("deadlock", "lock_ptr")
def locks_are_taken_in_opposite_orders(fixed: bool) -> None:
    nested[(8,)](torch.zeros(1), torch.zeros(2, dtype=torch.int32), FIXED=fixed)


@triton.jit
def dining(x_ptr, fork_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    q = (p + 1) % N
    left = tl.minimum(p, q) if FIXED else p
    right = tl.maximum(p, q) if FIXED else q
    while tl.atomic_cas(fork_ptr + left, 0, 1) == 1:
        pass
    while tl.atomic_cas(fork_ptr + right, 0, 1) == 1:  # BUG: deadlock
        pass
    tl.debug_barrier()
    tl.store(x_ptr + left, tl.load(x_ptr + left) + 1)
    tl.store(x_ptr + right, tl.load(x_ptr + right) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(fork_ptr + right, 0)
    tl.atomic_xchg(fork_ptr + left, 0)


@buggy("deadlock", "fork_ptr")
def everybody_takes_the_left_fork_first(fixed: bool) -> None:
    dining[(5,)](torch.zeros(5), torch.zeros(5, dtype=torch.int32), N=5, FIXED=fixed)
