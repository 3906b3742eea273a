"""`ttools sanitize --on gpu` with a fake compute-sanitizer: reports, statuses, endings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import PYTHON

from ttools.core.process.script import Target
from ttools.sanitizer.gpu import api, sanitize_on_gpu

SCRIPT = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, 2 * x, mask=offs < n)


x, out = torch.ones(100), torch.zeros(100)
scale_kernel[(2,)](x, out, 100, BLOCK=64)
print("right:", bool((out == 2).all()))
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""
OUT_OF_BOUNDS = """\
========= Invalid __global__ write of size 4 bytes
=========     at scale_kernel+0x120 in {script}:11
=========     by thread (36,0,0) in block (1,0,0)
=========     Access to {out_ptr+400} is out of bounds
=========     and is 1 bytes after the nearest allocation at {out_ptr+0} of size 400 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at scale_kernel+0x120 in {script}:11
=========     by thread (37,0,0) in block (1,0,0)
=========     Access to {out_ptr+404} is out of bounds
=========     and is 5 bytes after the nearest allocation at {out_ptr+0} of size 400 bytes
=========
========= ERROR SUMMARY: 2 errors
"""
UNWRITTEN = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at scale_kernel+0x70 in {script}:10
=========     by thread (3,0,0) in block (0,0,0)
=========     Address {x_ptr+12}
=========
========= ERROR SUMMARY: 1 error
"""
IN_ANOTHER_KERNEL = """\
========= Invalid __global__ read of size 16 bytes
=========     at sort+0x70
=========     by thread (3,0,0) in block (0,0,0)
=========     Access to 0x7f0000000000 is out of bounds
=========
"""
FINDING = """\
script.py:11:5: error[oob_store]: out-of-bounds store of 4 bytes to `out_ptr`
   11 |     tl.store(out_ptr + offs, 2 * x, mask=offs < n)
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  program (1, 0, 0): n = 100, BLOCK = 64
  out_ptr: float32[100] (400 bytes); the access begins at its end
  thread (36, 0, 0) of the program
  launched from script.py:15; 1 program is affected, 2 times
  help: mask the store, or compare with the bound of this tensor
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "script.py").write_text(SCRIPT)
    return "script.py"


# --- findings ------------------------------------------------------------------------------------


def test_findings_of_all_tools(on_gpu: Any, script: str, report_of: Any) -> None:
    report_of("memcheck", OUT_OF_BOUNDS)
    report_of("initcheck", UNWRITTEN)
    result = on_gpu(script)
    assert result.status == 1
    # Only the output of the first run is shown.
    assert result.stdout.startswith(f"right: True\n{FINDING}\n"), result.stderr
    headline = "error[uninit_read]: load of 4 bytes from `x_ptr` that was never written"
    assert headline in " ".join(result.stdout.split())
    assert result.stdout.endswith("\n2 errors in 1 kernel, 1 launch\n")
    assert "note: races between programs are not checked on a GPU" in result.stderr
    notes = [line for line in result.stderr.splitlines() if "under compute-sanitizer" in line]
    assert [line.split()[-1] for line in notes] == [
        *("memcheck", "racecheck", "initcheck", "synccheck")
    ]


def test_json_and_suppressions(on_gpu: Any, report_of: Any, tmp_path: Path) -> None:
    reason = "2 * x, mask=offs < n)  # ttools: ignore[oob_store] known"
    (tmp_path / "script.py").write_text(SCRIPT.replace("2 * x, mask=offs < n)", reason))
    report_of("memcheck", OUT_OF_BOUNDS)
    flags = ("--check", "memcheck", "--format", "json", "--output", "report.json")
    result = on_gpu(*flags, "script.py", "4")
    assert result.status == 4  # the status of the script
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["script"] == {"target": "script.py", "exit_code": 4}
    assert (report["findings"], report["suppressed"][0]["reason"]) == ([], "known")
    finding = report["suppressed"][0]["finding"]
    assert (finding["count"], finding["programs"], finding["program"]) == (2, 1, [1, 0, 0])
    assert finding["argument"]["storage_bytes"] == 400
    assert report["launches"][0]["grid"] == [2, 1, 1]
    assert "races" not in result.stderr


def test_other_kernels_are_left_out_with_only(on_gpu: Any, script: str, report_of: Any) -> None:
    report_of("memcheck", OUT_OF_BOUNDS)
    result = on_gpu("--check", "memcheck", "--only", "other_kernel", "--require-launches", script)
    assert "--only other_kernel: script.py has no kernel of this name" in result.stderr
    assert result.status == 2


def test_code_of_the_command_line(on_gpu: Any, report_of: Any) -> None:
    report_of("memcheck", OUT_OF_BOUNDS.replace("{script}", "./<string>"))
    result = on_gpu("--check", "memcheck", "--fail-on", "error", "-c", SCRIPT)
    assert "<string>:11:5: error[oob_store]: out-of-bounds store" in result.stdout
    assert "\n   11 |     tl.store(out_ptr + offs, 2 * x, mask=offs < n)\n" in result.stdout


def test_messages_about_the_tool_are_warnings(on_gpu: Any, report_of: Any) -> None:
    internal = "========= Internal Sanitizer Error: The Sanitizer encountered an error\n"
    hidden = "========= 17 errors were not printed. Use --print-limit option to adjust\n"
    report_of("racecheck", internal + hidden)
    result = on_gpu("--check", "racecheck", "-c", "pass")
    errors = " ".join(result.stderr.split())
    assert "warning: compute-sanitizer racecheck: Internal Sanitizer Error: The Sani" in errors
    assert "omitted 17 more: counts are lower bounds" in errors
    assert result.status == 0


def test_from_python(
    fake: Path, script: str, report_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "require_gpu", lambda: None)
    report_of("memcheck", OUT_OF_BOUNDS)
    target = Target(kind="script", name=str(tmp_path / script), arguments=("3",))
    checked = sanitize_on_gpu(target, checks="memcheck", only=["scale_kernel"])
    (finding,) = checked.findings
    assert (finding.kind, finding.argument.name) == ("oob_store", "out_ptr")
    assert (checked.status, [entry.count for entry in checked.launches]) == (3, [1])


# --- endings of programs -------------------------------------------------------------------------


def test_endings(on_gpu: Any) -> None:
    flags = ("--check", "memcheck", "-c")
    assert on_gpu(*flags, "raise SystemExit(5)").status == 5
    assert on_gpu(*flags, "import os; os._exit(6)").status == 6
    assert on_gpu(*flags, "import os; os.abort()").status == 128 + signal.SIGABRT
    failed = on_gpu("-c", "import no_such_module")
    assert failed.status == 1
    assert "No module named 'no_such_module'" in failed.stderr
    # A program that fails before any launch is not run under the other tools.
    assert failed.stderr.count("under compute-sanitizer") == 1


def test_failure_under_a_later_tool_is_shown(on_gpu: Any, tmp_path: Path) -> None:
    code = "import os, sys\nif os.environ['FAKE_TOOL'] != 'memcheck': sys.exit('no luck')"
    result = on_gpu("--check", "memcheck,racecheck", "-c", code)
    assert result.status == 1
    assert "under racecheck the program ended with status 1\n  no luck" in result.stderr


def test_standard_input_is_read_once_for_all_runs(
    on_gpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "piped.py"
    source.write_text("open('ran', 'a').write('x')")
    with source.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert on_gpu("--check", "memcheck,racecheck", "-").status == 0
    assert (tmp_path / "ran").read_text() == "xx"


@pytest.mark.slow
def test_time_limit_keeps_the_findings(on_gpu: Any, report_of: Any, tmp_path: Path) -> None:
    report_of("memcheck", IN_ANOTHER_KERNEL)
    pids = tmp_path / "pids"
    result = on_gpu("--timeout", "5", "-c", "pass", FAKE_MODE="hang", FAKE_PIDS=str(pids))
    assert result.status == 3
    assert "kernel sort: warning[oob_load]: out-of-bounds load of 16 bytes\n" in result.stdout
    assert "compute-sanitizer memcheck: the program was stopped after 5 s" in result.stderr
    assert_gone(pids)


def test_interrupt(fake: Path, tmp_path: Path) -> None:
    """End all processes on Ctrl-C, even if it is pressed twice."""
    pids = tmp_path / "pids"
    code = (
        "from ttools.sanitizer.gpu import api; api.require_gpu = lambda: None\n"
        "from ttools.cli.app import main; main()"
    )
    out, err = tmp_path / "out", tmp_path / "err"
    out.touch()
    err.touch()
    process = PYTHON.start(
        ["-c", code, "sanitize", "--on", "gpu", "-c", "pass"],
        env={**os.environ, "FAKE_MODE": "hang", "FAKE_PIDS": str(pids)},
        streams=(os.devnull, str(out), str(err)),
    )
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.5)
    for _ in range(2):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.2)
    assert process.wait(60) == 130, err.read_text()
    assert "no Triton kernel was launched" not in out.read_text() + err.read_text()
    assert_gone(pids)


def assert_gone(pids: Path) -> None:
    first, second = map(int, pids.read_text().split())
    wait_until(lambda: not (is_running(first) or is_running(second)))


def is_running(pid: int) -> bool:
    """Return whether a process is running; zombies are not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to that within a minute")


