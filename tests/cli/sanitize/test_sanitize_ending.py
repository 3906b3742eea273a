"""How `ttools sanitize` ends when it is interrupted, asked to end, or takes too long."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import PYTHON

from ttools.sanitizer.children.entry import began

pytest.importorskip("torch", reason="torch is not installed")  # the scripts need it

SCRIPT = """\
import os, signal, sys, threading, time
import torch, triton, triton.language as tl

@triton.jit
def reads_beyond(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr + 12) + 1)

@triton.jit
def long_loop(out_ptr, n):
    tl.store(out_ptr, 1.0)
    total = 0.0
    for i in range(n):
        total += tl.load(out_ptr + i % 4)
    tl.store(out_ptr, total)

def launch_long():
    long_loop[(1,)](out, 10**15)

def until_it_runs():
    while not out[0]:
        time.sleep(0.01)

def compile_for_ever():
    import hashlib
    open("ready", "w").close()
    # Outside of Python's lock, and deaf to signals, as LLVM is.
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

out = torch.zeros(4)
reads_beyond[(1,)](torch.zeros(10), torch.zeros(1))
where = sys.argv[1]
if where == "launch":
    def say():
        until_it_runs()
        open("ready", "w").close()
    threading.Thread(target=say, daemon=True).start()
    launch_long()
elif where == "thread":
    threading.Thread(target=launch_long).start()
    until_it_runs()
    open("ready", "w").close()
    time.sleep(100)
elif where == "host":
    open("ready", "w").close()
    time.sleep(100)
elif where == "compile":
    compile_for_ever()
elif where == "child":
    child = os.fork()
    if child == 0:
        with open("child", "w") as file:
            file.write(str(os.getpid()))
        launch_long()
        os._exit(0)
    time.sleep(1)
    open("ready", "w").close()
    os.waitpid(child, 0)
    time.sleep(100)  # the script goes on until the report is written
print("not here")
"""


def end(
    tmp_path: Path, where: str, *numbers: int, options: tuple[str, ...] = (), group: bool = False
) -> tuple[int, str, Any]:
    """Runs the script, sends it signals once it is ready; returns status, messages, report."""
    (tmp_path / "script.py").write_text(SCRIPT)
    out, err = tmp_path / "out", tmp_path / "err"
    out.touch(), err.touch()
    output = ("--format=json", "--output=r.json")
    words = ["-m", "ttools_entry", "sanitize", *options, *output, "script.py", where]
    streams = (os.devnull, str(out), str(err))
    process = PYTHON.start(words, streams=streams, cwd=tmp_path)
    ready = tmp_path / "ready"
    until = time.monotonic() + 100
    while not ready.exists() and numbers:
        assert time.monotonic() < until, err.read_text()
        time.sleep(0.02)
    for number in numbers:
        (os.killpg if group else os.kill)(process.pid, number)
        time.sleep(0.3)
    status = process.wait(60)
    assert out.read_text() == ""
    return status, err.read_text(), json.loads((tmp_path / "r.json").read_text())


def kinds(report: Any) -> list[str]:
    return sorted(finding["kind"] for finding in report["findings"])


@pytest.mark.parametrize("where", ["launch", "thread", "host"])
def test_ctrl_c(tmp_path: Path, where: str) -> None:
    status, errors, report = end(tmp_path, where, signal.SIGINT)
    assert status == 130
    stopped = [] if where == "host" else ["interrupted"]
    assert kinds(report) == sorted(["oob_load", *stopped])
    assert errors.count("KeyboardInterrupt") == 1
    assert "ttools/interpreter" not in errors
    for finding in report["findings"]:
        if finding["kind"] == "interrupted":
            assert finding["location"]["line"] == 12
            assert finding["program"] == [0, 0, 0]


@pytest.mark.parametrize("where", ["launch", "thread", "host", "compile"])
def test_sigterm(tmp_path: Path, where: str) -> None:
    status, errors, report = end(tmp_path, where, signal.SIGTERM)
    assert status == -signal.SIGTERM
    stopped = ["interrupted"] if where in ("launch", "thread") else []
    assert kinds(report) == sorted(["oob_load", *stopped])
    assert "note: SIGTERM: this is the report so far" in errors
    assert "Traceback" not in errors
    assert report["script"]["exit_code"] == 128 + signal.SIGTERM


def test_second_ctrl_c_ends_what_python_does_not_come_to(tmp_path: Path) -> None:
    status, errors, report = end(tmp_path, "compile", signal.SIGINT, signal.SIGINT)
    assert status == 130
    assert kinds(report) == ["oob_load"]
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_all_processes(tmp_path: Path, number: int) -> None:
    status, errors, report = end(tmp_path, "child", number, group=True)
    assert status in (130, -number)
    assert "oob_load" in kinds(report)
    assert {entry["kernel"] for entry in report["launches"]} >= {"reads_beyond"}
    assert "not here" not in errors
    # LLVM's handlers raise a signal again once they have put back what was there before them.
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 30
    while began(child) is not None and time.monotonic() < until:
        time.sleep(0.05)
    assert began(child) is None, "a forked process outlives the signal"


def test_timeout_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    out = PYTHON.run(
        ["-m", "ttools_entry", "sanitize", "--timeout=0.5", "script.py", "launch"], cwd=tmp_path
    )
    assert out.returncode == 1
    assert "error[launch]: the launch was stopped after" in out.stdout
    assert "  program (0, 0, 0)\n  the program was in this loop\n" in out.stdout
    assert "for i in range(n):" in out.stdout
    assert "out-of-bounds load" in out.stdout
    assert out.stdout.startswith("not here\n")


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_timeout_is_validated(ttools: Callable[..., Any], seconds: str) -> None:
    done = ttools("sanitize", f"--timeout={seconds}", "-c", "pass")
    assert done.returncode == 2
    assert "timeout" in done.stderr


def test_interpret_has_a_timeout(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["-m", "ttools_entry", "interpret", "--timeout=0.5", "script.py", "launch"]
    done = PYTHON.run(words, cwd=tmp_path)
    assert done.returncode == 1
    assert "script.py:12:5: error: kernel `long_loop` was stopped after" in done.stderr
    assert PYTHON.run([*words[:4], "--engine=eager", "script.py"], cwd=tmp_path).returncode == 2
