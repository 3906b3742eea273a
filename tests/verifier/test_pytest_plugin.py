"""The pytest fixture imports heavy modules only on use, and fails tests with the report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PLUGIN = ("-p", "ttools.verifier.pytest_plugin")


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    from importlib.metadata import entry_points

    installed = any(point.name == "ttools-verify" for point in entry_points(group="pytest11"))
    command += () if installed else PLUGIN
    return subprocess.run(
        [*command, "test_it.py"], cwd=folder, capture_output=True, text=True, check=False
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
