"""Test runs with several processes finish, even if processes die."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist", reason="tests are shared by xdist")

CONFTEST = """\
def pytest_xdist_make_scheduler(config, log):
    from tests.sharing import FileSharing
    return FileSharing(config, log)
"""
TESTS = """\
import os, time, pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    time.sleep(0.02)
    if number in {dies_at}:
        os._exit(1)
"""


@pytest.mark.slow
def test_each_test_is_run_once_when_processes_die(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for file in range(5):
        dies_at: list[int] = {1: [3], 3: [0, 2]}.get(file, [])
        (tmp_path / f"test_{file}.py").write_text(TESTS.format(dies_at=dies_at))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n2", "--dist=loadfile", "-pno:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "3 failed, 17 passed" in result.stdout
    for name in ("test_1.py::test_it[3]", "test_3.py::test_it[0]", "test_3.py::test_it[2]"):
        assert f"FAILED {name} - worker" in result.stdout
