"""The search for compute-sanitizer, and errors if it is missing or cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ttools.core.errors import TtoolsError
from ttools.sanitizer.gpu import tool
from ttools.sanitizer.gpu.tool import find_tool

VARIABLE = "TTOOLS_COMPUTE_SANITIZER"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide every installed compute-sanitizer."""
    for name in (VARIABLE, "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setattr(tool, "_TOOLKIT", str(tmp_path / "toolkit"))


def program(path: Path, says: str = "Version 2025.3.1.0 (build 1)", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("place", "variable"),
    [
        ("path/compute-sanitizer", None),
        ("cuda/bin/compute-sanitizer", "CUDA_HOME"),
        ("cuda/compute-sanitizer/compute-sanitizer", "CUDA_PATH"),
        ("toolkit/bin/compute-sanitizer", None),
        ("site/nvidia/cu13/bin/compute-sanitizer", None),
    ],
)
def test_places(
    place: str, variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path / place)
    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path / "cuda"))
    tool = find_tool()
    assert (tool.path, tool.version) == (path, "2025.3.1.0")


def test_files_without_permission_to_execute_are_skipped(tmp_path: Path) -> None:
    program(tmp_path / "site/nvidia/cu12/bin/compute-sanitizer", mode=0o644)
    path = program(tmp_path / "site/nvidia/cu13/bin/compute-sanitizer")
    assert find_tool().path == path


def test_environment_variable_takes_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "path/compute-sanitizer")
    monkeypatch.setenv(VARIABLE, str(program(tmp_path / "mine/sanitizer", "Version 2023.3.0")))
    assert find_tool().version == "2023.3.0"


def test_no_tool_is_installed(tmp_path: Path) -> None:
    with pytest.raises(
        TtoolsError, match=r"was not found .* `nvidia-cuda-sanitizer-api`, or set TT"
    ):
        find_tool()


@pytest.mark.parametrize(
    ("says", "mode", "sentence"),
    [
        (
            "Version 2021.1.0 (build 1)",
            0o755,
            r"is compute-sanitizer 2021\.1\.0; ttools needs 2023\.3",
        ),
        ("Version 2023.2.9", 0o755, r"ttools needs 2023\.3 or later"),
        ("hello", 0o755, "did not print a version of compute-sanitizer, but: hello"),
        ("", 0o644, "cannot be run: Permission denied"),
    ],
)
def test_unusable_tools_are_refused(
    says: str, mode: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(program(tmp_path / "mine/sanitizer", says, mode)))
    with pytest.raises(TtoolsError, match=sentence):
        find_tool()


def test_environment_variable_names_a_missing_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/no/such/file")
    with pytest.raises(TtoolsError, match="is `/no/such/file`, but there is no such file"):
        find_tool()
