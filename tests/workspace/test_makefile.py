"""The Makefile lists its targets, and its install command has all requirements."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.requirements import group, of_members

ROOT = Path(__file__).parents[2]
USE = {"help", "demo", "test", "bench", "docs", "clean"}
CHECKS = {"lint", "typecheck", "ci", "ci-full", "test-gpu"}

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def run_make(*arguments: str) -> str:
    """Run make in the repository and return its output."""
    result = subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def run_requirements(*groups: str) -> subprocess.CompletedProcess[str]:
    """Run the program that passes dependency groups to pip."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "requirements.py"), *groups],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@needs_make
@pytest.mark.parametrize("arguments", [(), ("help",)])
def test_help_lists_every_target_with_a_sentence(arguments: tuple[str, ...]) -> None:
    lines = dict(line.split(maxsplit=1) for line in run_make(*arguments).splitlines())
    assert set(lines) >= USE | CHECKS


@needs_make
def test_install_is_one_command_with_overridable_pins() -> None:
    script = run_make("--dry-run", "test", "VENV=.venv-none", "TORCH=torch==1.2", "TRITON=triton>3")
    assert script.count("pip install") == 1
    assert "'torch==1.2' 'triton>3'" in script
    for member in (ROOT / "packages").iterdir():
        assert f"-e packages/{member.name}" in script


def test_groups_expand_to_requirements() -> None:
    test, lint, dev = (run_requirements(group).stdout.split() for group in ("test", "lint", "dev"))
    assert any(requirement.startswith("pytest>=") for requirement in test)
    assert dev == test + lint


@pytest.mark.parametrize("groups", [(), ("nonsense",)])
def test_unknown_group_is_a_usage_error(groups: tuple[str, ...]) -> None:
    result = run_requirements(*groups)
    assert result.returncode == 2
    assert "groups: test, lint, docs, demo, dev" in result.stderr


def test_every_requirement_has_its_version_in_continuous_integration() -> None:
    lines = (ROOT / "tools" / "constraints.txt").read_text().splitlines()
    exact = {
        canonicalize_name(requirement_line.name): requirement_line
        for requirement_line in map(Requirement, lines)
    }
    assert {str(requirement.marker) for requirement in exact.values()} == {
        'python_version == "3.11"'
    }
    assert not {"torch", "triton"} & exact.keys(), "the variables of the Makefile name all groups"
    for needed in map(Requirement, [*of_members(), *group("dev"), *group("demo")]):
        name = canonicalize_name(needed.name)
        if name in ("torch", "triton") or name.startswith("ttools-"):
            continue
        (version,) = exact[name].specifier
        assert version.operator == "=="
        assert needed.specifier.contains(version.version), f"{needed} is not {version.version}"
