"""`ttools record`, and records as targets of the other commands."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec.structs
import numpy as np
import pytest

from ttools.cli.launch_files import Replay, read_launch
from ttools.cli.work import run_work
from ttools.core.errors import KernelError
from ttools.core.records.launch_record import LaunchRecord, Record
from ttools.core.records.reading import read_record
from ttools.core.records.writing import write_record
from ttools.core.spec import LaunchSpec
from ttools.interpreter.records import time_limit

Run = Any

SCRIPT = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def first(p, k):
    return tl.load(p + k)


@triton.jit
def sums(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, n, BLOCK):
        acc += first(x_ptr + tl.program_id(0) * n, k + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.sum(acc, 0))


@triton.jit
def double(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)


x = torch.arange(20.0, device=sys.argv[1] if len(sys.argv) > 1 else "cpu").reshape(2, 10)
out = torch.zeros(2, device=x.device)
sums[(2,)](x, out, 10, BLOCK=4)
for n in range(3):
    double[(1,)](x[1], BLOCK=8)
print(x[1].tolist())
"""

TTIR = """\
module {
  tt.func public @touch(%p: !tt.ptr<f32>) {
    %one = arith.constant 1.0 : f32
    tt.store %p, %one : !tt.ptr<f32>
    tt.return
  }
}
"""


@pytest.fixture
def recorded(ttools: Run, tmp_path: Path) -> CompletedProcess[str]:
    (tmp_path / "script.py").write_text(SCRIPT)
    result: CompletedProcess[str] = ttools("record", "--output", "a.tt", "script.py", "cuda")
    return result


def test_a_record_shows_the_defect_without_the_source(
    recorded: CompletedProcess[str], ttools: Run, tmp_path: Path
) -> None:
    assert recorded.returncode == 0, recorded.stderr
    assert "a.tt holds 2 of 4 launches" in recorded.stderr
    assert recorded.stdout.startswith("[80.0, 88.0,")
    (tmp_path / "script.py").unlink()
    checked = ttools("sanitize", "a.tt")
    assert checked.returncode == 1, checked.stderr
    assert "script.py:9:12: error[oob_load]: out-of-bounds load of 4 bytes" in checked.stdout
    assert "    9 |     return tl.load(p + k)\n      |            ^^^^^^^^^^^^^^" in checked.stdout
    assert "called from script.py:16" in checked.stdout
    assert "program (1, 0, 0), iteration 2, lane [2] of [4]" in checked.stdout
    assert "x_ptr: float32[2, 10]" in checked.stdout
    assert "launched from script.py:28" in checked.stdout


def test_a_record_can_be_run_profiled_and_dumped(
    recorded: CompletedProcess[str], ttools: Run, tmp_path: Path
) -> None:
    shown = ttools("replay", "a.tt", "--stats")
    assert shown.returncode == 0, shown.stderr
    assert "double, grid (1, 1, 1), launched from" in shown.stdout
    assert "  argument  type     shape" in shown.stdout
    assert "│" not in shown.stdout + shown.stderr
    assert "kernel `sums` at " in shown.stderr
    assert "2 loads outside its tensors were skipped in the first launch" in shown.stderr
    assert "`ttools sanitize a.tt`" in shown.stderr
    only = ttools("interpret", "--only", "double", "a.tt", "--dump-outputs", "out.npz")
    assert only.returncode == 0, only.stderr
    with np.load(tmp_path / "out.npz") as saved:
        assert saved["x_ptr"].tolist() == [20, 22, 24, 26, 28, 30, 32, 34, 18, 19]
    profiled = ttools("profile", "a.tt", "--format", "json")
    assert profiled.returncode == 0, profiled.stderr
    assert {row["kernel"] for row in json.loads(profiled.stdout)["kernels"]} == {"sums", "double"}
    (tmp_path / "script.py").unlink()
    inspected = ttools("inspect", "--only", "sums", "--gpu", "sm_90", "a.tt")
    assert inspected.returncode == 0, inspected.stderr
    assert inspected.stderr == ""
    title = "sums for sm_90, num_warps=4, num_stages=3\n  launched from script.py:28"
    assert title in inspected.stdout
    assert "BLOCK: constant 4" in inspected.stdout
    assert "script.py:9: 1 x load" in inspected.stdout


