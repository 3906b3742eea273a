"""Machine-readable reports on standard output; the script's own output goes to standard error."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ttools.core.process.streams import standard_output_kept

pytest.importorskip("torch", reason="torch is not installed")  # the script needs it

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SCRIPT = """\
import atexit, os, subprocess, sys
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": n}) for n in (64, 128)], key=["n"])
@triton.jit
def fill(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=offs < n)

print("by print")
os.write(1, b"by descriptor\\n")
subprocess.run([sys.executable, "-c", "print('by a child')"])
if os.fork() == 0:
    print("by a fork", flush=True)
    os._exit(0)
os.wait()
atexit.register(print, "at exit")
fill[lambda meta: (2,)](torch.zeros(100), 100)
"""
SCRIPT_OUTPUT = ("by print", "by descriptor", "by a child", "by a fork", "at exit")
FUNCTIONS = """\
import os, torch
from kernels import fill

DOMAIN = {"n": range(1, 100)}

def inputs(n):
    os.write(1, b"by descriptor\\n")
    return {"x": torch.zeros(n)}

def reference(x):
    print("by print")
    return x + 1

def candidate(x):
    print("by print")
    out = torch.empty_like(x)
    fill[(len(x),)](out, x)
    return out

def run(n):
    candidate(torch.empty(n))
"""
KERNELS = """\
import triton, triton.language as tl

@triton.jit
def fill(out_ptr, x_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(x_ptr + pid) + 1.0)
"""


def read_json(text: str) -> object:
    return json.loads(text)


def read_csv(text: str) -> object:
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["kernel"] == "fill"
    return row


def read_markdown(text: str) -> object:
    assert text.startswith(("|", "**", "#", "Kernels"))
    return text


def read_page(text: str) -> object:
    assert text.lower().startswith("<!doctype html>")
    return text


COMMANDS: list[tuple[list[str], Callable[[str], object]]] = [
    (["sanitize", "--format=json"], read_json),
    (["sanitize", "--format=sarif", "--output=-"], read_json),
    (["sanitize", "--format=junit"], ElementTree.fromstring),
    (["sanitize", "--format=html"], read_page),
    (["sanitize", "--all-sizes", "--format=json"], read_json),
    (["profile", "--format=json"], read_json),
    (["profile", "--format=csv"], read_csv),
    (["profile", "--format=markdown"], read_markdown),
    (["profile", "--format=chrome"], read_json),
    (["interpret", "--format=json", "--output=-"], read_json),
    (["interpret", "--watch=offs", "--format=json"], read_json),
    (["inspect", "--gpu=sm_90", "--format=json"], read_json),
    (["tune", "--workers=0", "--format=json"], read_json),
]


@pytest.mark.parametrize(
    ("words", "read"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS]
)
def test_only_the_report_is_on_standard_output(
    ttools: Run, tmp_path: Path, words: list[str], read: Callable[[str], object]
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools(*words, "script.py")
    assert result.returncode == 0 or "--all-sizes" in words, result.stderr
    read(result.stdout)
    for line in SCRIPT_OUTPUT:
        assert line in result.stderr.splitlines()


@pytest.mark.parametrize(
    "words",
    [
        ["sanitize", "--sizes=n=1:100", "f.py:run"],
        [
            "verify",
            "--cases=2",
            "--reference=f.py:reference",
            "--inputs=f.py:inputs",
            "f.py:candidate",
        ],
        [
            "profile",
            "sweep",
            "--shapes=n=8",
            "--repeat=0",
            "--inputs=f.py:inputs",
            "f.py:candidate",
        ],
    ],
    ids=lambda words: words[0] + words[1].partition("=")[0],
)
def test_only_the_report_of_functions_is_on_standard_output(
    ttools: Run, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "f.py").write_text(FUNCTIONS)
    (tmp_path / "kernels.py").write_text(KERNELS)
    command = words[: 1 + (words[1] == "sweep")]
    result = ttools(*command, "--format=json", *words[len(command) :])
    json.loads(result.stdout)
    # `verify` hides what candidates print.
    assert ("by print" in result.stderr.splitlines()) == (words[0] != "verify")


@pytest.mark.parametrize("form", ["text", "github"])
def test_readable_reports_share_standard_output_with_the_script(
    ttools: Run, tmp_path: Path, form: str
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools("sanitize", f"--format={form}", "script.py")
    lines = result.stdout.splitlines()
    assert set(SCRIPT_OUTPUT) <= set(lines)
    assert lines[-1].startswith("no finding in 1 kernel, 1 launch")


def test_a_file_leaves_standard_output_to_the_script(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools("sanitize", "--format=json", "--output=r.json", "script.py")
    assert set(result.stdout.splitlines()) == set(SCRIPT_OUTPUT)
    json.loads((tmp_path / "r.json").read_text())


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 15)"])
def test_reports_of_programs_that_exit_or_are_killed(
    ttools: Run, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "script.py").write_text(f"{SCRIPT}\nsys.stdout.flush()\n{ending}\n")
    result = ttools("sanitize", "--format=json", "script.py")
    assert json.loads(result.stdout)["launches"]
    assert "by print" in result.stderr.splitlines()


def test_standard_output_is_restored(capfd: pytest.CaptureFixture[str]) -> None:
    with standard_output_kept() as kept:
        print("script")
        os.write(1, b"descriptor\n")
        kept.write("report\n")
    print("afterwards")
    captured = capfd.readouterr()
    assert captured.out == "report\nafterwards\n"
    assert sorted(captured.err.split()) == ["descriptor", "script"]


def test_a_replaced_standard_output_object(capsys: pytest.CaptureFixture[str]) -> None:
    with standard_output_kept() as kept:
        print("script")
        kept.write("report\n")
    assert capsys.readouterr() == ("report\n", "script\n")
