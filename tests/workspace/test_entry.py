"""A foreign package `ttools` that hides the namespace is named in the error, with a remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_entry(first_on_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command with a folder before site-packages."""
    return subprocess.run(
        [sys.executable, "-m", "ttools_entry", *arguments],
        env={**os.environ, "PYTHONPATH": str(first_on_path)},
        cwd=first_on_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def make_foreign_package(folder: Path, distribution: str | None) -> Path:
    """Write a regular package `ttools` to a folder, with or without a distribution that owns it."""
    package = folder / "ttools" / "__init__.py"
    package.parent.mkdir()
    package.write_text("raise SystemExit('the foreign package was imported')\n")
    if distribution is not None:
        info = folder / f"{distribution.replace('-', '_')}-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1\n"
        )
        (info / "RECORD").write_text("ttools/__init__.py,,\n")
    return package


@pytest.mark.parametrize(
    ("distribution", "sentence"),
    [
        ("ttools", ("installed distribution `ttools`", "pip uninstall ttools`")),
        ("other-tools", ("installed distribution `other-tools`", "pip uninstall other-tools`")),
        (None, ("a file that no installed distribution owns", "rename it")),
    ],
)
def test_foreign_package_is_named(
    tmp_path: Path, distribution: str | None, sentence: tuple[str, ...]
) -> None:
    package = make_foreign_package(tmp_path, distribution)
    result = run_entry(tmp_path, "--help")
    assert result.returncode == 3
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for words in (str(package), *sentence):
        assert words in result.stderr


def test_module_file_shadows_too(tmp_path: Path) -> None:
    (tmp_path / "ttools.py").write_text("")
    result = run_entry(tmp_path)
    assert result.returncode == 3
    assert str(tmp_path / "ttools.py") in result.stderr


def test_sound_namespace_reaches_the_command(tmp_path: Path) -> None:
    result = run_entry(tmp_path, "--help")
    assert result.returncode == 0, result.stderr
    assert "interpret" in result.stdout
