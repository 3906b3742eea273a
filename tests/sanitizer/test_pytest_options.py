"""Options of the pytest plugin, and paths that follow `--sanitize` without a value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.sanitizer.plugin_runs import BUGGY, CLEAN, KERNELS, VIEW, Pytest, outcome

# --- paths after the option without a value ------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--ttools-sanitize", "test_a.py"), "1 failed"),
        pytest.param(
            *(("--ttools-sanitize", "test_a.py", "test_b.py"), "1 failed, 1 passed"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(("--ttools-sanitize", "tests/test_c.py::test_clean"), "1 passed"),
            marks=pytest.mark.slow,
        ),
        (("--ttools-sanitize", "tests"), "1 passed"),
        pytest.param(
            *(("--ttools-sanitize", "racecheck", "test_a.py"), "1 passed"),
            marks=pytest.mark.slow,
        ),
        (("test_b.py", "--ttools-sanitize", "test_a.py"), "1 failed, 1 passed"),
    ],
)
def test_a_path_behind_the_bare_option(
    run_pytest: Pytest, same_folder: Path, arguments: tuple[str, ...], expected: str
) -> None:
    (same_folder / "tests").mkdir()
    conftest = "def pytest_addoption(parser): parser.addoption('--own')\n"
    files = {"test_a.py": BUGGY, "test_b.py": CLEAN, "tests/test_c.py": CLEAN}
    result = run_pytest({**files, "tests/conftest.py": conftest}, *arguments)
    assert outcome(result) == expected, result.stdout + result.stderr
    assert "ttools sanitize: checked" in result.stdout
    if "tests" in arguments:  # pytest has to load the folder's conftest.py early
        result = run_pytest({}, *arguments, "--own=1")
        assert outcome(result) == expected, result.stdout + result.stderr


def test_a_path_behind_the_option_of_the_configuration_file(run_pytest: Pytest) -> None:
    files = {"test_a.py": BUGGY, "test_b.py": CLEAN}
    result = run_pytest(files, "test_a.py", ini="addopts = --ttools-sanitize")
    assert outcome(result) == "1 failed", result.stdout + result.stderr


# --- checks, baselines and reports ----------------------------------------------------------------

STORE = VIEW.replace(
    "torch.zeros(200)[:100], torch.zeros(100), 100",
    ("torch.zeros(128), torch.zeros(128)[:100], 128"),
)
TUNED = """\
import torch
import triton
import triton.language as tl

@triton.autotune([triton.Config({"B": 16}), triton.Config({"B": 64})], key=["n"])
@triton.jit
def double(x_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + offs, offs)

def test_tuned():
    double[lambda meta: (triton.cdiv(48, meta["B"]),)](torch.zeros(48), 48)
"""


@pytest.mark.parametrize(
    ("text", "arguments", "ini", "expected"),
    [
        (STORE, (), "", "1 failed"),
        (STORE, ("--ttools-view-bounds=warning",), "", "1 passed"),
        (VIEW, ("--ttools-view-bounds=error",), "ttools_view_bounds = off", "1 failed"),
        pytest.param(VIEW, (), "ttools_view_bounds = error", "1 failed", marks=pytest.mark.slow),
        (TUNED, (), "", "1 passed"),
        (TUNED, ("--ttools-all-configs",), "", "1 failed"),
        pytest.param(TUNED, (), "ttools_all_configs = true", "1 failed", marks=pytest.mark.slow),
    ],
)
def test_options_of_the_checks(
    run_pytest: Pytest, text: str, arguments: tuple[str, ...], ini: str, expected: str
) -> None:
    result = run_pytest(text, "--ttools-sanitize", *arguments, ini=ini)
    assert outcome(result) == expected, result.stdout
    partly = "1 of 2 configurations of `double` ran (--all-configs)" in result.stdout
    assert partly == (text == TUNED and expected == "1 passed")


@pytest.mark.parametrize(
    "ini", ["", pytest.param("ttools_baseline = known.json", marks=pytest.mark.slow)]
)
def test_a_baseline(run_pytest: Pytest, ini: str) -> None:
    named = [] if ini else ["--ttools-baseline=known.json"]
    options = ["--ttools-sanitize", *named]
    files = {"test_a.py": BUGGY, "test_b.py": CLEAN}
    result = run_pytest(files, *options, "--ttools-update-baseline", ini=ini)
    assert outcome(result) == "2 passed", result.stdout + result.stderr
    assert "known.json now holds 1 finding" in result.stdout
    assert outcome(run_pytest(files, *options, ini=ini)) == "2 passed"
    files["test_b.py"] = VIEW.replace("200)[:100]", "100)")
    files["kernels.py"] = KERNELS.replace("x = tl.load", "y = x_ptr; x = tl.load")
    assert outcome(run_pytest(files, *options, ini=ini)) == "2 failed"


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)])
def test_a_report_of_the_whole_run(
    run_pytest: Pytest, same_folder: Path, workers: tuple[str, ...]
) -> None:
    if workers:
        pytest.importorskip("xdist")
    second = BUGGY.replace("test_buggy", "test_again")
    files = {"test_a.py": BUGGY, "test_b.py": CLEAN, "test_c.py": second}
    report = ("--ttools-format=json", "--ttools-output=report.json")
    result = run_pytest(files, "--ttools-sanitize", *report, *workers)
    assert outcome(result) == "2 failed, 1 passed", result.stdout
    assert "1 error in 1 kernel, 3 launches; the report is in " in result.stdout
    data = json.loads((same_folder / "report.json").read_text())
    (finding,) = data["findings"]
    assert (finding["kind"], finding["count"]) == ("oob_load", 56)
    assert sum(entry["count"] for entry in data["launches"]) == 3


def test_annotations_are_printed(run_pytest: Pytest) -> None:
    result = run_pytest(BUGGY, "--ttools-sanitize", "--ttools-format=github")
    assert re.search(r"^::error file=kernels.py,line=9", result.stdout, re.MULTILINE)
