"""Tests of Python's debugger in eager kernels, on a pseudo-terminal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.forked_python import PYTHON
from tests.terminal import Terminal, ttools

pytest.importorskip("torch", reason="torch is not installed")  # the scripts import it

SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def double(v):
    twice = v * 2
    return twice


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + offsets, mask=offsets < n)
    w = double(v)
    total = tl.sum(w, 0)
    tl.store(x_ptr + offsets, w + total, mask=offsets < n)


def main():
    x = torch.arange(6, dtype=torch.float32)
    kernel[(2,)](x, 6, BLOCK=4)
    print(x.tolist())


main()
"""
PROMPT = "(Pdb) "


def script(folder: Path, text: str = SCRIPT) -> Path:
    path = folder / "script.py"
    path.write_text(text)
    return path


def test_breakpoints_steps_and_expressions(tmp_path: Path) -> None:
    script(tmp_path)
    with Terminal(ttools("interpret", "--pdb", "script.py"), tmp_path) as terminal:
        assert "script.py(1)<module>()\n-> import torch" in terminal.until(PROMPT)
        assert "Breakpoint 1 at" in terminal.say("b script.py:17")
        assert "script.py(17)kernel()\n-> w = double(v)" in terminal.say("c")
        assert terminal.say("p offsets") == "int32[4] [0 1 2 3]"
        assert terminal.say("p tl.sum(v, 0)") == "fp32 6.0"
        assert terminal.say("p offsets * 2 + BLOCK") == "int32[4] [ 4  6  8 10]"
        assert terminal.say("p x_ptr + offsets") == "pointer<fp32>[4] x_ptr + [0 1 2 3]"
        assert terminal.say("p tl.load(x_ptr + 5)") == "fp32 5.0"
        assert "--Call--" in terminal.say("s")
        assert "script.py(8)double()\n-> twice = v * 2" in terminal.say("s")
        assert "script.py(9)double()\n-> return twice" in terminal.say("n")
        assert terminal.say("p twice") == "fp32[4] [0. 2. 4. 6.]"
        assert "--Return--" in terminal.say("s")
        # The debugger stops neither in the source of `tl.sum` nor in the engine.
        assert "script.py(18)kernel()\n-> total = tl.sum(w, 0)" in terminal.say("s")
        assert "script.py(19)kernel()\n-> tl.store" in terminal.say("s")
        assert terminal.say("p total") == "fp32 12.0"
        where = terminal.say("w")
        assert where.count("script.py(") == 3
        assert ".py(" not in where.replace("script.py(", "")
        assert "script.py(24)main()\n-> kernel[(2,)](x, 6, BLOCK=4)" in terminal.say("up")
        assert terminal.say("p x.shape") == "torch.Size([6])"
        # The second program reaches the same line.
        assert "script.py(17)kernel()" in terminal.say("c")
        assert terminal.say("p pid, offsets.numpy().tolist()") == "(int32 1, [4, 5, 6, 7])"
        assert terminal.leave() == 0


def test_elements_at_the_prompt(tmp_path: Path) -> None:
    script(tmp_path)
    with Terminal(ttools("interpret", "--pdb", "script.py"), tmp_path) as terminal:
        terminal.until(PROMPT)
        terminal.say("b script.py:17")
        terminal.say("c")
        assert terminal.say("p v[1]") == "fp32 1.0"
        assert terminal.say("p (v + v)[-1]") == "fp32 6.0"
        assert terminal.say("p (x_ptr + offsets)[2]") == "pointer<fp32> x_ptr + 2"
        assert terminal.say("p offsets[1:3].tolist()") == "[1, 2]"
        assert terminal.say("p v[None, :]") == "fp32[1, 4] [[0. 1. 2. 3.]]"
        assert "index 9 is out of bounds" in terminal.say("p v[9]")
        assert "use .numpy()" in terminal.say("p v[pid]")
        terminal.leave()


def test_elements_can_only_be_indexed_at_the_prompt(tmp_path: Path) -> None:
    script(tmp_path, SCRIPT.replace("    total = tl.sum(w, 0)", "    total = w[0]"))
    completed = run(tmp_path, "--engine", "eager", "script.py")
    assert completed.returncode == 1
    assert "CompilationError" in completed.stderr
    assert "unsupported tensor index" in completed.stderr


