"""`ttools sanitize` ends on Ctrl-C, on SIGTERM and at its time limit, and writes its report."""

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

from ttools.sanitizer.children.entry import start_time

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
    # The function below runs outside of Python's lock, and deaf to signals, as LLVM does. Another
    # thread says that it has begun: a signal before that would raise KeyboardInterrupt here.
    threading.Timer(0.5, lambda: open("ready", "w").close()).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

@triton.jit
def takes_turns(count_ptr, out_ptr):
    tl.store(out_ptr + tl.atomic_add(count_ptr, 1), 1.0)

def wait_here(*_, **__):
    open("ready", "w").close()
    while not os.path.exists("go"):  # Ctrl-C ends it
        time.sleep(0.01)

def wait_in_native_code(*_, **__):
    import ctypes
    open("ready", "w").close()
    ctypes.CDLL(None).sleep(1000)

PLACES = {
    "front end": ("triton.compiler.compiler.ASTSource.make_ir", wait_here),
    "LLVM": ("ttools.interpreter.native.jit.compile_ir", wait_in_native_code),
    "analysis": ("ttools.sanitizer.checks.racecheck.near_accesses", wait_here),
    "second order": ("ttools.sanitizer.checks.racecheck.in_another_order", wait_here),
    "report": ("ttools.core.reports.registry.write_report", wait_here),
}

def wait_at(place):
    # The next call of a function of ours waits until the test has sent its signal.
    import pkgutil
    name, wait = PLACES[place]
    owner, _, attribute = name.rpartition(".")
    owner = pkgutil.resolve_name(owner)
    function = getattr(owner, attribute)
    def waiting(*args, **kwargs):
        setattr(owner, attribute, function)
        wait()
        return function(*args, **kwargs)
    setattr(owner, attribute, waiting)

out = torch.zeros(4)
reads_beyond[(1,)](torch.zeros(10), torch.zeros(1))
where = sys.argv[1]
if where in PLACES:
    count = torch.zeros(1, dtype=torch.int32)
    if where == "analysis":
        takes_turns[(2,)](count, torch.zeros(8))
    wait_at(where)
    if where != "report":
        takes_turns[(2,)](count, torch.zeros(8))
elif where == "launch":
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
elif where == "long LLVM":
    sys.path.insert(0, os.environ["TESTS_ROOT"])
    from tests.slow_compilers import endless_compilation
    with endless_compilation("takes_turns"):
        threading.Timer(1, lambda: open("ready", "w").close()).start()
        takes_turns[(2,)](torch.zeros(1, dtype=torch.int32), out)
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
    """Run the script, send it signals once it is ready; return status, messages and report."""
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
    (tmp_path / "go").touch()
    status = process.wait(60)
    assert out.read_text() == "" or where == "report"
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


CUT_SHORT = {
    "front end": (1, "compilation"),
    "LLVM": (1, "compilation"),
    "analysis": (2, "race analysis"),
    "second order": (1, "run in another order"),
}


