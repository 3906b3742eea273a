"""Tests of callbacks that run before `os._exit` ends a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ttools.core.process.hard_exit import before_hard_exit

_HEAD = """
import os
from ttools.core.process.hard_exit import before_hard_exit
def last(status):
    print("last", status, os.getcwd() == home, end=" ")
    return 7
home = os.getcwd()
"""


@pytest.mark.parametrize(
    ("program", "written", "status"),
    [
        ("with before_hard_exit(last): os.chdir('/'); os._exit(3)", "last 3 True ", 7),
        (
            "last = lambda status: os._exit(status + 1)\nwith before_hard_exit(last): os._exit(3)",
            "",
            4,
        ),
        ("last = lambda status: 1 // 0\nwith before_hard_exit(last): os._exit(0)", "", 1),
        ("last = lambda status: 1 // 0\nwith before_hard_exit(last): os._exit(5)", "", 5),
        (
            "with before_hard_exit(last): print(os.waitpid(os.fork() or os._exit(2), 0)[1] >> 8)",
            "2\n",
            0,
        ),
    ],
    ids=["called", "again", "raises", "raises-status", "forked"],
)
def test_callbacks_run_once_and_only_in_the_process_that_set_them(
    tmp_path: Path, program: str, written: str, status: int
) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", _HEAD + program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (completed.stdout, completed.returncode) == (written, status), completed.stderr
    assert ("ZeroDivisionError" in completed.stderr) == ("1 // 0" in program)


def test_os_exit_is_restored() -> None:
    before = os._exit
    with before_hard_exit(lambda status: status):
        assert os._exit is not before
    assert os._exit is before
