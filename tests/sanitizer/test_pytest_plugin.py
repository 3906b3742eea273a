"""The pytest plugin, in pytest processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.sanitizer.plugin_runs import (
    BUGGY,
    CLEAN,
    HEADLINE,
    VIEW,
    Pytest,
    outcome,
    outcomes,
)

from ttools.core.environment import gpu_usable

NO_GPU = pytest.mark.skipif(gpu_usable(), reason="there is a GPU, which is not mapped")

# --- plugin not enabled
# ----------------------------------------------------------------------------


def test_unused_plugin_changes_and_imports_nothing(same_folder: Path) -> None:
    (same_folder / "test_it.py").write_text(
        "import sys\n\n"
        "def test_it(request):\n"
        "    assert request.config.pluginmanager.has_plugin('ttools-sanitize')\n"
        "    heavy = {'torch', 'triton', 'numpy', 'llvmlite', 'ttools.interpreter'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=same_folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert outcome(result) == "1 passed", result.stdout
    assert "ttools sanitize" not in result.stdout


def test_tests_are_not_checked_by_default(run_pytest: Pytest) -> None:
    assert outcome(run_pytest(BUGGY)) == "1 passed"


def test_broken_installation_does_not_affect_pytest(run_pytest: Pytest) -> None:
    broken = "raise ImportError('broken')\n"
    result = run_pytest({"test_it.py": "def test_it(): pass\n", "torch.py": broken})
    assert outcome(result) == "1 passed", result.stdout


# --- plugin enabled
# --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "ini"),
    [
        pytest.param(("--ttools-sanitize",), "", marks=pytest.mark.slow),
        (("--ttools-sanitize=racecheck,asan",), ""),
        ((), "ttools_sanitize = true"),
    ],
)
def test_passing_test_with_findings_fails_and_shows_them(
    run_pytest: Pytest, arguments: tuple[str, ...], ini: str
) -> None:
    result = run_pytest({"test_a.py": BUGGY, "test_b.py": CLEAN}, *arguments, ini=ini)
    assert outcome(result) == "1 failed, 1 passed"
    assert result.returncode == 1
    assert HEADLINE in result.stdout
    assert "    9 |     x = tl.load(x_ptr + offs" in result.stdout
    assert "28 lanes in 1 program are affected" in result.stdout
    assert "Captured ttools sanitize call" not in result.stdout
    assert "ttools sanitize: checked 2 launches in 2 tests" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "ini"),
    [
        (("--ttools-sanitize=off",), "ttools_sanitize = memcheck"),
        (("--ttools-sanitize=racecheck",), "ttools_sanitize = memcheck"),
    ],
)
def test_option_overrides_configuration(
    run_pytest: Pytest, arguments: tuple[str, ...], ini: str
) -> None:
    assert outcome(run_pytest(BUGGY, *arguments, ini=ini)) == "1 passed"


def test_failing_test_keeps_its_own_failure(run_pytest: Pytest) -> None:
    result = run_pytest(f"{BUGGY}    assert 1 == 2\n", "--ttools-sanitize")
    assert outcome(result) == "1 failed"
    assert "assert 1 == 2" in result.stdout
    assert "- Captured ttools sanitize call -" in result.stdout
    assert HEADLINE in result.stdout


MANY = """\
import unittest
import pytest
from kernels import run

@pytest.mark.xfail(strict=True)
def test_xfail():
    run(mask=False)

def test_skip():
    run(mask=False)
    pytest.skip("why")

@pytest.fixture
def launched():
    run(mask=False)

def test_of_fixture(launched):
    pass

@pytest.fixture
def launched_at_last():
    yield
    run(mask=False)

def test_of_teardown(launched_at_last):
    pass

class TestCase(unittest.TestCase):
    def test_of_unittest(self):
        run(mask=False)

class TestTask(unittest.IsolatedAsyncioTestCase):
    async def test_of_task(self):
        run(mask=False)
