"""`ttools reproduce`: reports, exit statuses and usage errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

FILE = Path(__file__).parents[1] / "verifier" / "reproducible_kernels.py"
SHAPE = ("--shapes", "rows=2", "--shapes", "n=100")


def test_equal_rows(ttools: Run) -> None:
    result = ttools("reproduce", "--batch", "x", *SHAPE, f"{FILE}:softmax")
    assert result.returncode == 0, result.stderr
    assert "\x1b[" not in result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].endswith("reproducible_kernels.py:softmax for sm_90")
    assert "batch: proved equal: row 1 in a batch of 2 and alone, 100 elements" in lines


def test_atomics_as_json(ttools: Run, tmp_path: Path) -> None:
    words = ("--runs", "--gpu", "sm_80", "--format", "json", "--output", "report.json")
    result = ttools("reproduce", *words, *SHAPE, f"{FILE}:four_parts")
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    data = json.loads((tmp_path / "report.json").read_text())
    assert (data["outcome"], data["target"]) == ("failed", "sm_80")
    (answer,) = data["answers"]
    assert (answer["question"], answer["verdict"]) == ("runs", "differs")


def test_several_shapes_and_unknown_orders(ttools: Run) -> None:
    shapes = ("--shapes", "rows=2", "--shapes", "n=50,100")
    result = ttools("reproduce", "--batch", "x:0", *shapes, f"{FILE}:scan")
    assert result.returncode == 4, result.stderr
    text = " ".join(result.stdout.split())
    assert "row 0 in a batch of 2 and alone (rows=2, n=50)" in text
    assert "row 0 in a batch of 2 and alone (rows=2, n=100)" in text
    assert "the order of a scan is not followed" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no function is given: ttools reproduce FILE.py:FUNCTION"),
        ([str(FILE)], "write a function as FILE.py:FUNCTION"),
        ([f"{FILE}:missing"], "has no function `missing`"),
        ([f"{FILE}:softmax", "--batch", "x:a"], "batch x:a: must be NAME or NAME:AXIS"),
        ([f"{FILE}:softmax", "--batch", "y"], "the batch `y` is not a tensor argument"),
        ([f"{FILE}:softmax", "--gpu", "gfx942"], "known for NVIDIA GPUs, not for gfx942"),
        ([f"{FILE}:softmax", "--inputs", f"{FILE}:missing"], "has no function `missing`"),
    ],
)
def test_usage_errors(called_ttools: Run, words: list[str], message: str) -> None:
    result = called_ttools("reproduce", *words)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
