"""The pytest fixture imports heavy modules only on use, and fails tests with the report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.forked_python import PYTHON
from tests.sanitizer.plugin_runs import outcomes

PLUGIN = ("-p", "ttools.verifier.pytest_plugin")


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    from importlib.metadata import entry_points

    installed = any(point.name == "ttools-verify" for point in entry_points(group="pytest11"))
    command += () if installed else PLUGIN
    return subprocess.run(
        [*command, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_imported_before_the_fixture_is_used(tmp_path: Path) -> None:
    code = "import sys, ttools.verifier.pytest_plugin as p; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"torch", "triton", "numpy", "hypothesis", "ttools.verifier.api", "ttools.core.errors"}
    assert not heavy & set(result.stdout.split())


def test_a_failing_verdict_fails_the_test_with_the_report(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        "from ttools.verifier import api, Failure, Verification\n"
        "def test_it(ttools_verify, monkeypatch):\n"
        "    failure = Failure(failure='layout', detail='shape differs', sizes={'N': 3})\n"
        "    found = Verification(verdict='fail', failures=(failure,), covered={'cases': 1})\n"
        "    monkeypatch.setattr(api, 'verify', lambda *a, **k: found)\n"
        "    ttools_verify('a.py:f', 'a.py:g', 'a.py:i')\n"
        "def test_unknown(ttools_verify, monkeypatch):\n"
        "    found = Verification(\n"
        "        verdict='inconclusive', failures=(), covered={}, notes=('why',))\n"
        "    monkeypatch.setattr(api, 'verify', lambda *a, **k: found)\n"
        "    ttools_verify('a.py:f')\n",
    )
    assert "layout: shape differs" in result.stdout
    assert "1 failed, 1 skipped" in result.stdout


_MARKED = f"""
import sys

import pytest

sys.path.insert(0, {str(Path(__file__).parent)!r})
import reproducible_kernels as kernels


@pytest.fixture
def x():
    return kernels.inputs(3, 100)["x"]


@pytest.mark.ttools_reproducible(batch="x")
def test_equal(x):
    return kernels.softmax(x)


@pytest.mark.ttools_reproducible(batch="x")
def test_differs(x):
    return kernels.split_by_batch(x)


@pytest.mark.ttools_reproducible(batch="x")
def test_unknown(x):
    return kernels.scan(x)


@pytest.mark.ttools_reproducible(batch="x", require_proof=True)
def test_unproved(x):
    return kernels.scan(x)


@pytest.mark.ttools_reproducible(runs=True, configs=True)
def test_runs(x):
    return kernels.softmax(x)


@pytest.mark.ttools_reproducible(rows="x")
def test_wrong_option(x):
    return kernels.softmax(x)
"""


def test_the_marker_compares_executions_of_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_MARKED, "utf-8")
    words = ["-m", "pytest", "-rA", "-p", "no:cacheprovider", "test_it.py"]
    result = PYTHON.run(words, cwd=tmp_path, timeout=180)
    assert outcomes(result) == {
        "test_equal": "PASSED",
        "test_differs": "FAILED",
        "test_unproved": "FAILED",
        "test_runs": "PASSED",
        "test_wrong_option": "FAILED",
    }
    text = " ".join(result.stdout.split())
    assert "3 failed, 2 passed, 1 skipped" in text
    assert "batch: differs: row 0 in a batch of 3 and alone" in text
    assert "unknown: the order of a scan is not followed" in text
    assert "@pytest.mark.ttools_reproducible accepts only runs=..., configs=..." in text
    assert "PytestUnknownMarkWarning" not in text
