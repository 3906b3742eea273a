"""Tests of the launches that child processes report to their parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.forks import in_fork

from ttools.core.process import child_launches as module
from ttools.core.process.child_launches import child_launches, note_child_launch

NOTE = """\
import os
from ttools.core.process.child_launches import note_child_launch
note_child_launch("started")
note_child_launch("started")
child = os.fork()
note_child_launch("forked by it" if child == 0 else "itself")
if child:
    os.waitpid(child, 0)
"""


def fork(kernel: str) -> None:
    assert in_fork(lambda: note_child_launch(kernel)) == 0


def test_forked_and_started_processes_report_launches() -> None:
    with child_launches() as launches:
        note_child_launch("of this process")
        fork("forked")
        subprocess.run([sys.executable, "-c", NOTE], check=True)
        assert launches.kernels == ["forked", "forked by it", "itself", "started"]
    fork("too late")
    assert launches.kernels == ["forked", "forked by it", "itself", "started"]
    assert launches.of_started == ["forked by it", "itself", "started"]


def test_the_environment_is_restored_and_runs_nest() -> None:
    before = dict(os.environ)
    with child_launches() as outer:
        during = dict(os.environ)
        with child_launches() as inner:
            fork("inner")
        assert dict(os.environ) == during
        fork("outer")
    assert dict(os.environ) == before
    assert (inner.kernels, outer.kernels) == (["inner"], ["outer"])


def test_a_parent_that_has_ended_is_no_error(tmp_path: Path) -> None:
    was = module._child.log
    module._child.log = str(tmp_path / "gone")
    try:
        note_child_launch("nobody asks")
    finally:
        module._child.log = was
    assert not list(tmp_path.iterdir())