"""


def test_outcomes_are_kept_and_every_launch_is_checked(run_pytest: Pytest) -> None:
    result = run_pytest(MANY, "--ttools-sanitize", "-rA")
    assert outcomes(result) == {
        "test_xfail": "XFAIL",
        "test_of_fixture": "FAILED",
        "test_of_teardown": "ERROR",
        "test_of_unittest": "FAILED",
        "test_of_task": "FAILED",
    }
    assert "ttools sanitize: checked 6 launches in 6 tests" in result.stdout


def test_run_without_launches_is_reported(run_pytest: Pytest) -> None:
    result = run_pytest("def test_it(): pass\n", "--ttools-sanitize")
    assert outcome(result) == "1 passed"
    assert "ttools sanitize: no Triton kernel was launched, so nothing was checked" in result.stdout


def test_triton_interpret_is_replaced(run_pytest: Pytest) -> None:
    result = run_pytest(BUGGY, "--ttools-sanitize", TRITON_INTERPRET="1")
    assert outcome(result) == "1 failed"
    assert "TRITON_INTERPRET is set; it is unset for this run" in result.stdout
    assert HEADLINE in result.stdout


@pytest.mark.parametrize(
    ("arguments", "ini", "sentence"),
    [
        (("--ttools-sanitize=lint",), "", "there is no check `lint`; did you mean"),
        *(
            pytest.param(words, "", sentence, marks=pytest.mark.slow)
            for words, sentence in (
                (("--ttools-sanitize=lint.py",), "there is no check `lint.py`"),
                (("--ttools-sanitize", "lint"), "there is no check `lint`"),
            )
        ),
        (("--ttools-sanitize", "--ttools-update-baseline"), "", "needs --ttools-baseline=FILE"),
        (("--ttools-sanitize", "--ttools-baseline=no.json"), "", "cannot read"),
        (("--ttools-sanitize", "--ttools-output=no/report.txt"), "", "no such folder"),
        (("--ttools-sanitize",), "ttools_view_bounds = loud", "ttools_view_bounds is `loud`"),
        (("--ttools-sanitize",), "ttools_fail_on = never", "ttools_fail_on is `never`"),
        (("--ttools-sanitize", "--ttools-suppressions=no.toml"), "", "cannot read `no.toml`"),
        ((), "ttools_sanitize = lint", "ttools_sanitize: there is no check `lint`"),
    ],
)
def test_wrong_options_are_reported(
    run_pytest: Pytest, arguments: tuple[str, ...], ini: str, sentence: str
) -> None:
    result = run_pytest(BUGGY, *arguments, ini=ini)
    assert result.returncode != 0
    assert sentence in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr


# --- severities and suppressions -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "ini", "expected"),
    [
        ((), "", "1 passed"),
        ((), "ttools_fail_on = warning", "1 failed"),
        (("--ttools-fail-on=error",), "ttools_fail_on = warning", "1 passed"),
    ],
)
def test_severity_that_fails(
    run_pytest: Pytest, arguments: tuple[str, ...], ini: str, expected: str
) -> None:
    result = run_pytest(VIEW, "--ttools-sanitize", "-rP", *arguments, ini=ini)
    assert outcome(result) == expected
    assert "kernels.py:9:9: warning[view_oob]" in result.stdout


def test_suppressions_of_the_configuration(run_pytest: Pytest, same_folder: Path) -> None:
    (same_folder / "rules.toml").write_text('[[suppress]]\nkind = "oob_load"\nreason = "padded"\n')
    (same_folder / "conftest.py").write_text("import os\ndef pytest_collection(): os.chdir('/')\n")
    ini = "ttools_suppressions = rules.toml"
    files = {"test_a.py": BUGGY, "test_b.py": CLEAN}
    result = run_pytest(files, "--ttools-sanitize", "--ttools-fail-on=note", ini=ini)
    assert outcome(result) == "2 passed"


# --- marker and fixture -----------------------------------------------------------------------


def marked(*markers: str) -> str:
    """Return tests with one marker each, all of them with the same defect."""
    head = "import pytest\nfrom kernels import run\n"
    tests = [
        f"\n@pytest.mark.ttools({marker})\ndef test_{index}():\n    run(mask=False)\n"
        for index, marker in enumerate(markers)
    ]
    return "".join([head, *tests])


MARKERS = {
    # marker: outcome without the option, outcome with it
    "checks='memcheck'": ("FAILED", "FAILED"),
    "checks=['racecheck', 'asan']": ("FAILED", "FAILED"),
    "checks=['racecheck']": ("PASSED", "PASSED"),
    "allow=['oob_load']": ("PASSED", "PASSED"),
    "allow='memcheck'": ("PASSED", "PASSED"),
    "allow='memcheck/oob_load'": ("PASSED", "PASSED"),
    "allow='memcheck/*'": ("PASSED", "PASSED"),
    "allow='accuracy/overflow'": ("PASSED", "FAILED"),
    "allow=['oob_store']": ("PASSED", "FAILED"),
    "checks='default', allow='race, oob_load'": ("PASSED", "PASSED"),
}


@pytest.mark.parametrize("index", [0, 1])
def test_marker(run_pytest: Pytest, index: int) -> None:
    options = ["--ttools-sanitize"][:index]
    result = run_pytest(marked(*MARKERS), "--strict-markers", "-rA", *options)
    expected = [outcome[index] for outcome in MARKERS.values()]
    assert outcomes(result) == {f"test_{n}": outcome for n, outcome in enumerate(expected)}


def test_option_overrides_the_marker(run_pytest: Pytest) -> None:
    assert outcome(run_pytest(marked("checks='asan'"), "--ttools-sanitize=off")) == "1 passed"


def test_wrong_marker_is_reported(run_pytest: Pytest) -> None:
    wrong = ["check='memcheck'", "'memcheck'", "checks='lint'", "allow=['oob_lod']", "checks=3"]
    result = run_pytest(marked(*wrong), "--ttools-sanitize")
    assert outcome(result) == "5 errors"
    for sentence in (
        "@pytest.mark.ttools accepts only checks=... and allow=[...]",
        "there is no check `lint`",
        "there is no kind or check `oob_lod`",
        "3 is not a list of names",
    ):
        assert sentence in result.stdout
    assert "Traceback" not in result.stdout
    assert "During handling" not in result.stdout


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.slow)])
def test_tolerances_for_the_outputs_of_all_tests(
    run_pytest: Pytest, workers: tuple[str, ...]
) -> None:
    if workers:
        pytest.importorskip("xdist")
    files = {"test_a.py": CLEAN, "test_b.py": CLEAN}
    suggest = "--ttools-suggest-tolerance"
    result = run_pytest(files, "--ttools-sanitize=accuracy", suggest, *workers)
    assert outcome(result) == "2 passed", result.stdout
    heading, output, reason = result.stdout[result.stdout.index("suggested tol") :].splitlines()[:3]
    assert heading == "suggested tolerances for torch.testing.assert_close:"
    assert output.startswith("  `out_ptr` of copy (float32): rtol=")
    assert reason.startswith("    largest error 0 ulp: ")
    none = "none, because the check `accuracy` has compared no output of floating-point numbers"
    assert none in run_pytest(CLEAN, "--ttools-sanitize", suggest).stdout


FIXTURE = """\
import pytest
from kernels import run

