"""Fixtures that run the `ttools` command and return its exit status and its streams.

Tests that run a script start a process (`ttools`, `started_ttools`); tests of commands that end
before any user code runs call the command in the process of the test (`called_ttools`), which is
faster.
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
    """Return a function that runs `ttools ARGUMENTS…` in `tmp_path`, in a fork of a warm Python."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        words = ["-m", "ttools_entry", *arguments]
        return PYTHON.run(words, cwd=tmp_path, env=_environment(environment))

    return run


@pytest.fixture
def called_ttools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs `ttools ARGUMENTS…` in this process, without user code."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        for name, value in _environment(environment).items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        before = set(os.environ)
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        # `--quiet` sets variables for child processes; remove them, so that other tests are not
        # affected.
        for name in set(os.environ) - before:
            del os.environ[name]
        streams = capfd.readouterr()
        status = leaving.value.code or 0
        assert isinstance(status, int)
        return subprocess.CompletedProcess(arguments, status, streams.out, streams.err)

    return run


@pytest.fixture
def started_ttools(tmp_path: Path) -> Run:
    """Return a function that runs `ttools ARGUMENTS…` in a newly started Python interpreter."""

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
