"""Tests of guarded loads that reductions and scans evaluate, unrolled or more than once."""

from __future__ import annotations

import functools

import kernel_text
import numpy as np
import pytest
import torch
from observing import observe, part_of

_KERNEL = """\
@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = {mask}
    x = tl.load(x_ptr + pid * BLOCK + lanes, mask=inside, other=0)
    {result}
"""
_RESULTS = {
    "sum": "tl.store(out_ptr + pid, tl.sum(x))",
    "sum_and_max": "tl.store(out_ptr + pid, tl.sum(x) + tl.max(x))",
    "scan": "tl.store(out_ptr + pid * BLOCK + lanes, tl.associative_scan(x, 0, plus))",
}
_MASKS = {
    "lanes < n": lambda lanes, n: lanes < n,
    "(lanes < n) & (lanes >= 5)": lambda lanes, n: (lanes < n) & (lanes >= 5),
    "lanes % n != 3": lambda lanes, n: lanes % n != 3,
}
_BLOCK, _PROGRAMS = 256, 5


def expected(result: str, x: np.ndarray) -> np.ndarray:
    if result == "scan":
        return np.cumsum(x, axis=1).ravel()
    return x.sum(axis=1) + (x.max(axis=1) if result == "sum_and_max" else 0)


@pytest.mark.parametrize(("mask", "lanes"), list(zip(_MASKS, (16, 8, 4), strict=True)))
@pytest.mark.parametrize("result", _RESULTS)
def test_lanes_outside_are_counted_once(result: str, mask: str, lanes: int) -> None:
    kernel = kernel_text.kernel(_KERNEL.format(mask=mask, result=_RESULTS[result]))
    memory = torch.arange(_BLOCK * _PROGRAMS, dtype=torch.int32)
    index = np.arange(_BLOCK)
    active = np.broadcast_to(_MASKS[mask](index, 200), (_PROGRAMS, _BLOCK))
    elements = memory.numpy().reshape(_PROGRAMS, _BLOCK)
    for first, end in ((0, _BLOCK * _PROGRAMS), (300, 1100), (0, 1224), (600, 600)):
        out = torch.zeros(_BLOCK * _PROGRAMS, dtype=torch.int32)
        launch = functools.partial(kernel[(_PROGRAMS,)], memory, out, 200, BLOCK=_BLOCK)
        observed = observe(launch, regions={"x_ptr": part_of(memory, first, end)}, lanes=lanes)
        inside = active & (elements >= first) & (elements < end)
        right = expected(result, np.where(inside, elements, 0))
        np.testing.assert_array_equal(out.numpy()[: right.size], right)
        failed = active & ~inside
        if not failed.any():
            assert observed.counts == []
            continue
        assert observed.only.lanes == failed.sum()
        assert observed.only.programs == failed.any(axis=1).sum()
        witness = observed.only.witness
        assert witness.program == failed.any(axis=1).argmax()
        assert witness.lane == failed[witness.program].argmax()
        element = int(elements[witness.program, witness.lane])
        assert witness.address == memory.data_ptr() + 4 * element
        values = dict(witness.values)
        assert values["lanes"] == witness.lane
        assert values["pid"] == witness.program
    # Copies of a load in an unrolled loop have the same site.
    sites = [site for site in observed.sites if site.kind == "load"]
    assert len(sites) == (2 if result == "sum_and_max" else 1)
