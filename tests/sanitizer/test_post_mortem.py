"""`--pdb-on-finding` on a pseudo-terminal stops at the line, program and iteration of a finding."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.forked_python import PYTHON
from tests.terminal import Terminal, ttools

PROMPT = "(Pdb) "
#: Program 1 reads one element past the end of `x`, in iteration 3 of the outer loop and iteration 1
#: of the inner loop.
SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def part(p, k, BLOCK: tl.constexpr):
    return tl.load(
        p + k + tl.arange(0, BLOCK)
    )


@triton.jit
def kernel(x_ptr, out_ptr, K, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, K, BLOCK):
        for j in range(0, 2):
            for _ in tl.static_range(1):
                v = part(x_ptr + pid * K, k + j, BLOCK)
            acc += v
    before = tl.load(out_ptr)
    tl.store(out_ptr + pid * BLOCK + tl.arange(0, BLOCK), acc + before)


def main():
    x = torch.arange(32, dtype=torch.float32)
    out = torch.zeros(2, 4)
    kernel[(2,)](x, out, 16, BLOCK=4)
    print("out", out.tolist())


main()
"""
ASSERTED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.device_assert(x < 5, "small")
    tl.store(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), x + 1)


kernel[(3,)](torch.arange(12.0), BLOCK=4, debug=True)
"""
RACE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n):
    pid = tl.program_id(0)
    i = 0
    while i < n:
        if i == 2:
            tl.store(out_ptr + pid // 2, tl.load(x_ptr + i) + pid)
        i += 1


out = torch.zeros(4)
kernel[(4,)](torch.arange(5.0), out, 5)
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text)
    return path


def test_it_stops_at_line_iteration_and_program(tmp_path: Path) -> None:
    write(tmp_path, SCRIPT)
    with Terminal(ttools("sanitize", "--pdb-on-finding", "script.py"), tmp_path) as terminal:
        shown = terminal.until(PROMPT)
        # Triton 3.6 reports the line of the first argument.
        assert re.search(r"script.py:[89]:\d+: error\[oob_load\]: out-of-bounds load of 4", shown)
        assert "program (1, 0, 0), iteration (3, 1)" in shown
        assert "script.py(8)part()\n-> return tl.load(" in shown
        assert terminal.say("p (p + k + tl.arange(0, BLOCK))") == (
            "pointer<fp32>[4] x_ptr + [29 30 31 32]"
        )
        assert "script.py(20)kernel()" in terminal.say("up")
        assert terminal.say("p pid, k, j") == "(int32 1, int32 12, int32 1)"
        # The stores of program 0 have been executed.
        assert terminal.say("p tl.load(out_ptr)") == "fp32 52.0"
        assert "script.py(29)main()" in terminal.say("up")
        # The launch is undone before it is repeated, and its results are restored afterwards.
        output, status = terminal.finish("c")
        assert "out [[52.0, 60.0, 68.0, 76.0], [232.0, 240.0, 248.0, 224.0]]" in output
        assert output.count("out-of-bounds load") == 1
        assert status == 1


def test_quitting_ends_the_script_with_its_report(tmp_path: Path) -> None:
    write(tmp_path, SCRIPT)
    with Terminal(ttools("sanitize", "--pdb-on-finding", "script.py"), tmp_path) as terminal:
        terminal.until(PROMPT)
        output, status = terminal.finish("q")
        assert "out [[" not in output
        assert "Traceback" not in output
        assert "2 errors, 1 warning in 1 kernel, 1 launch" in output
        assert status == 1


def test_a_failing_assert(tmp_path: Path) -> None:
    write(tmp_path, ASSERTED)
    with Terminal(ttools("sanitize", "--pdb-on-finding", "script.py"), tmp_path) as terminal:
        shown = terminal.until(PROMPT)
        assert (
            "device_assert `small` failed in kernel `kernel`, program (1, 0, 0), lane [1]" in shown
        )
        assert "script.py(9)kernel()\n-> tl.device_assert" in shown
        assert terminal.say("p x") == "fp32[4] [4. 5. 6. 7.]"
        output, status = terminal.finish("c")
        assert "KernelError" in output
        assert status == 1


def test_a_failing_assert_under_pdb(tmp_path: Path) -> None:
    write(tmp_path, ASSERTED)
    with Terminal(ttools("interpret", "--pdb", "script.py"), tmp_path) as terminal:
        terminal.until(PROMPT)
        shown = terminal.say("c")
        assert "Entering post mortem debugging" in shown
        assert "script.py(9)kernel()" in shown
        assert terminal.say("p x") == "fp32[4] [4. 5. 6. 7.]"
        terminal.leave()


def test_without_an_iteration_it_stops_at_the_first_visit(tmp_path: Path) -> None:
    write(tmp_path, RACE)
    with Terminal(ttools("sanitize", "--pdb-on-finding", "script.py"), tmp_path) as terminal:
        assert "several programs store to the same" in terminal.until(PROMPT)
        assert terminal.say("p i, pid") == "(int32 2, int32 1)"
        assert terminal.say("p out_ptr + pid // 2") == "pointer<fp32> out_ptr + 0"
        assert "script.py(13)kernel()\n-> i += 1" in terminal.say("n")
        terminal.leave()


def test_ignored_findings_do_not_stop_the_script(tmp_path: Path) -> None:
    load = "tl.load(p + k + tl.arange(0, BLOCK))  # ttools: ignore[oob_load] as planned"
    write(tmp_path, re.sub(r"tl\.load\(\n.*\n *\)", load, SCRIPT, count=1))
    words = ttools("sanitize", "--check", "memcheck", "--pdb-on-finding", "script.py")
    result = PYTHON.run(words, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "(Pdb)" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("kernel.ttir",), "a .ttir file has no Python source for --pdb-on-finding"),
        (("--on", "gpu", "script.py"), "--pdb-on-finding applies only to the CPU"),
    ],
)
def test_usage_errors(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    write(tmp_path, SCRIPT)
    (tmp_path / "kernel.ttir").write_text("module {}")
    result = PYTHON.run(ttools("sanitize", "--pdb-on-finding", *arguments), cwd=tmp_path)
    assert result.returncode == 2
    assert sentence in result.stderr


@pytest.mark.slow
def test_in_pytest(tmp_path: Path) -> None:
    write(tmp_path, SCRIPT.replace("\nmain()\n", "\ndef test_it():\n    main()\n"))
    (tmp_path / "script.py").rename(tmp_path / "test_it.py")
    command = ["-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
    options = ["--ttools-sanitize=memcheck", "--ttools-pdb-on-finding"]
    with Terminal([*command, *options], tmp_path) as terminal:
        assert "test_it.py(8)part()" in terminal.until(PROMPT)
        assert "test_it.py(20)kernel()" in terminal.say("up")
        assert terminal.say("p pid, k, j") == "(int32 1, int32 12, int32 1)"
        output, status = terminal.finish("c")
        assert "1 failed" in output
        assert status == 1
    with Terminal([*command, *options], tmp_path) as terminal:
        terminal.until(PROMPT)
        output, status = terminal.finish("q")
        assert "Quitting debugger" in output
        assert status == 2


def test_the_api_refuses_other_severities() -> None:
    from ttools.core.errors import UsageError
    from ttools.sanitizer import sanitize

    with pytest.raises(UsageError, match="pdb_on_finding='grave'"):
        sanitize(pdb_on_finding="grave")  # type: ignore[arg-type]


def test_the_session_of_the_tutorial(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "debugging.md"
    script = page.read_text("utf-8").split("```python\n")[1].split("```")[0]
    wide = script.replace("mask=offsets < n)\n    w", "mask=offsets < n + 4)\n    w")
    (tmp_path / "halves.py").write_text(wide)
    with Terminal(ttools("sanitize", "--pdb-on-finding", "halves.py"), tmp_path) as terminal:
        shown = terminal.until(PROMPT)
        assert re.search(r"halves.py:16:\d+: error\[oob_load\]: out-of-bounds load", shown)
        assert "halves.py(16)halves_kernel()\n-> v = tl.load(x_ptr + offsets, mask" in shown
        assert terminal.say("p offsets") == "int32[4] [4 5 6 7]"
        assert terminal.say("p offsets < n + 4") == "int1[4] [ True  True  True  True]"
        terminal.leave()
