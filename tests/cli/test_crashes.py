"""Crash reports for kernels whose invalid accesses are not checked and kill the process."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

WILD = """\
import torch, triton, triton.language as tl

@triton.jit
def wild_kernel(x_ptr):
    lanes = tl.arange(0, 16)
    tl.store(x_ptr + lanes.to(tl.int64) * 1000000000, 1.0)

@triton.jit
def tame_kernel(x_ptr):
    tl.store(x_ptr, 1.0)

x = torch.zeros(16)
tame_kernel[1,](x)
wild_kernel[1,](x)
tame_kernel[1,](x)
print("survived")
"""


def run(
    command: str, *options: str, script: Path, unsafe: bool = True
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TTOOLS_UNSAFE": str(int(unsafe))}
    return PYTHON.run(["-m", "ttools_entry", command, *options, str(script)], env=environment)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "wild.py").write_text(WILD)
    return tmp_path / "wild.py"


@pytest.mark.parametrize("command", ["interpret", "profile"])
def test_a_wild_access_names_the_kernel(command: str, script: Path) -> None:
    result = run(command, script=script)
    assert result.returncode == -signal.SIGSEGV
    assert re.search(
        "error: the process was killed by .* memory.*; the last kernel to start was `wild_kernel`",
        result.stderr,
    )
    assert "help: `ttools sanitize` finds out-of-bounds accesses" in result.stderr
    assert "Traceback" not in result.stderr


def test_crashes_of_several_threads_are_reported_once(script: Path) -> None:
    script.write_text(WILD.replace("wild_kernel[1,]", "wild_kernel[4096,]"))
    result = run("interpret", "--threads", "8", script=script)
    assert result.returncode == -signal.SIGSEGV
    assert result.stderr.count("error: the process was killed") == 1
    assert result.stderr.count("help:") == 1


@pytest.mark.parametrize(
    ("words", "hints"), [("an illegal memory access was encountered", 1), ("out of memory", 0)]
)
def test_illegal_accesses_on_a_gpu_name_the_command_that_finds_them(
    words: str, hints: int, script: Path
) -> None:
    script.write_text(f"raise RuntimeError('CUDA error: {words}')")
    result = run("interpret", script=script)
    assert result.returncode == 1
    assert f"RuntimeError: CUDA error: {words}" in result.stderr
    assert result.stderr.count("`ttools sanitize` finds it") == hints


def test_kernels_without_bounds_checks_are_named(script: Path) -> None:
    result = run("sanitize", "--only", "tame_kernel", script=script)
    assert result.returncode == -signal.SIGSEGV
    assert "the last kernel to start was `wild_kernel`" in result.stderr
    assert "help: kernels that --only excludes are not checked" in result.stderr


def test_the_sanitizer_reports_the_access_instead(script: Path) -> None:
    result = run("sanitize", script=script)
    assert result.returncode == 1
    assert "survived" in result.stdout + result.stderr
    assert "error[oob_store]:" in result.stdout


def test_a_record_of_the_crashing_launch_is_kept(script: Path) -> None:
    record = script.with_name("wild.tt")
    result = run("record", "--output", str(record), script=script)
    assert result.returncode == 0
    assert "survived" in result.stdout
    assert f"out-of-bounds accesses were skipped: `ttools sanitize {record}`" in " ".join(
        result.stderr.split()
    )
    again = run("sanitize", script=record)
    assert again.returncode == 1
    assert "out-of-bounds store" in again.stdout


def test_an_abort_without_kernels(tmp_path: Path) -> None:
    (tmp_path / "abort.py").write_text("import os; os.abort()")
    result = run("interpret", script=tmp_path / "abort.py")
    assert result.returncode == -signal.SIGABRT
    assert "a damaged heap, before any kernel ran" in result.stderr


def test_faulthandler_receives_the_signal(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    result = run("interpret", script=script)
    assert result.returncode == -signal.SIGSEGV
    assert f"`wild_kernel` (defined at {script}:4)" in result.stderr
    assert "Fatal Python error: Segmentation fault" in result.stderr


def test_faulthandler_may_be_enabled_later(tmp_path: Path) -> None:
    script = tmp_path / "later.py"
    script.write_text(f"import faulthandler; faulthandler.enable()\n{WILD}")
    result = run("interpret", script=script)
    assert result.returncode == -signal.SIGSEGV
    assert f"`wild_kernel` (defined at {script}:5)" in result.stderr
    assert "Fatal Python error: Segmentation fault" in result.stderr


@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_a_wild_access_on_any_thread(threads: str, script: Path) -> None:
    script.write_text(WILD.replace("wild_kernel[1,]", "wild_kernel[30,]"))
    result = run("interpret", "--threads", threads, script=script)
    assert result.returncode == -signal.SIGSEGV
    assert f"`wild_kernel` (defined at {script}:4)" in result.stderr
    assert "`ttools sanitize`" in result.stderr


LAUNCHED_BY_A_THREAD = WILD.replace(
    "wild_kernel[1,](x)",
    "import threading\n"
    "thread = threading.Thread(target=wild_kernel[1,], args=(x,))\n"
    "thread.start(), thread.join()",
)
WAITING = """\
import torch, triton, triton.language as tl

