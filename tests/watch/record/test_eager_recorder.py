"""Recordings of programs that run eagerly beside native ones."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.watch import watch


@triton.jit
def back_and_forth(log_ptr, flag_ptr, rounds):
    """Let two programs wait for each other in each iteration of their loops."""
    pid = tl.program_id(0)
    for i in range(rounds):
        while tl.atomic_add(flag_ptr, 0) != i * 2 + pid:
            pass
        step = i * 10 + pid
        tl.store(log_ptr + i * 2 + pid, step)
        tl.atomic_add(flag_ptr, 1)


def test_programs_that_wait_for_each_other_count_their_own_iterations() -> None:
    rounds = 4
    log = torch.zeros(2 * rounds, dtype=torch.int32)
    with watch(["step"], compare="eager") as run:
        back_and_forth[(2,)](log, torch.zeros(1, dtype=torch.int32), rounds)
    assert log.tolist() == [0, 1, 10, 11, 20, 21, 30, 31]
    assert run.comparison.first is None
    assert run.comparison.compared == 2 * rounds
    assert not run.comparison.alone
