"""`ttools interpret --watch` and `--trace`: summaries, files, pages, comparisons, usage errors."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ttools.watch import open_trace

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def halve(value):
    result = value * 0.5
    return result


@triton.jit
def row_sum(out_ptr, x_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + offs, mask=offs < columns)
        acc += halve(x)
    tl.store(out_ptr + row, tl.sum(acc))


x = torch.arange(60.0).reshape(3, 20)
x[2, 5] = float("nan")
out = torch.zeros(3)
row_sum[(3,)](out, x, 20, BLOCK=16)
print("done", out[1].item())
"""


SUMMARY = """\
done 295.0
row_sum, launch 0, grid (3, 1, 1)
  program (1, 0, 0)
    rows.py:16      start   iteration 0  int32        = 0
    rows.py:18      x       iteration 0  float32[16]  min 20  max 35  mean 27.5  FIRST
    rows.py:8 < 19  result  iteration 0  float32[16]  min 10  max 17.5  mean 13.75  FIRST
    rows.py:16      start   iteration 1  int32        = 16
    rows.py:18      x       iteration 1  float32[16]  min 36  max 39  mean 37.5  \
masked off 12 of 16  FIRST
    rows.py:8 < 19  result  iteration 1  float32[16]  min 0  max 19.5  mean 4.6875  FIRST
  program (2, 0, 0)
    rows.py:16      start   iteration 0  int32        = 0
    rows.py:18      x       iteration 0  float32[16]  min 40  max 55  mean of finite 47.6667  \
nan 1 of 16  FIRST
    rows.py:8 < 19  result  iteration 0  float32[16]  min 20  max 27.5  mean of finite 23.8333  \
nan 1 of 16  FIRST
    rows.py:16      start   iteration 1  int32        = 16
    rows.py:18      x       iteration 1  float32[16]  min 56  max 59  mean 57.5  \
masked off 12 of 16  FIRST
    rows.py:8 < 19  result  iteration 1  float32[16]  min 0  max 29.5  mean 7.1875  FIRST
"""
FIRST = (
    "20 21 22 23 24 25",
    "10 10.5 11 11.5 12 12.5",
    "36 37 38 39 - -",
    "18 18.5 19 19.5 0 0",
    "40 41 42 43 44 nan",
    "20 20.5 21 21.5 22 nan",
    "56 57 58 59 - -",
    "28 28.5 29 29.5 0 0",
)
for _first in FIRST:
    SUMMARY = SUMMARY.replace("FIRST", f"[{_first} …]", 1)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "rows.py").write_text(SCRIPT)
    return "rows.py"