# --- machines without the requirements ----------------------------------------------------------

CANNOT: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
    (("-c", "pass"), {"FAKE_MODE": "refuse"}, 3, "cannot check here: Error: Device not supported"),
    (("-c", "pass"), {"FAKE_MODE": "start nothing"}, 3, "did not start the program: Error: no"),
    (("-c", "pass"), {"FAKE_VERSION": "2022.1.0"}, 3, "2022.1.0; ttools needs 2023.3 or later"),
    (("-m", "no_such_module"), {}, 2, "no module named `no_such_module`"),
    (("--check", "hints", "-c", "pass"), {}, 2, "not available on a GPU: `hints`"),
    (("--threads", "2", "-c", "pass"), {}, 2, "--threads applies only to the CPU"),
    (("--all-configs", "-c", "pass"), {}, 2, "--all-configs applies only to the CPU"),
    (("--device-map", "off", "-c", "pass"), {}, 2, "--device-map applies only to the CPU"),
]


@pytest.mark.parametrize(("arguments", "environment", "status", "sentence"), CANNOT)
def test_missing_requirements_are_reported_in_a_sentence(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    status: int,
    sentence: str,
    on_gpu: Any,
) -> None:
    result = on_gpu(*arguments, **environment)
    assert result.status == status
    assert sentence in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_ttir_files_are_for_the_cpu(on_gpu: Any, tmp_path: Path) -> None:
    (tmp_path / "kernel.ttir").write_text("module {}")
    result = on_gpu("kernel.ttir")
    assert (result.status, result.stdout) == (2, "")
    assert "a .ttir file can be checked only on the CPU" in result.stderr


def test_checks_without_a_tool_are_named(on_gpu: Any) -> None:
    result = on_gpu("--check", "memcheck,overflow", "-c", "pass")
    assert "warning: `overflow`: available on the CPU only" in result.stderr
    assert result.status == 0


def test_no_gpu(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ttools_entry", "sanitize", "--on", "gpu", "-c", "pass"]
    result = subprocess.run(
        command,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 3
    assert "needs an NVIDIA GPU that torch can use, and there is none here" in result.stderr
