"""Tests of the environment by which child processes of a program join its run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ttools.core.process.child_environment import children_call, join_run

#: Program that imports a replacement of Triton, which joins a run as the backend plugin does.
CHILD = "import triton; print('imported')"
PLUGIN = (
    "from ttools.core.process.child_environment import join_run\njoin_run()\nfrom . import tools\n"
)
JOINED = "def begin(given):\n    print('joined', given)\n"


def child(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "triton").mkdir(exist_ok=True)
    (folder / "triton" / "__init__.py").write_text(PLUGIN)
    (folder / "triton" / "tools.py").write_text("print('tools')")
    (folder / "joined.py").write_text(JOINED)
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_process_joins_when_it_imports_triton(tmp_path: Path) -> None:
    with children_call("joined:begin", {"n": 1}):
        join_run()  # does nothing: this process is in the run already
        assert child(tmp_path).stdout == "tools\njoined {'n': 1}\nimported\n"
    assert child(tmp_path).stdout == "tools\nimported\n"


def test_a_process_that_cannot_join_continues(tmp_path: Path) -> None:
    with children_call("absent:begin", {}):
        completed = child(tmp_path)
    assert (completed.stdout, completed.returncode) == ("tools\nimported\n", 0)
    assert "is not included in the run: No module named 'absent'" in completed.stderr


def test_runs_nest(tmp_path: Path) -> None:
    before = dict(os.environ)
    with children_call("joined:begin", {"n": 1}):
        with children_call("joined:begin", {"n": 2}):
            assert "{'n': 2}" in child(tmp_path).stdout
        assert "{'n': 1}" in child(tmp_path).stdout
    assert dict(os.environ) == before