@pytest.mark.ttools(allow=["oob_load"])
def test_it(ttools_sanitizer):
    assert ttools_sanitizer.findings == []
    run(mask=False)
    (finding,) = ttools_sanitizer.findings
    assert (finding.kind, finding.count) == ("oob_load", 28)
    assert ttools_sanitizer.launches[0].kernel == "copy"

def test_other(ttools_sanitizer):
    run(mask=False)
"""


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("--ttools-sanitize",), marks=pytest.mark.slow)]
)
def test_fixture_gives_the_findings_of_its_test(
    run_pytest: Pytest, arguments: tuple[str, ...]
) -> None:
    result = run_pytest(FIXTURE, *arguments)
    assert outcome(result) == "1 failed, 1 passed", result.stdout
    assert "FAILED test_it.py::test_other" in result.stdout


FREED = """
import gc
from kernels import run
from ttools.sanitizer import Sanitization

def test_passes():
    run(mask=True)

def test_fails():
    run(mask=False)

def test_last():
    assert sum(type(each) is Sanitization for each in gc.get_objects()) == 1
"""


def test_runs_are_freed_with_their_tests(run_pytest: Pytest) -> None:
    result = run_pytest(FREED, "--ttools-sanitize", "-rA")
    assert outcomes(result) == {
        "test_passes": "PASSED",
        "test_fails": "FAILED",
        "test_last": "PASSED",
    }


def test_fixture_skips_the_test_if_checks_are_off(run_pytest: Pytest) -> None:
    assert outcome(run_pytest(FIXTURE, "--ttools-sanitize=off")) == "2 skipped"


# --- several processes ------------------------------------------------------------------------


@pytest.mark.slow
def test_reports_of_several_processes_are_collected(run_pytest: Pytest) -> None:
    pytest.importorskip("xdist")
    result = run_pytest({"test_a.py": BUGGY, "test_b.py": CLEAN}, "--ttools-sanitize", "-n", "2")
    assert outcome(result) == "1 failed, 1 passed", result.stdout
    assert HEADLINE in result.stdout
    assert "ttools sanitize: checked 2 launches in 2 tests" in result.stdout


POISONED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n), 0))


def test_total():
    out = torch.zeros(1)
    total[(1,)](torch.ones(20), out, 20, BLOCK=32)
    assert out.item() == 20
"""


