"""`Profile.analyse` does all compilation and computation; its result is immutable."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import triton
import triton.language as tl

torch = pytest.importorskip("torch", reason="torch is not installed")

from ttools.core.compilation.stages import compile_for as original  # noqa: E402
from ttools.core.errors import UsageError  # noqa: E402
from ttools.core.reports.result import Result  # noqa: E402
from ttools.profiler import Profile, ProfileAnalysis, profile  # noqa: E402
from ttools.profiler.report import analysis as module  # noqa: E402
from ttools.profiler.report.analysis import Progress  # noqa: E402


@triton.jit
def scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2.0, mask=offs < n)


def recorded(**how: Any) -> Profile:
    x = torch.ones(1000)
    with profile(on="cpu", line_times=False, **how) as prof:
        scale_kernel[(4,)](x, 1000, BLOCK=256)
        scale_kernel[(8,)](x, 1, BLOCK=256)
    return prof


def public(analysis: ProfileAnalysis) -> list[str]:
    own = {field.name for field in fields(analysis)} | set(vars(type(analysis)))
    return sorted(name for name in own if not name.startswith("_"))


def test_reading_a_result_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    prof = recorded(device="h100")
    analysis = prof.analyse()
    assert len(analysis.inspections) == 2
    monkeypatch.setattr(module, "compile_for", None)
    monkeypatch.setattr(module, "signatures_of", None)
    for name in public(analysis):
        if name != "graphframe":  # needs an optional package
            assert getattr(analysis, name) is not None or name in ("device", "target")
    assert prof.analyse() is analysis
    with pytest.raises(FrozenInstanceError):
        analysis.notes = {}  # type: ignore[misc]


def test_attributes_of_earlier_releases_name_their_replacement() -> None:
    prof = recorded()
    for name in public(prof.analyse()):
        if name not in ("device", "target", "timed_on", "failures") and not hasattr(Result, name):
            with pytest.raises(AttributeError, match=rf"`analyse\(\)`.*`{name}`"):
                getattr(prof, name)
    with pytest.raises(AttributeError, match=r"`analyse\(\)` once and read `signatures`"):
        _ = prof.forms
    with pytest.raises(AttributeError, match=r"call `analyse\(\)` instead"):
        prof.judge()
    with pytest.raises(AttributeError, match=r"no attribute .frames.$"):
        _ = prof.frames


def test_one_run_is_analysed_for_several_devices() -> None:
    prof = recorded()
    plain = prof.analyse()
    assert "bound_s" not in plain.frame
    assert (plain.target, plain.inspections, plain.advice) == (None, (), ())
    h100, a100 = prof.analyse(device="h100"), prof.analyse("a100")
    assert h100.frame["bound_s"][0] < a100.frame["bound_s"][0]
    assert (h100.target.name, a100.target.name) == ("sm_90", "sm_80")  # type: ignore[union-attr]
    amd = prof.analyse(target="gfx942")
    assert (amd.device, amd.inspections[0].target.name) == (None, "gfx942")
    assert (prof.device, prof.target) == (None, None)
    with pytest.raises(UsageError, match="h1000"):
        prof.analyse(device="h1000")


def test_a_kernel_is_compiled_once_for_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    prof = recorded()
    compiled: list[str] = []

    def compile_for(source: Any, target: Any) -> Any:
        compiled.append(target.name)
        return original(source, target)

    monkeypatch.setattr(module, "compile_for", compile_for)
    prof.analyse("h100")
    prof.analyse("a100")
    prof.analyse("h200")  # has the architecture of the first device
    assert compiled == ["sm_90", "sm_90", "sm_80", "sm_80"]


def test_later_launches_are_in_the_next_result() -> None:
    prof = recorded()
    before = prof.analyse()
    with prof:
        scale_kernel[(4,)](torch.ones(1000), 1000, BLOCK=256)
    assert (before.launches, prof.analyse().launches) == (2, 3)


def test_progress_is_reported_and_an_incomplete_result_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prof = recorded(device="h100")
    steps: list[Progress] = []
    prof.analyse(progress=steps.append)
    assert [(step.done, step.total) for step in steps] == [(0, 2), (1, 2), (3, 4), (4, 4)]
    assert {step.stage for step in steps} == {"analysing"}
    second = recorded(device="h100")
    monkeypatch.setattr(module, "compile_for", None)
    partial = second.analyse(complete=False)
    assert partial.frame["bound_s"].notna().all()
    assert (partial.inspections, partial.advice, len(partial.signatures)) == ((), (), 2)
