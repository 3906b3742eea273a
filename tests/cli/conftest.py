"""Running the command as a user does: a process of its own, judged by its status and streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ttools(tmp_path: Path) -> Run:
    """Runs `ttools ARGUMENTS…` in a folder of the test's own."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ttools_entry", *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
