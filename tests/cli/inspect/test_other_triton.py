"""`ttools inspect --triton`: environments with other versions of Triton, and the differences."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from ttools.cli.inspect.other_triton import comparison_lines, differences, find_environment
from ttools.core.errors import UsageError
from ttools.core.triton_versions.version import installed_triton


def environment(folder: Path, answer: str, version: str = "3.6.0") -> Path:
    """Make an environment whose interpreter prints an answer instead of running Python."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "python3.11" / "site-packages" / f"triton-{version}.dist-info").mkdir(
        parents=True
    )
    python = folder / "bin" / "python"
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    python.chmod(0o755)
    return python


def test_environments_are_found_by_folder_interpreter_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    python = environment(tmp_path / ".venv-old", '["3.6.0", true]')
    for word in (str(python), str(tmp_path / ".venv-old"), ".venv-old", "3.6.0"):
        found = find_environment(word)
        assert (found.python.resolve(), found.version) == (python.resolve(), "3.6.0")


@pytest.mark.parametrize(
    ("answer", "word", "message"),
    [
        ('["3.6.0", true]', "3.7.0", "no environment with Triton 3.7.0 is in this folder"),
        ('["3.6.0", false]', ".venv-old", "has Triton 3.6.0, but not ttools; install it there: "),
        ("[null, true]", ".venv-old", "Triton is not installed in"),
        ("nothing", ".venv-old", "cannot be run"),
        ("", "absent/", "there is no Python interpreter"),
    ],
)
def test_unsuitable_environments_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, word: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    environment(tmp_path / ".venv-old", answer)
    with pytest.raises(UsageError, match=message):
        find_environment(word)


def data_of(triton: str, **cell: Any) -> dict[str, Any]:
    figures = {"verdict": "fits", "reason": "", "registers": 64, "spilled": 0, "shared": 1024}
    config = {
        "number": 1,
        "values": {"BLOCK": 64},
        "gpus": {"sm_90": {**figures, "occupancy": 0.5, **cell}},
    }
    return {
        "triton": triton,
        "gpus": [{"gpu": "sm_90", "name": "h100 (sm_90)"}],
        "kernels": [{"kernel": "scale", "configs": [config]}],
    }


def test_differences_name_the_figures() -> None:
    base = data_of("3.9.0")
    assert differences(base, data_of("3.6.0")) == []
    assert comparison_lines(base, data_of("3.6.0"), 10) == ["Triton 3.9.0 -> 3.6.0: no differences"]
    worse = data_of("3.6.0", registers=168, spilled=1024, occupancy=0.25)
    heading, line = comparison_lines(base, worse, 10)
    assert heading == "Triton 3.9.0 -> 3.6.0: 1 difference"
    assert line == (
        "  scale, config 1 on h100 (sm_90): registers 64 -> 168, spilled bytes 0 -> 1,024, "
        "occupancy 50% -> 25%"
    )
    refused = data_of("3.6.0", verdict="does_not_fit", reason="needs 2 GiB")
    assert differences(base, refused) == [
        "scale, config 1 on h100 (sm_90): fits -> does not fit (needs 2 GiB)"
    ]
    assert comparison_lines(base, worse, 0)[1:] == ["  … 1 more; --format json or html shows all"]


@pytest.mark.slow
def test_the_same_environment_has_no_differences(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        "import triton, triton.language as tl\n\n\n"
        "@triton.jit\n"
        "def scale(x_ptr, BLOCK: tl.constexpr):\n"
        "    offsets = tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)\n"
    )
    result = ttools(
        *("inspect", "--all-configs", "--gpu", "sm_90", "--signature", "*fp32:16,64"),
        *("--triton", sys.executable, "k.py:scale"),
    )
    assert result.returncode == 0, result.stderr
    version = installed_triton()
    assert result.stdout.endswith(f"\nTriton {version} -> {version}: no differences\n")
