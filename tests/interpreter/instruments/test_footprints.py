"""Tests of the logs of accesses, compared with sets of addresses that NumPy computes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
import triton
import triton.language as tl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from observing import EVERYTHING, FOOTPRINTS, Observed, observe

from ttools.interpreter.runtime.access_log import more_lanes

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


@triton.jit
def gathers(x_ptr, index_ptr, keep_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at, keep = tl.load(index_ptr + i), tl.load(keep_ptr + i)
    # Reads of tensors that the launch does not write are not logged, so it writes `x`.
    tl.store(x_ptr + i, tl.load(x_ptr + at, mask=keep != 0, other=0.0))


def logged(observed: Observed, first: int, kind: str, parameter: int = 0) -> list[Counter[int]]:
    """Return, for each program, the number of accesses of a kind to each element of a tensor."""
    counts: list[Counter[int]] = [Counter() for _ in range(PROGRAMS)]
    for row, more in zip(observed.accesses, more_lanes(observed.accesses).tolist(), strict=True):
        site = observed.sites[row["site"]]
        if (site.kind, site.parameter) == (kind, parameter):
            assert (row["start"] - first) % 4 == 0
            elements = range((row["start"] - first) // 4, (row["end"] - first) // 4)
            assert not more or len(elements) == 1
            counts[row["program"]].update(dict.fromkeys(elements, 1 + more))
    return counts


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
    expected = [Counter(elements[n].ravel().tolist()) for n in range(PROGRAMS)]
    assert logged(observed, view.data_ptr(), "store") == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.sampled_from(["", "runs", "few", "last"]))
def test_scattered_and_gathered_lanes(seed: int, share: float, shape: str) -> None:
    random = np.random.default_rng(seed)
    index = random.integers(0, MIDDLE, (PROGRAMS, R * C))
    if shape == "runs":  # consecutive elements, some of which are masked off
        index = index[:, :1] // 2 + np.arange(R * C)
    elif shape == "few":  # many consecutive lanes have the same address
        index = np.sort(index % 5, axis=1)
    elif shape == "last":  # consecutive elements, then repetitions of the last one
        index = np.minimum(np.arange(R * C), index[:, :1] % (R * C))
    keep = random.random(index.shape) < share
    x = torch.zeros(MIDDLE)
    arguments = (x, torch.tensor(index), torch.tensor(keep.astype(np.int8)))
    expected = [Counter(row[kept].tolist()) for row, kept in zip(index, keep, strict=True)]
    observed = observe(lambda: indexed[(PROGRAMS,)](*arguments, B=R * C), FOOTPRINTS)
    assert logged(observed, x.data_ptr(), "atomic") == expected
    observed = observe(lambda: gathers[(PROGRAMS,)](*arguments, B=R * C), FOOTPRINTS)
    assert logged(observed, x.data_ptr(), "load") == expected


def test_a_waiting_program_does_not_fill_the_log() -> None:
    flag, o = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    observed = observe(lambda: waits[(3,)](flag, o, 20_000_000), EVERYTHING, threads=3)
    assert observed.syncs["seq"].max() > 200  # the number of polls
    assert len(observed.syncs) + len(observed.accesses) < 60
