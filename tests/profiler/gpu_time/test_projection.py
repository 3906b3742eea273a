"""The projection: what makes it longer, its fitting, and where it is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.compilation.inspection import Inspection
from ttools.core.gpus.devices import DEVICES, read_device
from ttools.profiler import profile
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.gpu_time.projection import (
    Constants,
    Work,
    fitted,
    is_projected,
    project,
    work_of,
)
from ttools.profiler.report.access_frame import qualities


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        offs = tl.program_id(0) * n + start + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs * stride) + 1.0)


def launch(n: int, programs: int, device: str = "h100") -> tuple[LaunchCounts, Inspection]:
    x, out = torch.zeros(n * programs), torch.zeros(n * programs)
    with profile(device=device) as prof:
        copy_kernel[(programs,)](x, out, n, 1, BLOCK=128)
    counts = prof.samples[0].counts
    assert counts is not None
    return counts, prof.inspections[0]


def work(n: int, programs: int, stride: int = 1, device: str = "h100") -> Work:
    x, out = torch.zeros(n * programs * stride), torch.zeros(n * programs)
    with profile(device=device) as prof:
        copy_kernel[(programs,)](x, out, n, stride, BLOCK=128)
    ((_, inspection, accesses),) = qualities(prof.samples, prof.inspections)
    counts = prof.samples[0].counts
    assert counts is not None
    return work_of(counts, inspection, read_device(device), accesses)


def test_work_of_a_launch() -> None:
    one = work(256, 33)
    assert one.iterations == 2
    assert one.busy == 33 / 132
    assert one.memory == 0.0  # all of it fits into the cache
    assert one.cache == pytest.approx(8 * 256 * 33 / 3350e9)
    # A load with a stride of 32 bytes moves eight times what it asks for.
    assert work(256, 33, stride=8).cache == pytest.approx(one.cache * 4.5)


def test_times_are_projected_where_the_constants_were_tested() -> None:
    names = [name for name, device in DEVICES.items() if is_projected(device)]
    assert names == ["h100", "h200"]
    assert not is_projected(None)


def test_what_a_device_lacks_takes_time() -> None:
    h100 = read_device("h100")
    assert work(256, 33, device="a100").busy == 33 / 108
    counts, inspection = launch(256, 33)
    held, none = (work_of(counts, inspection, each) for each in (h100, replace(h100, cache=None)))
    assert (held.memory, none.memory) == (0.0, none.cache)
    assert project(none, Constants()) >= project(held, Constants())


def test_frames_have_it_where_the_device_is_known() -> None:
    x, out = torch.zeros(1024), torch.zeros(1024)
    for device in ("h100", "a100"):
        with profile(device=device) as prof:
            copy_kernel[(4,)](x, out, 256, 1, BLOCK=128)
        assert ("projected_s" in prof.frame) == (device == "h100")
        if device == "h100":
            (row,) = prof.frame.to_dict("records")
            assert row["projected_s"] > row["bound_s"]


parts = st.floats(0, 1e-3)
works = st.builds(
    Work, memory=parts, cache=parts, matrix=parts, arithmetic=parts, iterations=st.floats(0, 100),
    busy=st.floats(0.01, 1.0), spills=parts,
)  # fmt: skip


@given(one=works, more=parts)
def test_more_work_never_takes_less_time(one: Work, more: float) -> None:
    base = project(one, Constants())
    assert base >= Constants().least
    for name in ("memory", "cache", "matrix", "arithmetic", "iterations", "spills"):
        assert project(replace(one, **{name: getattr(one, name) + more}), Constants()) >= base


def test_fitting_finds_the_constants_that_made_the_times() -> None:
    made = Constants(memory=0.7, iteration=8e-7, least=3e-6)
    points = [
        Work(memory=m, cache=0.0, matrix=0.0, arithmetic=0.0, iterations=t, busy=1.0, spills=0.0)
        for m, t in ((1e-4, 0), (1e-3, 0), (0, 500), (0, 50), (0, 0), (1e-8, 0))
    ]
    found = fitted([(each, project(each, made)) for each in points])
    for each in points:
        assert project(each, found) == pytest.approx(project(each, made), rel=0.1)
