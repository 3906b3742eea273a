"""Running the command as a user does, judged by its status and streams.

What runs a script has a process of its own; what ends before it would run one does without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

from ttools.cli.app import main

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
def called_ttools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Runs `ttools ARGUMENTS…` in this process, for commands that run nothing of a user's."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        for name, value in _environment(environment).items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        before = set(os.environ)
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        # What `--quiet` sets for the command's children is not for other tests.
        for name in set(os.environ) - before:
            del os.environ[name]
        said = capfd.readouterr()
        status = leaving.value.code or 0
        assert isinstance(status, int)
        return subprocess.CompletedProcess(arguments, status, said.out, said.err)

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