def test_a_summary_by_program_line_and_iteration(ttools: Run, script: str) -> None:
    result = ttools(
        *("interpret", "--watch", "x", "--watch", "rows.py:8", "--watch", "start"),
        *("--programs", "1,2", script),
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == SUMMARY


def test_json_in_a_file(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools(
        *("interpret", "--watch", "acc", "--programs", "2", "--format", "json"),
        *("--output", "watched.json", script),
    )
    assert (result.returncode, result.stdout) == (0, "done 295.0\n"), result.stderr
    report = json.loads((tmp_path / "watched.json").read_text())
    assert (report["schema"], report["complete"]) == ("ttools.watched/1", True)
    assert report["launches"] == [{"index": 0, "kernel": "row_sum", "grid": [3, 1, 1]}]
    first, turn, last = report["values"]
    assert (first["line"], first["iteration"], first["max"]) == (15, [], 0)
    assert (turn["line"], turn["iteration"], turn["nan"]) == (19, [0], 1)
    assert (last["iteration"], last["type"], last["program"]) == ([1], "float32[16]", [2, 0, 0])
    assert last["first"][:2] == [48.0, 49.0]
    assert last["first"][5] == "nan"


def test_a_trace_can_be_read_in_python(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools("interpret", "--trace", "rows.trace", "--programs", "0", script)
    assert result.returncode == 0
    assert result.stdout == "done 295.0\n"
    assert "values of 1 launch are in rows.trace" in result.stderr
    recording = open_trace(tmp_path / "rows.trace")
    assert [r.values[0] for r in recording["acc"]] == [0, 0, 8]
    assert recording.complete


def test_a_trace_that_reaches_its_limit(ttools: Run, script: str) -> None:
    result = ttools("interpret", "--trace", "t", "--trace-limit", "0.5K", script)
    assert result.returncode == 0
    assert "warning: the trace reached its limit of 512 bytes" in result.stderr


def test_selections_without_values_are_warned_of(ttools: Run, script: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").touch()  # its kernels could have any variables
    (tmp_path / script).write_text(f"{SCRIPT}import helper\n")
    wishes = ("ac", "rows.py:7", "other.py:8")
    result = ttools("interpret", *(word for wish in wishes for word in ("--watch", wish)), script)
    assert result.returncode == 2
    assert "there is no variable `ac` to watch in the kernels that ran; available:" in result.stderr
    assert "no variable is assigned at `rows.py:7`, only at these lines" in result.stderr
    assert "there is no line `other.py:8` to watch" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--watch", "a b"), "cannot watch `a b`: it must be a variable's name or FILE:LINE"),
        (("--trace", "no/such/t"), "there is no folder `no/such`"),
        (("--trace", "t", "--trace-limit", "much"), "`much` is not a size"),
        (("--trace-limit", "5M"), "--trace-limit needs recorded values: use --trace"),
        (
            ("--watch", "acc", "--engine", "eager"),
            "need native code, so they cannot be used with --engine eager",
        ),
        (("--compare", "eager", "--timeout", "9"), "--timeout cannot be used with --engine eager"),
    ],
)
def test_usage_errors(ttools: Run, script: str, arguments: tuple[str, ...], sentence: str) -> None:
    result = ttools("interpret", *arguments, script)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_comparing_with_the_eager_engine(ttools: Run, script: str) -> None:
    result = ttools("interpret", "--compare", "eager", script)
    assert result.returncode == 0, result.stderr
    assert "no difference between native code and Python in " in result.stdout


def test_comparing_with_an_earlier_run(ttools: Run, script: str, tmp_path: Path) -> None:
    assert ttools("interpret", "--trace", "before.trace", script).returncode == 0
    text = (tmp_path / script).read_text()
    changed = text.replace("import torch\n", "import torch\n\n", 1).replace("x[2, 5]", "x[1, 17]")
    (tmp_path / script).write_text(changed)
    result = ttools("interpret", "--compare", "before.trace", script)
    assert result.returncode == 1, result.stderr
    assert (
        f"{tmp_path}/rows.py:19: `x` differs first\n   19 |         x = tl.load(" in result.stdout
    )
    assert "program (1, 0, 0), iteration 1, lane [1] of [16]" in result.stdout
    assert "native code   nan\n" in result.stdout
    assert "before.trace  37\n" in result.stdout
    missing = ttools("interpret", "--compare", "missing.trace", script)
    assert missing.returncode == 2
    assert "cannot read the trace `missing.trace`" in missing.stderr
    before = (tmp_path / "before.trace").read_bytes()
    (tmp_path / "begun.trace").write_bytes(before[:900])
    begun = ttools("interpret", "--compare", "begun.trace", "--only", "halve", script)
    assert begun.returncode == 0
    assert "`begun.trace` is incomplete, because its run was interrupted" in begun.stderr
    assert "no kernel `halve` was launched (--only); launched: row_sum" in begun.stderr
    assert "no Triton kernel that --only names was launched" in begun.stderr


def test_comparing_scripts_with_different_names(ttools: Run, script: str, tmp_path: Path) -> None:
    assert ttools("interpret", "--trace", "before.trace", script).returncode == 0
    text = (tmp_path / script).read_text()
    warm_up = "row_sum[(3,)](out, x, 20, BLOCK=16)\n"
    changed = text.replace("x[2, 5]", "x[1, 17]").replace(warm_up, warm_up * 2)
    (tmp_path / "renamed.py").write_text(f"# A comment.\n{changed}")
    result = ttools("interpret", "--compare", "before.trace", "renamed.py")
    assert result.returncode == 1, result.stderr
    assert f"{tmp_path}/renamed.py:19: `x` differs first" in result.stdout
    assert "iteration 1, lane [1] of [16]" in result.stdout
    assert "launches of `row_sum`: 2 in native code, 1 in before.trace" in result.stdout
    (tmp_path / "other.py").write_text(text.replace("row_sum", "row_total"))
    result = ttools("interpret", "--compare", "before.trace", "other.py")
    assert result.returncode == 2
    assert (
        "nothing to compare: native code launched `row_total`, but before.trace `row_sum`"
        in result.stderr
    )


def test_a_page(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools("interpret", "--format", "html", "--output", "rows.html", "--stats", script)
    assert (result.returncode, result.stdout) == (0, "done 295.0\n"), result.stderr
    assert "Kernel launches" in result.stderr
    page = (tmp_path / "rows.html").read_text("utf-8")
    assert "<h1>row_sum</h1>" in page
    assert "of <code>rows.py</code>" in page
    assert "note: the report is in rows.html" in result.stderr
    shown = ttools("interpret", "--format", "html", script)
    assert "<h1>row_sum</h1>" in shown.stdout
    assert "done 295.0" not in shown.stdout


@pytest.mark.parametrize(
    ("watched", "sentence"),
    [
        ("rows.py:999", "no variable is assigned at `rows.py:999`, which is outside of every kern"),
        ("rows.py:1", "its kernels are at lines "),
        (
            "columns2",
            "there is no variable `columns2` to watch in rows.py; did you mean `columns`?",
        ),
    ],
)
def test_what_a_script_does_not_have_is_refused_before_it_runs(
    ttools: Run, script: str, watched: str, sentence: str
) -> None:
    result = ttools("interpret", "--watch", watched, script)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    assert sentence in result.stderr


def test_names_are_not_refused_if_kernels_may_be_elsewhere(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(SCRIPT.split("x = torch")[0])
    (tmp_path / "main.py").write_text("import kernels\nprint('ran')\n")
    result = ttools("interpret", "--watch", "columns2", "main.py")
    assert result.stdout == "ran\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--output", "p.html", "--compare", "eager"), "--compare has no HTML page"),
        (("--output", "p.html", "--engine", "eager"), "need native code"),
    ],
)
def test_usage_errors_of_pages(
    ttools: Run, script: str, arguments: tuple[str, ...], sentence: str
) -> None:
    result = ttools("interpret", "--format", "html", *arguments, script)
    assert result.returncode == 2
    assert sentence in result.stderr
