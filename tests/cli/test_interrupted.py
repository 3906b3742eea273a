"""Ctrl-C ends each command with status 130; unfinished work is not reported as completed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

pytest.importorskip("torch", reason="torch is not installed")  # the scripts need it

SCRIPT = """\
import os, time
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": n}) for n in (64, 128)], key=["n"])
@triton.jit
def fill(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=offs < n)

@triton.jit
def plain(x_ptr, n):
    tl.store(x_ptr + tl.program_id(0), 1.0)

def wait():
    open("ready", "w").close()
    while True:
        time.sleep(0.01)

DOMAIN = {"n": range(1, 100)}

def inputs(n):
    return {"x": torch.zeros(n)}

def reference(x):
    return x + 1

def run(n):
    plain[(n,)](torch.empty(n), n)
    wait()

if __name__ == "__main__":
    x = torch.zeros(100)
    fill[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)
    plain[(100,)](x, 100)
    wait()
"""
#: The same script, with Ctrl-C after the program has ended.
LATER = """\
import script
from ttools.cli.app import main
from %s import %s as owner
import sys

name = "%s"
assert hasattr(owner, name), f"{owner} has no {name}"
setattr(owner, name, lambda *_, **__: script.wait())
main(sys.argv[1:])
"""


def interrupted(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    """Run Python, send Ctrl-C once it is ready, and return status and streams."""
    (tmp_path / "script.py").write_text(SCRIPT)
    out, err = tmp_path / "out", tmp_path / "err"
    out.touch(), err.touch()
    process = PYTHON.start(words, streams=(os.devnull, str(out), str(err)), cwd=tmp_path)
    until = time.monotonic() + 100
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < until, err.read_text()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    return process.wait(60), out.read_text(), err.read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["interpret", "--stats"], "warning: the run was interrupted"),
        (["interpret", "--watch=offs"], "warning: the run was interrupted"),
        (["profile"], "the profile covers what ran until then"),
        (["record"], "the record covers what ran until then"),
        (["inspect", "--gpu=sm_90"], "the report covers what ran until then"),
        (["inspect", "--lock=l", "--gpu=sm_90"], "error: l was neither written nor compared"),
        (["tune", "--workers=0"], "note: interrupted"),
        (["sanitize", "--update-baseline", "--baseline=b"], "error: b was not written"),
    ],
    ids=lambda each: " ".join(each[:2]) if isinstance(each, list) else "",
)
def test_a_script_is_interrupted(tmp_path: Path, words: list[str], sentence: str) -> None:
    status, _, errors = interrupted(tmp_path, "-m", "ttools_entry", *words, "script.py")
    assert status == 130
    assert sentence in errors
    assert not (tmp_path / "l").exists()
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    "words", [["--sizes=n=1:100", "script.py:run"], ["--all-sizes", "script.py"]]
)
def test_nothing_is_proved_by_an_interrupted_run(tmp_path: Path, words: list[str]) -> None:
    status, out, _ = interrupted(
        tmp_path, "-m", "ttools_entry", "sanitize", "--format=json", *words
    )
    report = json.loads(out)
    assert status == report["script"]["exit_code"] == 130
    assert report["sizes"]["verdict"] != "proved"
    assert "interrupted" in report["summary"]
    assert any("interrupted" in abstention["reason"] for abstention in report["sizes"]["abstained"])


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (
            ("ttools.profiler.report.analysis", "Compiler", "inspected"),
            ["profile", "--target=sm_90"],
        ),
        (("ttools.prove.analysis", "Analysis", "analyse"), ["sanitize", "--all-sizes"]),
        (("ttools.verifier.run.verification_run", "VerificationRun", "run"), ["verify"]),
    ],
)
def test_analyses_after_the_program_are_interrupted(
    tmp_path: Path, where: tuple[str, str, str], words: list[str]
) -> None:
    (tmp_path / "done.py").write_text(SCRIPT.replace("    wait()\n", ""))
    target = ["done.py"]
    if words == ["verify"]:
        target = ["--reference=done.py:reference", "--inputs=done.py:inputs", "done.py:reference"]
    code = LATER % where
    status, out, errors = interrupted(tmp_path, "-c", code, *words, "--format=json", *target)
    assert status == 130
    assert "Traceback" not in errors
    if words[0] != "profile":
        data = json.loads(out)
        assert data.get("verdict", data.get("sizes", {}).get("verdict")) in (
            "inconclusive",
            "not proved",
        )
