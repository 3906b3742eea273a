"""What programs log of their accesses, against sets of addresses that NumPy computes."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from observing import EVERYTHING, FOOTPRINTS, Observed, observe

R, C, PROGRAMS, MIDDLE = 4, 32, 3, 1024
_NUMBERS = ["sp", "s0", "s1", "n0", "n1", "turns"]


@triton.jit(do_not_specialize=_NUMBERS)
def strided(x_ptr, sp, s0, s1, n0, n1, turns, R: tl.constexpr, C: tl.constexpr):
    p = tl.program_id(0)
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    for turn in range(turns):
        at = x_ptr + p * sp + turn * C + r * s0 + c * s1
        tl.store(at, 1.0, mask=(r < n0) & (c < n1))


@triton.jit
def indexed(x_ptr, index_ptr, keep_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at, keep = tl.load(index_ptr + i), tl.load(keep_ptr + i)
    tl.atomic_add(x_ptr + at, 1.0, mask=keep != 0)


@triton.jit
def waits(flag_ptr, o_ptr, n):
    if tl.program_id(0) == 0:
        x = 1.0
        for _ in range(n):
            x = x * 0.999 + 1.0
        tl.store(o_ptr, x)
        tl.atomic_xchg(flag_ptr, 1)
    else:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass


def logged(observed: Observed, first: int, kind: str) -> list[set[int]]:
    """Per program the elements of a tensor of floats that sites of a kind logged."""
    found: list[set[int]] = [set() for _ in range(PROGRAMS)]
    for site, program, address, _ in observed.lanes():
        if observed.sites[site].kind == kind:
            assert (address - first) % 4 == 0
            found[program].add((address - first) // 4)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(-40, 80), st.integers(-40, 80), st.sampled_from([1, 1, 2, 0, -1, 5])),
    st.tuples(st.integers(0, R), st.integers(0, C)),
    st.integers(0, 3),
)
@example((128, 32, 1), (R, C), 2)
@example((0, 0, 0), (1, 1), 3)
def test_strided_tiles(steps: tuple[int, int, int], extents: tuple[int, int], turns: int) -> None:
    x = torch.zeros(2 * MIDDLE)
    view = x[MIDDLE:]
    observed = observe(
        lambda: strided[(PROGRAMS,)](view, *steps, *extents, turns, R=R, C=C), FOOTPRINTS
    )
    p, turn, r, c = np.ogrid[:PROGRAMS, :turns, : extents[0], : extents[1]]
    elements = p * steps[0] + turn * C + r * steps[1] + c * steps[2]
    expected = [set(elements[n].ravel().tolist()) for n in range(PROGRAMS)]
    assert logged(observed, view.data_ptr(), "store") == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.booleans())
def test_scattered_lanes(seed: int, share: float, in_runs: bool) -> None:
    random = np.random.default_rng(seed)
    index = random.integers(0, MIDDLE, (PROGRAMS, R * C))
    if in_runs:  # of neighbours, some of which are left out
        index = index[:, :1] // 2 + np.arange(R * C)
    keep = random.random(index.shape) < share
    x = torch.zeros(MIDDLE)
    arguments = (x, torch.tensor(index), torch.tensor(keep.astype(np.int8)))
    observed = observe(lambda: indexed[(PROGRAMS,)](*arguments, B=R * C), FOOTPRINTS)
    expected = [set(row[kept].tolist()) for row, kept in zip(index, keep, strict=True)]
    assert logged(observed, x.data_ptr(), "atomic") == expected


def test_a_waiting_program_fills_no_log() -> None:
    flag, o = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    observed = observe(lambda: waits[(3,)](flag, o, 20_000_000), EVERYTHING, threads=3)
    assert observed.syncs["seq"].max() > 200  # so often they looked
    assert len(observed.syncs) + len(observed.accesses) < 60
