"""Running the command as a user does: a process of its own, judged by its status and streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _environment(changes: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100", **changes}


@pytest.fixture
def ttools(tmp_path: Path) -> Run:
    """Runs `ttools ARGUMENTS…` in a folder of the test's own, with all imports made already."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        words = ["-m", "ttools_entry", *arguments]
        return PYTHON.run(words, cwd=tmp_path, env=_environment(environment))

    return run


@pytest.fixture
def started_ttools(tmp_path: Path) -> Run:
    """Runs `ttools ARGUMENTS…` as `ttools` does, from the start of Python to its very end."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ttools_entry", *arguments],
            cwd=tmp_path,
            env=_environment(environment),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
