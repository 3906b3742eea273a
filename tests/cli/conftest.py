"""Running the command as a user does: a process of its own, judged by its status and streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forked_python import ForkedPython

Run = Callable[..., "subprocess.CompletedProcess[str]"]

#: Variables that are read before or while torch is imported.
_READ_EARLY = ("PYTHON", "LD_", "OMP_", "MKL_", "CUDA_", "TORCH")
#: Tests of the process itself: what it imports, and what happens when an import fails.
_PLAIN = ("test_app", "test_doctor")


@pytest.fixture
def ttools(tmp_path: Path, forked_python: ForkedPython, request: pytest.FixtureRequest) -> Run:
    """Runs `ttools ARGUMENTS…` in a folder of the test's own."""
    plain = request.path.stem in _PLAIN

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "COLUMNS": "100", **environment}
        if not plain and not any(name.startswith(_READ_EARLY) for name in environment):
            return forked_python.run("ttools_entry", arguments, cwd=tmp_path, env=variables)
        return subprocess.run(
            [sys.executable, "-m", "ttools_entry", *arguments],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
