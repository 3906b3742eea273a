"""A fake compute-sanitizer for machines without a GPU, and fixtures that run commands with it."""

from __future__ import annotations

import json
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.forked_python import PYTHON

from ttools.cli import app
from ttools.sanitizer.gpu import api

FAKE = Path(__file__).with_name("fake_compute_sanitizer.py")


class Done(NamedTuple):
    """Exit status and streams of a command."""

    status: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Provide a socket through which programs request forks of `PYTHON`, one at a time."""
    path = tmp_path_factory.mktemp("forks") / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=_fork, args=(listener,), daemon=True).start()
        # Start the Python process before any time limit applies.
        PYTHON.run(["-c", "pass"])
        yield path
        listener.shutdown(socket.SHUT_RDWR)


def _fork(listener: socket.socket) -> None:
    """Run requested programs and answer with their exit status, until the socket is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rw") as file:
            order = json.loads(file.readline())
            process = PYTHON.start(
                order["words"], cwd=order["cwd"], env=order["env"], streams=order["streams"]
            )
            file.write(f"{process.wait()}\n")


@pytest.fixture
def fake(tmp_path: Path, forks: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install `fake_compute_sanitizer.py` as compute-sanitizer, and return its path."""
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    # An interpreter line cannot contain a path with spaces.
    command = shlex.join((sys.executable, str(FAKE)))
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("TTOOLS_COMPUTE_SANITIZER", str(program))
    monkeypatch.setenv("FAKE_FORKS", str(forks))
    monkeypatch.setenv("TTOOLS_QUIET", "1")
    return program


@pytest.fixture
def on_gpu(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs `ttools sanitize --on gpu ARGUMENTS…` as if there were a GPU."""
    monkeypatch.setattr(api, "require_gpu", lambda: None)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **environment: str) -> Done:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ending:
            app.main(["sanitize", "--on", "gpu", *arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Done(int(ending.value.code or 0), out, err)

    return run


@pytest.fixture
def report_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that sets the text that the fake prints for a tool, see the fake's file."""
    folder = tmp_path / "reports"
    folder.mkdir()
    monkeypatch.setenv("FAKE_REPORTS", str(folder))

    def set_report(tool: str, text: str) -> None:
        (folder / f"{tool}.txt").write_text(text, "utf-8")

    return set_report