def test_selected_launches(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools("record", "--only", "double", "--launch", "1", "--launch", "2:", "script.py")
    assert result.returncode == 0, result.stderr
    assert "launch.tt holds 2 of 3 launches" in result.stderr
    result = ttools("record", "--launch", "9", "script.py")
    assert result.returncode == 1
    assert "error: nothing was recorded: --launch selects none of the 4 launches" in result.stderr
    result = ttools("record", "--only", "other", "script.py")
    assert "nothing was recorded: no Triton kernel was launched that --only names" in result.stderr


def test_a_script_runs_without_the_program(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools("record", "--only", "double", "--script", "repro.py", "script.py")
    assert result.returncode == 0, result.stderr
    assert "note: repro.py holds 1 of 3 launches, " in result.stderr
    assert not (tmp_path / "launch.tt").exists()
    (tmp_path / "script.py").unlink()
    again = ttools("interpret", "repro.py")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(
        "x_ptr tensor([20., 22., 24., 26., 28., 30., 32., 34., 18., 19.]"
    )


def test_options_of_scripts_are_checked(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools("record", "--script", "script.py", "script.py")
    assert result.returncode == 2
    assert "exists and is not a script that ttools recorded" in result.stderr
    result = ttools("record", "--script", "repro", "script.py")
    assert result.returncode == 2
    assert "the name must end in .py" in result.stderr


def _make_huge(path: Path) -> None:
    """Give the launches of a record a grid that takes practically forever to run."""
    recorded = read_record(path)
    grid = 2**31 - 1, 1, 1
    huge = tuple(
        replace(launch, spec=msgspec.structs.replace(launch.spec, grid=grid))
        for launch in recorded.launches
    )
    write_record(replace(recorded, launches=huge), path)


@pytest.mark.parametrize(
    "command",
    [
        ("interpret",),
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (
                ("interpret", "--watch", "offsets"),
                ("profile",),
                ("profile", "--no-counts"),
            )
        ),
    ],
)
def test_launches_stop_at_the_time_limit(
    recorded: CompletedProcess[str], ttools: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    _make_huge(tmp_path / "a.tt")
    result = ttools(*command, "--only", "double", "--timeout", "1", "a.tt")
    assert result.returncode == 1, result.stderr
    assert "error: kernel `double` was stopped after " in result.stderr
    assert "of 2,147,483,647 programs had begun; its grid is (2147483647, 1, 1)" in result.stderr
    assert "--timeout SECONDS" in result.stderr
    assert "Traceback" not in result.stderr


def test_records_have_a_time_limit_by_default(
    recorded: CompletedProcess[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_huge(tmp_path / "a.tt")
    monkeypatch.setattr(time_limit, "DEFAULT_TIMEOUT", 0.2)
    with pytest.raises(KernelError, match="was stopped after"):
        run_work(Replay(path=str(tmp_path / "a.tt")), None, quiet=True, advice=None)
    (tmp_path / "a.ttir").write_text(TTIR)
    launch = read_launch(str(tmp_path / "a.ttir"), "2147483647", ["p=zeros:f32[4]"])
    with pytest.raises(KernelError, match="was stopped after"):
        run_work(launch, None, quiet=True, advice=None)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("interpret", "missing.tt"), "there is no file `missing.tt`"),
        (("interpret", "bad.tt"), "bad.tt: not a record of launches"),
        (("sanitize", "cut.tt"), "cut.tt: not a record of launches, or only part of one"),
        (
            ("sanitize", "newer.tt"),
            "but this ttools reads only versions up to 1; update ttools",
        ),
        (("interpret", "a.tt", "more"), "a record takes no arguments, but got `more`"),
        (("interpret", "a.tt", "--grid", "4"), "--grid is for .ttir files; a record has its own"),
        (("interpret", "--pdb", "a.tt"), "a record has no Python source for --engine eager"),
        (("sanitize", "--pdb-on-finding", "a.tt"), "a record has no Python source"),
        (("sanitize", "--on", "gpu", "a.tt"), "--on gpu needs a program; a record can be checked"),
        (("record", "a.tt"), "`a.tt` is a record, not a program"),
        (("record", "--output", "a.zip", "script.py"), "the name of a record must end in .tt"),
        (("record", "--output", "no/a.tt", "script.py"), "there is no folder `no`"),
        (("record", "--launch", "last", "script.py"), "`last` is neither a number nor a range"),
        (("tune", "a.tt"), "`a.tt` is a record, not a program"),
        (("inspect", "bad.tt"), "bad.tt: not a record of launches"),
    ],
)
def test_usage_errors(
    ttools: Run, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    launch = LaunchRecord(spec=LaunchSpec(kernel="kernel", grid=(1, 1, 1)), ttir="module {}")
    write_record(Record(launches=(launch,), storages=()), tmp_path / "a.tt")
    (tmp_path / "script.py").write_text("print()")
    (tmp_path / "bad.tt").write_text("hello")
    (tmp_path / "cut.tt").write_bytes((tmp_path / "a.tt").read_bytes()[:-40])
    with zipfile.ZipFile(tmp_path / "newer.tt", "w") as archive:
        archive.writestr("record.json", json.dumps({"format": "ttools.record", "version": 7}))
    result = ttools(*arguments)
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


HALVE = """\
import torch, triton, triton.language as tl

@triton.jit
def halve(x_ptr, y_ptr, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + o, tl.load(x_ptr + o, mask=o < n) * 0.5, mask=o < n)

x = torch.arange(1, 1001).bfloat16()
halve[(4,)](x, torch.empty_like(x), 1000, B=256, num_warps=2)
"""
#: Figures of a profile that must not depend on whether the script or its record is profiled.
FIGURES = (
    *("flops", "bytes", "bound_s", "projected_s", "projected_low_s", "registers", "occupancy"),
    *("instruction_mix", "compute_share"),
)


def test_a_record_is_profiled_like_its_script(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "halve.py").write_text(HALVE)
    assert ttools("record", "--output", "halve.tt", "halve.py").returncode == 0
    (launch,) = read_record(tmp_path / "halve.tt").launches
    assert (launch.has_options, launch.spec.options.warps) == (True, 2)
    figures, advice = [], []
    for target in ("halve.py", "halve.tt"):
        words = ("profile", "--gpu", "h100", "--format", "json", "--output", "p.json", target)
        assert ttools(*words).returncode == 0
        data = json.loads((tmp_path / "p.json").read_text())
        figures.append({name: data["kernels"][0][name] for name in FIGURES})
        advice.append([(hint["kind"], hint["evidence"]) for hint in data["advice"]])
    assert figures[0] == figures[1]
    assert advice[0] == advice[1] != []


def test_an_old_record_says_what_it_lacks(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "halve.py").write_text(HALVE)
    assert ttools("record", "--output", "halve.tt", "halve.py").returncode == 0
    recorded = read_record(tmp_path / "halve.tt")
    old = tuple(replace(launch, has_options=False) for launch in recorded.launches)
    write_record(replace(recorded, launches=old), tmp_path / "old.tt")
    result = ttools("profile", "--gpu", "h100", "old.tt", COLUMNS="80")
    assert result.returncode == 0
    assert "projected" in result.stdout
    assert "old.tt was written by an earlier version of ttools and lacks num_warps" in result.stderr


def test_outputs_in_bf16_are_saved_in_a_type_of_numpy(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "halve.py").write_text(HALVE)
    assert ttools("record", "--output", "halve.tt", "halve.py").returncode == 0
    assert ttools("interpret", "--dump-outputs", "out.npz", "halve.tt").returncode == 0
    with np.load(tmp_path / "out.npz") as saved:
        assert saved["y_ptr"].dtype == np.float32
        assert saved["y_ptr"][:3].tolist() == [0.5, 1.0, 1.5]
