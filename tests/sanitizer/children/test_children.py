"""Kernels of child processes are in the report of the run."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from tests.forked_python import PYTHON
from tests.forks import forked, in_fork

from ttools.core.findings.findings import Finding, TallyEntry
from ttools.core.location import SourceLocation
from ttools.core.spec import CallSite, LaunchSpec
from ttools.sanitizer import sanitize
from ttools.sanitizer.children.entry import Entry, Member, encoded, entries, start_time
from ttools.sanitizer.children.reading import Folder


@triton.jit
def reads_beyond(x_ptr, out_ptr, n):
    offs = tl.arange(0, 16)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))
    total = 0.0
    for i in range(n):
        total += tl.load(x_ptr + i % 4)
    tl.store(out_ptr, total)


def launch(times: int = 1, n: int = 0) -> None:
    for _ in range(times):
        reads_beyond[(1,)](torch.zeros(10), torch.zeros(16), n)


def counts(report: Any) -> tuple[int, int]:
    """Return the number of programs in the only finding, and the number of launches."""
    (finding,) = report.findings
    assert finding.kind == "oob_load"
    return finding.programs, sum(entry.count for entry in report.launches)


def test_forks_add_up() -> None:
    with sanitize(checks="memcheck") as report:
        launch(2)
        in_fork(lambda: launch(3))
        in_fork(lambda: in_fork(launch))
        assert counts(report) == (6, 6)
    assert counts(report) == (6, 6)
    assert report.warnings == []
    assert len(report.launches) == 1


def test_findings_of_forks_are_suppressed_and_limited(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[suppress]]\nkind = "oob_load"\nreason = "known"\n')
    with sanitize(checks="memcheck", suppressions=rules) as report:
        in_fork(launch)
    assert report.findings == []
    assert len(report.report().suppressed) == 1


def test_a_killed_fork_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # Killed workers of pytest-xdist are not reported: the process that starts them may end them so.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    with sanitize(checks="memcheck") as report:
        launch()
        in_fork(lambda: (launch(), os.kill(os.getpid(), signal.SIGKILL)))
    assert counts(report) == (2, 2)
    (warning,) = report.warnings
    assert "was killed or crashed" in warning


def test_a_fork_that_dies_in_a_launch_names_the_launch() -> None:
    def hang() -> None:
        launch()
        launch(n=10**15)

    with sanitize(checks="memcheck") as report, forked(hang) as child:
        message = f"process {child}, which the program started, is in a launch of"
        while not report.launches or not any(message in warning for warning in report.warnings):
            time.sleep(0.01)
        (warning,) = report.warnings
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    (warning,) = report.warnings
    assert "died in a launch of `reads_beyond`" in warning
    assert report.findings[0].programs == 1


def test_the_folder_is_removed_with_the_run() -> None:
    report = sanitize(checks="memcheck")
    with report:
        in_fork(launch)
    folder = report.session.folder.path
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o77 == 0
    del report
    gc.collect()
    assert not folder.exists()


def test_runs_restore_the_environment() -> None:
    before = dict(os.environ)
    with sanitize():
        during = dict(os.environ)
        with sanitize():
            assert dict(os.environ) != during
        assert dict(os.environ) == during
    assert dict(os.environ) == before


SCRIPT = """\
import multiprocessing, os, subprocess, sys
import torch, triton, triton.language as tl

@triton.jit
def fill(out_ptr, N: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, N), 1.0)

def launch(_=None):
    fill[(1,)](torch.empty(10), 16)
    return torch.zeros(1)

class Data(torch.utils.data.Dataset):
    __len__ = lambda self: 2
    __getitem__ = lambda self, at: launch()

if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        launch()
    else:
        for kind in ("fork", "spawn"):
            process = multiprocessing.get_context(kind).Process(target=launch)
            process.start()
            process.join()
            assert process.exitcode == 0
        subprocess.run([sys.executable, __file__, "child"], check=True)
        for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
            pass
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(launch, range(3))
        print("done")
"""


@pytest.mark.slow
def test_every_way_to_start_a_process(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["-m", "ttools_entry", "sanitize", "--format=json", "--output=r.json", "script.py"]
    result = PYTHON.run(words, cwd=tmp_path, timeout=300)
    assert (result.stdout, result.returncode) == ("done\n", 1), result.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    (finding,) = report["findings"]
    assert (finding["kind"], finding["programs"]) == ("oob_store", 8)
    assert sum(entry["count"] for entry in report["launches"]) == 8
    assert "warning" not in result.stderr


# ---- content of the files


FINDING = Finding(
    kind="oob_load",
    check="memcheck",
    severity="error",
    message="a message",
    kernel="k",
    location=SourceLocation("f.py", 3, 4, "x", (SourceLocation("g.py", 1, 2),)),
    program=(1, 2, 3),
    lane=(4, 5),
    variables=(("n", "3"),),
    config={"BLOCK": 128},
    other_configs=({"BLOCK": 64},),
)


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    launch = TallyEntry(
        spec=LaunchSpec(kernel="k", grid=(1, 2, 3), site=CallSite(line="f.py:1", config={"A": 1})),
        count=4,
    )
    written = [Entry(findings=[FINDING]), Entry(launches=[launch], warnings=["w"], ended=True)]
    numbers = np.array([7])
    written.append(Entry(findings=[replace(FINDING, count=numbers[0], programs=numbers[0])]))
    path = tmp_path / "lines"
    path.write_bytes(b"".join(map(encoded, written)) + b'{"ended": tr')
    assert entries(path) == written
    assert entries(tmp_path / "absent") == []
    path.write_bytes(b'{"ended": 3}\n')
    (bad,) = entries(path)
    assert bad.unreadable is not None


def test_a_reused_process_id_is_another_process() -> None:
    me = start_time(os.getpid())
    assert me is not None
    folder = Folder()
    folder.path.mkdir()
    for number, start in enumerate((me, me - 1)):
        member = Member(pid=os.getpid(), began=start)
        (folder.path / f"{number}.jsonl").write_bytes(encoded(Entry(member=member)))
    running, dead = folder.read().warnings
    assert "still runs" in running
    assert "was killed or crashed" in dead


def test_a_zombie_is_not_a_running_process() -> None:
    result = subprocess.Popen([sys.executable, "-S", "-c", ""])
    while start_time(result.pid) is not None:
        time.sleep(0.01)
    result.wait()


@pytest.mark.parametrize("ended", [True, False])
def test_daemons_may_be_killed(ended: bool) -> None:
    folder = Folder()
    folder.path.mkdir()
    lines = [Entry(member=Member(pid=1 << 30, began=1, daemon=True)), Entry(ended=ended)]
    (folder.path / "1.jsonl").write_bytes(b"".join(map(encoded, lines)))
    assert folder.read().warnings == []
