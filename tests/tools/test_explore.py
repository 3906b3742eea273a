"""`tools.explore` runs property tests on new examples, and its failures can be reproduced."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]
_CONFTEST = "from tests.exploration import register_profiles\nregister_profiles()\n"
_TESTS = """
from hypothesis import given, settings, strategies

@settings(max_examples=3)
@given(strategies.integers(0, 2**64))
def test_prints(number):
    print("drawn", number)

@settings(max_examples=100)
@given(strategies.integers(0, 2**64))
def test_property(number):
    assert number < 2**40, number

def test_no_property():
    assert False
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_numbers.py").write_text(_TESTS)
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module without pytest settings of the user or of this run."""
    # With a shared database of examples, the second run would start with those of the first.
    environment = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "examples")}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_these_tests_use_the_same_examples_in_each_run(request: pytest.FixtureRequest) -> None:
    explores = request.config.getoption("--hypothesis-profile") == "explore"
    assert settings().derandomize is not explores


@pytest.mark.slow
def test_a_failure_is_shown_with_a_command_that_reproduces_it(folder: Path) -> None:
    result = run(folder, "tools.explore", "--seconds", "60", str(folder))
    assert result.returncode == 1, result.stdout
    (seed,) = re.findall(r"round 1: seed (\d+)", result.stdout)
    assert "round 2" not in result.stdout
    (command,) = re.findall(r"^.*-m pytest -n 0 .*$", result.stdout, re.M)
    assert f"--hypothesis-seed {seed}" in command
    assert command.endswith("test_numbers.py::test_property")
    # pytest names tests relative to its root, which is a temporary folder for these tests.
    *options, test = shlex.split(command)[2:]
    again = run(folder, *options, str(folder / Path(test).name))
    assert again.returncode == 1
    # Shrinking leads to the same number.
    assert f"AssertionError: {2**40}" in again.stdout


def test_examples_depend_on_the_seed_only(folder: Path) -> None:
    def drawn(seed: int) -> list[str]:
        options = ("--hypothesis-profile", "explore", "--hypothesis-seed", str(seed), "-n", "0")
        result = run(folder, "pytest", "-s", *options, f"{folder}/test_numbers.py::test_prints")
        return re.findall(r"drawn (\d+)", result.stdout)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_no_test_starts_when_the_time_is_over(folder: Path) -> None:
    result = run(folder, "tools.explore", "--seconds", "0", str(folder))
    assert result.returncode == 0
    assert "2 skipped" in result.stdout


@pytest.mark.parametrize(
    ("path", "message"), [("missing", "there is no file or folder"), ("", "no property tests")]
)
def test_usage_errors(tmp_path: Path, path: str, message: str) -> None:
    result = run(tmp_path, "tools.explore", str(tmp_path / path))
    assert result.returncode == 2
    assert message in result.stderr