@pytest.mark.parametrize("statement", ["breakpoint()", "import pdb; pdb.set_trace()"])
@pytest.mark.parametrize("plain", [False, True], ids=["ttools", "python"])
def test_quitting_at_a_breakpoint_prints_no_traceback(
    tmp_path: Path, statement: str, plain: bool
) -> None:
    script(tmp_path, SCRIPT.replace("    w = double(v)", f"    {statement}\n    w = double(v)"))
    command = ["script.py"] if plain else ttools("interpret", "script.py")
    with Terminal(command, tmp_path) as terminal:
        terminal.until(PROMPT)
        output, status = terminal.finish("q")
        assert status == 1
        assert "Traceback" not in output
        assert "note:" not in output


def test_selected_programs_and_the_launch_site(tmp_path: Path) -> None:
    script(tmp_path)
    command = ttools("interpret", "--pdb", "--programs", "1", "script.py")
    with Terminal(command, tmp_path) as terminal:
        terminal.until(PROMPT)
        terminal.say("b script.py:19")
        assert "script.py(19)kernel()" in terminal.say("c")
        assert terminal.say("p pid") == "int32 1"
        # After the kernel, the next line is that after the launch, without frames of ttools.
        assert "--Return--" in terminal.say("n")
        assert "script.py(25)main()\n-> print(x.tolist())" in terminal.say("n")
        answer = terminal.say("c")
        assert "[0.0, 1.0, 2.0, 3.0, 26.0, 28.0]" in answer
        assert "The program finished and will be restarted" in answer
        assert "script.py(1)<module>()" in answer
        assert terminal.leave() == 0


def test_a_failing_kernel_is_debugged_where_it_failed(tmp_path: Path) -> None:
    script(tmp_path, SCRIPT.replace("mask=offsets < n)\n    w", "mask=offsets < n + 9)\n    w"))
    with Terminal(ttools("interpret", "--pdb", "script.py"), tmp_path) as terminal:
        terminal.until(PROMPT)
        answer = terminal.say("c")
        assert "out-of-bounds load of 4 bytes through `x_ptr`" in answer
        assert "element 6 of `x_ptr`, float32[6] (24 bytes)" in answer
        assert "Entering post mortem debugging" in answer
        assert "script.py(16)kernel()" in answer
        assert terminal.say("p offsets + pid") == "int32[4] [5 6 7 8]"
        assert terminal.say("p x_ptr + offsets") == "pointer<fp32>[4] x_ptr + [4 5 6 7]"
        assert "script.py(24)main()" in terminal.say("up")
        terminal.leave()


@pytest.mark.parametrize("statement", ["breakpoint()", "import pdb; pdb.set_trace()"])
@pytest.mark.parametrize("plain", [False, True], ids=["ttools", "python"])
def test_breakpoints_in_the_source(tmp_path: Path, statement: str, plain: bool) -> None:
    text = SCRIPT.replace("    w = double(v)", f"    {statement}\n    w = double(v)")
    script(tmp_path, text)
    command = ["script.py"] if plain else ttools("interpret", "script.py")
    with Terminal(command, tmp_path) as terminal:
        output = terminal.until(PROMPT)
        assert "kernel `kernel` runs as Python, because it contains" in output
        assert "script.py(18)kernel()\n-> w = double(v)" in output
        assert terminal.say("p v") == "fp32[4] [0. 1. 2. 3.]"
        terminal.say("s")
        assert "script.py(8)double()" in terminal.say("s")
        assert "main()\n-> kernel[(2,)](x, 6, BLOCK=4)" in terminal.say("w")
        assert "script.py(18)kernel()" in terminal.say("c")
        assert terminal.say("p pid") == "int32 1"
        remaining_output, status = terminal.finish("c")
        assert "[12.0, 14.0, 16.0, 18.0, 26.0, 28.0]" in remaining_output
        assert status == 0


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return PYTHON.run(ttools("interpret", *arguments), cwd=folder)


def test_the_option_engine(tmp_path: Path) -> None:
    script(tmp_path)
    completed = run(tmp_path, "--engine", "eager", "--stats", "--format", "json", "script.py")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.startswith("[12.0, 14.0, 16.0, 18.0, 26.0, 28.0]")
    assert '"programs": 2' in completed.stdout + completed.stderr


def test_a_ttir_file_has_no_python_source(tmp_path: Path) -> None:
    (tmp_path / "kernel.ttir").write_text("module {}")
    for option in (("--engine", "eager"), ("--pdb",)):
        completed = run(tmp_path, *option, "kernel.ttir")
        assert completed.returncode == 2
        assert "a .ttir file has no Python source for --engine eager or --pdb" in completed.stderr