@triton.jit
def waiting_kernel(flag_ptr, x_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:
        if tl.program_id(0) == 1:
            tl.store(x_ptr + 1000000000000, 1.0)

waiting_kernel[4,](torch.zeros(1, dtype=torch.int32), torch.zeros(1))
"""


@pytest.mark.parametrize(
    ("text", "kernel"),
    [(LAUNCHED_BY_A_THREAD, "wild_kernel"), (WAITING, "waiting_kernel")],
    ids=["thread", "waiting"],
)
def test_threads_of_every_kind(text: str, kernel: str, script: Path) -> None:
    script.write_text(text)
    result = run("interpret", script=script)
    assert result.returncode == -signal.SIGSEGV
    assert f"`{kernel}` (defined at {script}:4)" in result.stderr


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"])
def test_every_signal_that_kills(name: str, script: Path) -> None:
    text = WILD.replace("wild_kernel[1,](x)", f"import signal; signal.raise_signal(signal.{name})")
    script.write_text(text)
    result = run("interpret", script=script)
    assert result.returncode == -getattr(signal, name)
    assert "`tame_kernel` (defined at " in result.stderr


#: Makes LLVM compile modules on which it aborts, as after a defect of ttools' code generation.
DEFECT = """\
import contextlib, sys, torch, triton, triton.language as tl
from ttools.interpreter import interpret
from ttools.interpreter.native import jit

MODULES = {
    "abort": '''
        declare <16 x float> @llvm.x86.avx512.rsqrt14.ps.512(<16 x float>, <16 x float>, i16)
        define void @ttools_run(ptr %a, ptr %b) {
          %v = load <16 x float>, ptr %a
          %x = call <16 x float> @llvm.x86.avx512.rsqrt14.ps.512(
              <16 x float> %v, <16 x float> %v, i16 -1)
          store <16 x float> %x, ptr %b
          ret void
        }''',
    "exit": '''
        define void @ttools_run(ptr %a, ptr %b) {
          %x = call i32 asm sideeffect "nop", "={zzz}"()
          ret void
        }''',
}
compile_ir = jit.compile_ir
jit.compile_ir = lambda text, *, name, **options: compile_ir(
    MODULES[sys.argv[1]] if name == "defect_kernel" else text, name=name, **options)

@triton.jit
def defect_kernel(x_ptr):
    tl.store(x_ptr, 1.0)

def launch():
    with interpret() if sys.argv[2] == "api" else contextlib.nullcontext():
        defect_kernel[1,](torch.zeros(16))

launch()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the modules are of that machine")
@pytest.mark.parametrize("user", ["api", "cli"])
@pytest.mark.parametrize("end", ["abort", "exit"])
def test_llvm_gives_up(end: str, user: str, tmp_path: Path) -> None:
    script = tmp_path / "defect.py"
    script.write_text(DEFECT)
    command = ["-m", "ttools_entry", "interpret"] if user == "cli" else []
    environment = {**os.environ, "TTOOLS_CPU": "x86-64-v2", "TTOOLS_CACHE": "off"}
    result = PYTHON.run([*command, str(script), end, user], env=environment)
    assert result.returncode == (-signal.SIGABRT if end == "abort" else 1)
    line = DEFECT[: DEFECT.index("def defect_kernel")].count("\n") + 1
    assert (
        f"LLVM aborted while compiling kernel `defect_kernel` (defined at {script}:{line})"
        in result.stderr
    )
    assert "this is a bug in ttools; please report it" in result.stderr
