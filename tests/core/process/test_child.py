"""Trying something in a child process."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from ttools.core.process.child import in_child
from ttools.core.process.joining import children_call

_ACTIONS = """
import os, sys, time
def four(): return 4
def dies(number): os.kill(os.getpid(), int(number))
def raises(): raise ValueError("of the action")
def sleeps(): time.sleep(60)
def run(): return 5 if "_TTOOLS_RUN" in os.environ else 6
"""


@pytest.fixture
def actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    tmp_path.joinpath("actions.py").write_text(_ACTIONS, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "actions"


def test_what_a_function_returns_is_the_code(actions: str) -> None:
    ending = in_child(f"{actions}:four", seconds=60)
    assert (ending.code, ending.signal) == (4, None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_has_its_name(actions: str, number: signal.Signals) -> None:
    assert in_child(f"{actions}:dies", str(int(number)), seconds=60).signal == number.name


def test_errors_are_kept(actions: str) -> None:
    ending = in_child(f"{actions}:raises", seconds=60, keep_errors=True)
    assert ending.code == 1
    assert ending.errors.endswith("ValueError: of the action\n")


def test_what_takes_too_long_is_ended(actions: str) -> None:
    begin = time.monotonic()
    assert in_child(f"{actions}:sleeps", seconds=1).signal == "SIGALRM"
    assert time.monotonic() - begin < 30


def test_the_child_takes_no_part_in_the_run(actions: str) -> None:
    with children_call(f"{actions}:four", {}):
        assert in_child(f"{actions}:run", seconds=60).code == 6


def test_files_of_the_current_folder_are_not_imported(
    tmp_path: Path, actions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    here.joinpath("actions.py").write_text("raise SystemExit(7)", "utf-8")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert in_child(f"{actions}:four", seconds=60).code == 4