def test_poison_reveals_code_that_relies_on_zeros(run_pytest: Pytest) -> None:
    checked = "--ttools-sanitize=memcheck"
    assert outcome(run_pytest(POISONED, checked)) == "1 passed"
    assert outcome(run_pytest(POISONED, checked, "--ttools-poison")) == "1 failed"
    assert outcome(run_pytest(POISONED, checked, ini="ttools_poison = true")) == "1 failed"


# --- CUDA devices -----------------------------------------------------------------------------

ON_CUDA = """\
import pytest
import torch
from kernels import copy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

@pytest.mark.parametrize("n", [100, 99, 98])
def test_on_cuda(n):
    assert DEVICE == "cuda"
    x = torch.randn(n, device="cuda").half().float()
    out = torch.empty(n, device=DEVICE)
    copy[(2,)](x, out, n, BLOCK=64, MASK=True)
    assert out.is_cuda and torch.equal(out, x)
"""


@NO_GPU
def test_tests_may_name_a_gpu_that_is_not_there(run_pytest: Pytest) -> None:
    result = run_pytest({"test_a.py": ON_CUDA}, "--ttools-sanitize")
    assert outcome(result) == "3 passed", result.stdout + result.stderr
    assert "ttools sanitize: no GPU here: the CPU stands in for cuda:0" in result.stdout


@NO_GPU
@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("ttools_device_map = off", "AssertionError"),
        ("ttools_device_map = cpu", "--ttools-device-map: the device map `cpu` is neither"),
        ("ttools_gpu = h10", "ttools_gpu: "),
        ("ttools_gpu = mi300x", "the device map emulates only CUDA devices"),
        (
            "ttools_gpu = h100\nttools_device_map = off",
            "ttools_gpu both choose the emulated device",
        ),
    ],
)
def test_the_device_map_can_be_chosen(run_pytest: Pytest, ini: str, words: str) -> None:
    result = run_pytest({"test_a.py": ON_CUDA}, "--ttools-sanitize", ini=ini)
    assert result.returncode != 0
    assert words in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


@NO_GPU
def test_a_gpu_can_be_emulated(run_pytest: Pytest) -> None:
    text = (
        "import torch\n"
        "def test_capability():\n"
        "    assert torch.cuda.get_device_capability() == (8, 9)\n"
        "    assert torch.cuda.get_device_properties(0).multi_processor_count == 128\n"
    )
    for words, ini in ((("--ttools-gpu", "rtx4090"), ""), ((), "ttools_gpu = rtx4090")):
        result = run_pytest({"test_a.py": text}, "--ttools-sanitize", *words, ini=ini)
        assert outcome(result) == "1 passed", result.stdout + result.stderr
    both = ("--ttools-gpu", "h100", "--ttools-device-map", "off")
    result = run_pytest({"test_a.py": text}, "--ttools-sanitize", *both)
    assert "--ttools-device-map and --ttools-gpu both choose" in result.stdout + result.stderr
