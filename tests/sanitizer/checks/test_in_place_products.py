"""Kernels that update memory in place, over all combinations of barriers, warps and exchanges."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

YES_NO = (False, True)
B = 64


def kinds(kernel: Any, programs: int, *arguments: Any, **constants: Any) -> set[str]:
    """Return the kinds of the findings of racecheck in one launch."""
    with sanitize(checks="racecheck,deadlock") as report:
        kernel[(programs,)](*arguments, **{"B": B, **constants})
    return {finding.kind for finding in report.findings if finding.severity != "note"}


def product(*choices: Iterable[Any]) -> list[Any]:
    return list(itertools.product(*choices))


@triton.jit
def ring(
    x_ptr,
    turns,
    SHIFT: tl.constexpr,
    BEFORE: tl.constexpr,
    AFTER: tl.constexpr,
    SUM: tl.constexpr,
    WHILE: tl.constexpr,
    B: tl.constexpr,
):
    i = tl.arange(0, B)
    if WHILE:
        turn = 0
        while turn < turns:
            x = tl.load(x_ptr + (i + SHIFT) % B)
            if BEFORE:
                tl.debug_barrier()
            tl.store(x_ptr + i, x + 1)
            if AFTER:
                tl.debug_barrier()
            turn += 1
    else:
        for _ in range(turns):
            x = tl.load(x_ptr + (i + SHIFT) % B)
            if SUM:
                x -= tl.sum(x, 0)  # threads wait here, but not for the following store
            if BEFORE:
                tl.debug_barrier()
            tl.store(x_ptr + i, x + 1)
            if AFTER:
                tl.debug_barrier()


@pytest.mark.parametrize(
    ("turns", "shift", "before", "after"), product((1, 3), YES_NO, YES_NO, YES_NO)
)
def test_values_stored_in_one_iteration_are_loaded_in_the_next(turns, shift, before, after):
    barriers = {"BEFORE": before, "AFTER": after}
    kinds_found = kinds(
        ring, 1, torch.rand(B), turns, SHIFT=int(shift), **barriers, SUM=False, WHILE=before
    )
    overwritten, reloaded = not before, turns > 1 and not after
    assert kinds_found == ({"intra_program_race"} if shift and (overwritten or reloaded) else set())


@pytest.mark.parametrize(("shift", "after"), product(YES_NO, YES_NO))
def test_a_reduction_before_the_store_is_no_barrier_behind_it(shift, after):
    """Report a race: the fastest thread may be ahead of threads that have not stored yet."""
    for warps in (1, 4):
        arguments = {"SHIFT": int(shift), "BEFORE": False, "AFTER": after, "SUM": True}
        kinds_found = kinds(ring, 1, torch.rand(B), 3, **arguments, WHILE=False, num_warps=warps)
        # A single warp does not wait for itself, so that its sum is not a barrier.
        ordered = after and warps > 1
        assert kinds_found == ({"intra_program_race"} if shift and not ordered else set()), warps


@triton.jit
def in_place(x_ptr, HOW: tl.constexpr, BARRIER: tl.constexpr, MOVED: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + i * B + j)
    if HOW == "sum":
        x -= tl.sum(x)
    elif HOW == "scan":
        x = tl.cumsum(x, 0)
    elif HOW == "dot":
        x = tl.dot(x, x, input_precision="ieee")
    elif HOW == "trans":
        x = tl.trans(x)
    if BARRIER:
        tl.debug_barrier()
    if MOVED:
        tl.store(x_ptr + j * B + i, x)
    else:
        tl.store(x_ptr + i * B + j, x)


@pytest.mark.parametrize("how", ["none", "sum", "scan", "dot", "trans"])
def test_a_tile_is_updated_in_place(how):
    for barrier, moved, warps in product(YES_NO, YES_NO, (1, 4)):
        kinds_found = kinds(
            *(in_place, 1, torch.rand(16, 16)),
            HOW=how,
            BARRIER=barrier,
            MOVED=moved,
            num_warps=warps,
            B=16,
        )

        # Values that are exchanged in another way stay in their threads; a single warp does not
        # wait for itself.
        ordered = barrier or (how in ("sum", "scan", "dot") and warps > 1)

        assert kinds_found == ({"intra_program_race"} if moved and not ordered else set())
