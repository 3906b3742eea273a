"""The projected time of a launch, its reliability, and the reports that show it."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from functools import cache

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.compilation import disassembly
from ttools.core.compilation.machine_code import read_machine_code
from ttools.core.errors import TtoolsError
from ttools.core.gpus.devices import read_device
from ttools.profiler import Profile, ProfileAnalysis, profile
from ttools.profiler.counting.counts import LineCounts, WorkCounts
from ttools.profiler.gpu_time.model import Constants, seconds_of
from ttools.profiler.gpu_time.projection import AT_MOST, WITHIN, is_projected, project
from ttools.profiler.gpu_time.work import Access, Blocks, Work, work_of


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        offs = tl.program_id(0) * n + start + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs * stride) + 1.0)


@triton.jit
def product_kernel(a_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = i[:, None] * BLOCK + i[None, :]
    a = tl.load(a_ptr + at)
    tl.store(out_ptr + at, tl.dot(a, a, input_precision="ieee"))


@cache
def profiled(n: int, programs: int, stride: int = 1, device: str = "h100") -> ProfileAnalysis:
    x, out = torch.zeros(n * programs * stride), torch.zeros(n * programs)
    with profile(device=device) as prof:
        copy_kernel[(programs,)](x, out, n, stride, BLOCK=128)
    return prof.analyse()


def work(n: int, programs: int, stride: int = 1, device: str = "h100") -> Work:
    (evidence,) = profiled(n, programs, stride, device).evidence
    assert evidence.counts is not None
    accesses = [
        Access(
            kind=access.trace.kind,
            requested=access.trace.requested,
            sectors=access.sectors / access.ideal,
            tile_sectors=access.tile_sectors / access.tile_ideal,
        )
        for access in evidence.accesses
    ]
    blocks = Blocks(warps=4, resident=16)
    code = evidence.inspection.machine_code
    return work_of(evidence.counts, code, blocks, accesses, read_device(device))


def test_work_of_a_launch() -> None:
    base = work(256, 33)
    assert (base.even, base.waves) == (33 / 132, 1.0)
    assert base.cache == base.memory == pytest.approx(8 * 256 * 33 / 3350e9)
    # A load with a stride of 32 bytes moves eight times the requested bytes.
    assert work(256, 33, stride=8).cache == pytest.approx(base.cache * 4.5)
    # There is a load per iteration of 128 elements; the remainder of an unrolled loop always runs.
    assert work(4096, 33).far - base.far == 30


@pytest.mark.parametrize(
    ("shared", "spilled", "away"),
    [
        (0, 0, 0.0),
        (0, 16 << 10, 0.0),  # without shared memory, the L1 cache has 256 KiB
        (228 << 10, 280 << 10, 1.0),
        (0, 256 << 10, 0.5),
    ],
)
def test_spilled_registers_that_exceed_the_l1_cache_go_to_the_l2_cache(
    shared: int, spilled: int, away: float
) -> None:
    text = ["LDG.E R4, desc[UR4][R2.64]", "STL.64 [R1], R4", "LDL.LU R6, [R1]", "EXIT"]
    body = "\n".join(
        f"        /*{16 * n:04x}*/   {instruction} ;" for n, instruction in enumerate(text)
    )
    total = LineCounts(None, 1, loaded=4 * 128)
    counts, device = WorkCounts(132, total, (total,), 512), read_device("h100")
    blocks = Blocks(warps=4, resident=1, shared=shared, spilled=spilled)
    work_found = work_of(counts, read_machine_code(body), blocks, [], device)
    local = 132 * 4 * 32 * (8 + 4)
    moved = 4 * 128 + local * away
    assert work_found.cache * device.bandwidth == pytest.approx(moved, rel=0.01)
    assert work_found.memory * device.bandwidth == pytest.approx(512)


@pytest.mark.parametrize(
    ("stored", "unique", "slices", "contended"),
    [
        (0, 4096, 8, 16.0),  # only atomics
        (1 << 20, (1 << 20) + 4096, 8, 16.0),  # beside stores, which have separate addresses
        (1 << 20, 4096, 8, 16.0),  # stores and atomics on the same bytes
    ],
)
def test_contention_of_atomics_does_not_depend_on_stores(
    stored: int, unique: int, slices: int, contended: float
) -> None:
    total = LineCounts(None, stored=stored, atomic=65536)
    counts = WorkCounts(programs=16, total=total, lines=(total,), unique_stored=unique)
    own = work_of(counts, None, Blocks(warps=4, resident=16), [], read_device("h100"))
    assert own.changed == 65536 / 32 / slices
    assert own.contended == contended


def test_without_machine_code_counts_are_used() -> None:
    there = work(256, 33, device="mi300x")
    assert there.far == 2
    assert there.units > 0
    assert there.shared == 0


def test_frames_have_projections_for_nvidia_devices() -> None:
    assert all(is_projected(read_device(name)) for name in ("h100", "a100", "b200"))
    assert not is_projected(read_device("mi300x"))
    assert not is_projected(None)
    (row,) = profiled(256, 4).frame.to_dict("records")
    assert row["projected_s"] > row["bound_s"]
    assert row["projected_low_s"] == pytest.approx(row["projected_s"] * WITHIN[0])
    assert row["projected_high_s"] == pytest.approx(row["projected_s"] * WITHIN[1])
    assert row["projected_outside"] is None
    (scaled,) = profiled(256, 4, device="a100").frame.to_dict("records")
    assert scaled["projected_outside"] == "is scaled from h100 and h200 by published rates"
    assert scaled["projected_high_s"] == pytest.approx(scaled["projected_s"] * AT_MOST[1])
    assert "projected_s" not in profiled(256, 4, device="mi300x").frame


def test_a_note_reports_missing_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(tool: str) -> str:
        raise TtoolsError(f"{tool} is not there")

    monkeypatch.setattr(disassembly, "_path", missing)
    x = torch.zeros(256)
    with profile(gpu="h100") as prof:
        copy_kernel[(1,)](x, x.clone(), 256, 1, BLOCK=128)
    analysis = prof.analyse()
    (row,) = analysis.frame.to_dict("records")
    assert row["projected_s"] != row["projected_s"]
    assert row["bound_s"] > 0
    assert analysis.notes == {"copy_kernel": "cuobjdump is not there"}


def test_kernels_unlike_the_measured_ones_are_marked() -> None:
    a = torch.zeros(64, 64)
    with profile(gpu="h100") as prof:
        product_kernel[(1,)](a, torch.zeros(64, 64), BLOCK=64)
    (row,) = prof.analyse().frame.to_dict("records")
    assert "computes products without matrix units" in row["projected_outside"]


parts = st.floats(0, 1e-3)
numbers = st.floats(0, 1e5)
works = st.builds(
    Work, even=st.floats(0.01, 1e3), waves=st.floats(1, 100), cycle=st.just(5e-10),
    cache_ratio=st.floats(0, 1e3), changed=numbers, contended=numbers,
    **dict.fromkeys(("units", "shared", "issued", "steps", "near", "far"), numbers),
    **dict.fromkeys(("barriers", "groups"), numbers),
    **dict.fromkeys(("memory", "cache", "matrix"), parts),
)  # fmt: skip
MORE = [f.name for f in fields(Work) if f.name not in ("even", "waves", "cycle", "cache_ratio")]


@given(one=works, more=st.floats(0, 1))
def test_more_work_never_takes_less_time(one: Work, more: float) -> None:
    base = seconds_of(one, Constants())
    assert base >= Constants().least
    for name in MORE:
        longer = replace(one, **{name: getattr(one, name) * (1 + more)})
        assert seconds_of(longer, Constants()) >= base * (1 - 1e-9), name


def test_the_page_and_json_have_projections() -> None:
    (row,) = profiled(256, 4).frame.to_dict("records")
    kept = {name: row[name] for name in row if name.startswith("projected")}
    assert json.loads(json.dumps(kept)) == kept


def test_the_projection_uses_the_largest_launch() -> None:
    analysis = profiled(256, 4)
    (evidence,) = analysis.evidence
    assert evidence.counts is not None
    own = project(evidence.counts, evidence.inspection, read_device("h100"), evidence.accesses)
    assert own.seconds == analysis.frame["projected_s"].iloc[0]


@triton.jit
def staged_product_kernel(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr, BK: tl.constexpr):
    r, k = tl.arange(0, B), tl.arange(0, BK)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, BK):
        a = tl.load(a_ptr + r[:, None] * K + (k0 + k)[None, :])
        b = tl.load(b_ptr + (k0 + k)[:, None] * B + r[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + r[:, None] * B + r[None, :], acc)


@triton.jit
def one_store_kernel(out_ptr):
    tl.store(out_ptr, 1.0, mask=tl.program_id(1) == 0)


@pytest.mark.parametrize(
    ("block", "stages", "sentence"),
    [
        (256, 4, "needs 524,288 bytes of shared memory, but only 232,448 are available"),
        (32, 2, None),
    ],
)
def test_launches_with_too_much_shared_memory_have_no_projection(
    block: int, stages: int, sentence: str | None
) -> None:
    a, b = torch.randn(128, 512).half(), torch.randn(512, 128).half()
    with profile(gpu="h100") as prof:
        staged_product_kernel[(1,)](
            *(a, b, torch.empty(128, 128), 512), B=128, BK=block, num_stages=stages
        )
    _check_refusal(prof, sentence)


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        (
            65_536,
            "axis 1 of the grid has 65,536 programs, but at most 65,535 are allowed",
        ),
        (65_535, None),
    ],
)
def test_launches_with_too_many_programs_have_no_projection(
    programs: int, sentence: str | None
) -> None:
    with profile(gpu="h100") as prof:
        one_store_kernel[(1, programs)](torch.empty(1))
    _check_refusal(prof, sentence)


def _check_refusal(prof: Profile, sentence: str | None) -> None:
    analysis = prof.analyse()
    (row,) = analysis.frame.to_dict("records")
    (signature,) = analysis.signatures.to_dict("records")
    if sentence is None:
        assert row["projected_s"] > row["bound_s"] > 0
        assert "cannot_launch" not in row
        return
    assert row["cannot_launch"] == signature["cannot_launch"] == sentence
    for value in (row["projected_s"], row["bound_s"], row["memory_share"], signature["bound_s"]):
        assert math.isnan(value)
