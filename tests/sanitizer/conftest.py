"""Shortens the wait for deadlocks, and runs pytest with the plugin in a process of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.forked_python import PYTHON
from tests.sanitizer.plugin_runs import KERNELS, Pytest

from ttools.interpreter.runtime import blocked_programs


@pytest.fixture(autouse=True)
def short_deadlocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report deadlocks after 0.1 s; a second would double the running time of the corpus."""
    monkeypatch.setattr(blocked_programs, "_DEADLOCK_SECONDS", 0.1)


@pytest.fixture
def run_pytest(same_folder: Path) -> Pytest:
    """Return a function that writes test files and runs pytest on them."""
    (same_folder / "kernels.py").write_text(KERNELS)

    def run(
        files: dict[str, str] | str, *arguments: str, ini: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        if isinstance(files, str):
            files = {"test_it.py": files}
        for name, text in files.items():
            (same_folder / name).write_text(text)
        (same_folder / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{ini}\n")
        # Hypothesis has a plugin that imports it at the end of each run, which takes longer than
        # the tests.
        return PYTHON.run(
            ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments],
            cwd=same_folder,
            env={**os.environ, "COLUMNS": "120", **environment},
            timeout=180,
        )

    return run
