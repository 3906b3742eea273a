"""`ttools profile sweep`: tables, files, the choice of shapes, and usage errors."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
import torch
from tests.cli.conftest import Run
from tests.profiler.sweep import kernels_for_sweep

from ttools.cli.profile.sweep import read_shapes
from ttools.core.errors import UsageError

FILE = kernels_for_sweep.__file__
SWEEP = ("profile", "sweep", "--inputs", f"{FILE}:inputs", "--repeat", "0")
BOTH = (f"{FILE}:by_torch", f"{FILE}:by_kernel")


def test_the_table_fits_a_terminal(ttools: Run) -> None:
    shapes = ("--shapes", "columns=16:64", "--shapes", "rows=4")
    result = ttools(*SWEEP, *shapes, "--shapes", "dtype=float32", *BOTH, COLUMNS="80")
    assert result.returncode == 0
    assert (
        result.stderr
        == "warning: these times were measured on a CPU, so they say little about a GPU\n"
    )
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["columns", "implementation", "time", "speed-up", "error", "GB/s"]
    assert [line.split()[:2] for line in lines[1:7]] == [
        [str(n), name] for n in (16, 32, 64) for name in ("by_torch", "by_kernel")
    ]


def test_json_and_csv_have_the_same_rows(ttools: Run) -> None:
    shapes = ("--shapes", "columns=16,40", "--shapes", "rows=4", "--shapes", "dtype=float16")
    words = (*SWEEP, *shapes, f"{FILE}:by_torch", f"{FILE}:failing")
    result = ttools(*words, "--format", "json")
    assert result.returncode == 1
    data = json.loads(result.stdout)
    assert (data["schema"], data["baseline"]) == ("ttools.sweep/1", "by_torch")
    assert data["shapes"] == {"measured": 2, "total": 2}
    assert [(row["columns"], row["dtype"], row["failure"]) for row in data["rows"]] == [
        (16, "float16", None),
        (16, "float16", None),
        (40, "float16", None),
        (40, "float16", "MemoryError: too many columns"),
    ]
    rows = list(csv.DictReader(StringIO(ttools(*words, "--format", "csv").stdout)))
    assert list(rows[0]) == list(data["rows"][0])
    assert rows[3]["failure"] == "MemoryError: too many columns"
    result = ttools(*words, "--format", "markdown")
    assert "| columns | implementation | time |" in result.stdout
    assert "MemoryError: too many columns" in result.stdout


def test_shapes_default_to_those_of_a_tuning(ttools: Run) -> None:
    result = ttools(*SWEEP, BOTH[0], "--format", "json")
    rows = json.loads(result.stdout)["rows"]
    assert [row["dtype"] for row in rows] == ["float32", "float16"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["columns=1:9", "rows=2"], [(2, 1), (2, 2), (2, 4), (2, 8)]),
        (["columns=5:9:2", "rows=2"], [(2, 5), (2, 7), (2, 9)]),
        (["columns=3", "columns=4,3", "rows=2"], [(2, 3), (2, 4)]),
        (["rows=1,2", "columns=7,8"], [(1, 7), (1, 8), (2, 7), (2, 8)]),
    ],
)
def test_values_of_parameters(words: list[str], wanted: list[tuple[int, int]]) -> None:
    shapes = read_shapes(words, kernels_for_sweep, kernels_for_sweep.inputs)
    assert [(shape["rows"], shape["columns"]) for shape in shapes] == wanted
    assert {shape["dtype"] for shape in shapes} == {torch.float32}


def test_parameters_with_a_default_need_no_domain() -> None:
    words = ["negative=True,False", "rows=1", "columns=1", "dtype=float16"]
    shapes = read_shapes(words, kernels_for_sweep, kernels_for_sweep.inputs)
    assert shapes == [
        {"negative": flag, "rows": 1, "columns": 1, "dtype": torch.float16, "seed": 0}
        for flag in (True, False)
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("columns", "must be NAME=VALUE"),
        ("depth=3", "only the parameters rows, columns, dtype, seed, negative, differentiable"),
        ("columns=9:3", "a range must be LOW:HIGH"),
        ("columns=0:3", "with positive integers"),
        ("dtype=int8", "`int8` is not one of float32, float16"),
        ("columns=1:100000:1", "more than 10,000 shapes"),
    ],
)
def test_invalid_values(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_shapes([word], kernels_for_sweep, kernels_for_sweep.inputs)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "ttools profile sweep --inputs FILE.py:NAME"),
        ((f"{FILE}:by_kernl",), "did you mean by_kernel?"),
        (("by_kernel",), "write a function as FILE.py:FUNCTION"),
        (("nowhere.py:f",), "there is no file `nowhere.py`"),
        ((BOTH[0], BOTH[0]), "is named twice"),
        ((BOTH[0], "--baseline", "x"), "the baseline `x` is not one of by_torch"),
    ],
)
def test_usage_errors(ttools: Run, words: tuple[str, ...], message: str) -> None:
    result = ttools(*SWEEP, *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_backward_pass_is_timed_and_compared(ttools: Run) -> None:
    shapes = ("--shapes", "columns=16", "--shapes", "rows=4", "--shapes", "dtype=float32")
    words = (*SWEEP, "--pass", "backward", f"{FILE}:by_torch", f"{FILE}:with_gradients")
    result = ttools(*words, *shapes, "--shapes", "differentiable=True")
    assert result.returncode == 0, result.stdout
    assert "Times of the backward pass on CPU; speed-ups" in result.stdout
    result = ttools(*words, *shapes, "--format", "json")
    data = json.loads(result.stdout)
    assert (result.returncode, data["pass"]) == (1, "backward")
    assert {row["failure"] for row in data["rows"]} == {
        "UsageError: no tensor of `inputs` requires gradients; call requires_grad_() on one"
    }


def test_equal_names_are_distinguished_by_their_files(ttools: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        text = "def inputs(n=3):\n    return {'n': n}\n\n\ndef f(n):\n    return n\n"
        (tmp_path / f"{name}.py").write_text(text)
    words = ("--inputs", "one.py:inputs", "--shapes", "n=2", "one.py:f", "two.py:f")
    result = ttools("profile", "sweep", *words, "--repeat", "0", "--format", "json")
    assert [row["implementation"] for row in json.loads(result.stdout)["rows"]] == [
        "one:f",
        "two:f",
    ]
