"""`ttools inspect --specialisations` and `--warmup-file`: reports, scripts, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Run

SCRIPT = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def fill(x_ptr, num_seqs, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, num_seqs + lanes, mask=lanes < 8)


@triton.autotune([triton.Config({"B": 16}), triton.Config({"B": 32}, num_warps=8)], key=[])
@triton.jit
def tuned(x_ptr, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), 1.0)


x = torch.zeros(64)
for word in sys.argv[1:]:
    fill[(1,)](x, int(word), B=16)
if len(sys.argv) > 3:
    tuned[(1,)](x)
print("done")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # Reports name entries of the cache, which may be of other tests' kernels with the same name.
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "serve.py").write_text(SCRIPT)
    return "serve.py"


def test_a_report_and_a_script_that_fills_the_cache(
    ttools: Run, script: str, tmp_path: Path
) -> None:
    words = ("inspect", "--warmup-file", "warm_up.py", "--gpu", "sm_90", "--format", "json")
    result = ttools(*words, script, "2", "1", "16", "3", TRITON_CACHE_DIR=str(tmp_path / "a"))
    assert result.returncode == 0, result.stderr
    assert "done" in result.stderr
    assert "`python warm_up.py` compiles 5 variants ahead of time" in result.stderr
    data = json.loads(result.stdout)
    fill, tuned = data["kernels"]
    assert [c["launches"] for c in fill["compilations"]] == [2, 1, 1]
    assert {c["disk_cache"] for c in fill["compilations"]} == {"miss"}
    assert [c["kind"] for c in tuned["compilations"][1]["causes"]] == ["constexpr", "option"]
    assert fill["advice"][0].startswith("`num_seqs` alone causes 2 of 3 variants; `do_not_special")

    compiled = ttools("interpret", "warm_up.py", TRITON_CACHE_DIR=str(tmp_path / "b"))
    assert compiled.returncode == 0, compiled.stderr
    assert re.search(r"compiled 5 variants in [\d.]+ s", compiled.stdout)
    again = ttools(
        *("inspect", "--specializations", "--only", "fill", "--format", "markdown", script),
        *("2", "1", "16", "3"),
        TRITON_CACHE_DIR=str(tmp_path / "b"),
    )
    assert "Triton's cache on disk: 3 hits, 0 misses" in again.stdout


def test_text(ttools: Run, script: str) -> None:
    result = ttools("inspect", "--specialisations", script, "2", "1")
    assert result.returncode == 0, result.stderr
    assert "no GPU here: compiling for sm_90" in result.stderr
    text = result.stdout.partition("done\n")[2]
    assert text.startswith("2 compilations of 1 kernel, 2 launches")
    assert "`num_seqs` is 1 (previously neither 1 nor a multiple of 16)" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("serve.py:fill",), "`serve.py:fill` names a kernel"),
        (("--lock", "k.lock", "serve.py"), "--lock cannot be combined with --specialisations"),
        (("--stage", "ttir", "serve.py"), "--stage cannot be combined with --specialisations"),
        (
            ("--format", "html", "serve.py"),
            "the formats with --specialisations are text, markdown",
        ),
        (("--gpu", "h100", "--gpu", "a100", "serve.py"), "--specialisations compiles for one GPU"),
    ],
)
def test_refusals(called_ttools: Run, script: str, words: tuple[str, ...], message: str) -> None:
    result = called_ttools("inspect", "--specialisations", *words)
    assert result.returncode == 2
    assert message in result.stderr


def test_markdown_is_for_specialisations(called_ttools: Run, script: str) -> None:
    result = called_ttools("inspect", "--format", "markdown", script)
    assert result.returncode == 2
    assert "--format markdown: the formats without --specialisations are text" in result.stderr


def test_a_script_without_kernels(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("print(1)\n")
    result = ttools("inspect", "--specialisations", "empty.py")
    assert result.returncode == 2
    assert "no kernel was compiled, so there is nothing to report" in result.stderr