@pytest.mark.parametrize(
    ("where", "number"),
    [
        *((where, signal.SIGINT) for where in CUT_SHORT),
        ("LLVM", signal.SIGTERM),
        *(
            pytest.param(where, signal.SIGTERM, marks=pytest.mark.slow)
            for where in CUT_SHORT
            if where != "LLVM"
        ),
    ],
)
def test_launches_that_were_not_checked_are_listed(
    tmp_path: Path, where: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTOOLS_CACHE", "off")  # so that LLVM compiles the kernel
    status, errors, report = end(tmp_path, where, number)
    by_ctrl_c = number == signal.SIGINT
    assert status == (130 if by_ctrl_c else -number)
    (entry,) = (record for record in report["launches"] if record["unfinished"])
    (cut,) = entry["unfinished"]
    launch, phase = CUT_SHORT[where]
    assert (entry["kernel"], cut["number"], cut["phase"]) == ("takes_turns", launch, phase)
    assert cut["reason"] == ("interrupted" if by_ctrl_c else "running")
    assert "racecheck" in cut["checks"]
    checked = "2 kernels, 2 launches" if launch == 2 else "1 kernel, 1 launch"
    assert f" in {checked}; not checked to the end: `takes_turns` (" in report["summary"]
    assert "the run was interrupted" in report["summary"]
    assert errors.count("KeyboardInterrupt") == by_ctrl_c
    if by_ctrl_c:
        (interruption,) = (
            finding for finding in report["findings"] if finding["kind"] == "interrupted"
        )
        assert interruption["message"].startswith(
            f"{phase} of launch {launch} of kernel `takes_turns` "
        )


@pytest.mark.parametrize(("checks", "expected"), [("memcheck", 1), ("hints", 130)])
def test_ctrl_c_while_the_report_is_written(tmp_path: Path, checks: str, expected: int) -> None:
    status, errors, report = end(tmp_path, "report", signal.SIGINT, options=(f"--check={checks}",))
    assert status == expected, "findings come first"
    assert kinds(report) == ["oob_load"] * (checks == "memcheck")
    assert "Traceback" not in errors


@pytest.mark.parametrize("where", ["launch", "thread", "host", "compile"])
def test_sigterm(tmp_path: Path, where: str) -> None:
    status, errors, report = end(tmp_path, where, signal.SIGTERM)
    assert status == -signal.SIGTERM
    stopped = ["interrupted"] if where in ("launch", "thread") else []
    assert kinds(report) == sorted(["oob_load", *stopped])
    assert "note: SIGTERM: this is the report so far" in errors
    assert "Traceback" not in errors
    assert report["script"]["exit_code"] == 128 + signal.SIGTERM


def test_second_ctrl_c_ends_native_code(tmp_path: Path) -> None:
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
    # LLVM's signal handlers restore the previous handlers and then raise the signal again.
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 30
    while start_time(child) is not None and time.monotonic() < until:
        time.sleep(0.05)
    assert start_time(child) is None, "a forked process outlives the signal"


def test_timeout_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    out = PYTHON.run(
        ["-m", "ttools_entry", "sanitize", "--timeout=0.5", "script.py", "launch"], cwd=tmp_path
    )
    assert out.returncode == 1
    assert "error[timeout]: the launch was stopped after" in out.stdout
    assert "  program (0, 0, 0)\n  the program was in this loop\n" in out.stdout
    assert "for i in range(n):" in out.stdout
    assert "out-of-bounds load" in out.stdout
    assert out.stdout.startswith("not here\n")


@pytest.fixture
def long_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the script load a module with a loop that LLVM's compiler never finishes compiling."""
    monkeypatch.setenv("TESTS_ROOT", str(Path(__file__).parents[3]))
    monkeypatch.setenv("TTOOLS_CACHE", "off")


@pytest.mark.usefixtures("long_compilation")
@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("sanitize", 1, "compilation of launch 1 of kernel `takes_turns` was stopped after "),
        ("interpret", 1, "error: compilation of kernel `takes_turns` was stopped after "),
        pytest.param(
            *("profile", 1, "error: compilation of kernel `takes_turns` was stopped after "),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_timeout_ends_llvm(tmp_path: Path, command: str, status: int, message: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["-m", "ttools_entry", command, "--timeout=2", "script.py", "long LLVM"]
    result = PYTHON.run(words, cwd=tmp_path)
    assert result.returncode == status
    assert message in " ".join((result.stdout + result.stderr).split())
    assert result.stdout.startswith("not here\n") == (command == "sanitize")


@pytest.mark.usefixtures("long_compilation")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_signals_end_llvm(tmp_path: Path, number: signal.Signals) -> None:
    status, errors, report = end(tmp_path, "long LLVM", number)
    assert status == (130 if number == signal.SIGINT else -number)
    assert "oob_load" in kinds(report)
    assert "Traceback" not in errors.partition("KeyboardInterrupt")[2]


@pytest.mark.parametrize("seconds", ["-1", "nan"])
def test_timeout_is_validated(ttools: Callable[..., Any], seconds: str) -> None:
    result = ttools("sanitize", f"--timeout={seconds}", "-c", "pass")
    assert result.returncode == 2
    assert "timeout" in result.stderr


def test_interpret_has_a_timeout(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["-m", "ttools_entry", "interpret", "--timeout=0.5", "script.py", "launch"]
    result = PYTHON.run(words, cwd=tmp_path)
    assert result.returncode == 1
    assert "script.py:12:5: error: kernel `long_loop` was stopped after" in result.stderr
    assert PYTHON.run([*words[:4], "--engine=eager", "script.py"], cwd=tmp_path).returncode == 2
