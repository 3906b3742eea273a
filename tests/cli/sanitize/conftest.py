"""A shared folder for the tests of a module, and a script with a defect in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.sanitize.buggy_script import BUGGY


@pytest.fixture
def tmp_path(same_folder: Path) -> Path:
    """Return one folder for all tests of a module, so that shared kernels are compiled once."""
    return same_folder


@pytest.fixture
def buggy(tmp_path: Path) -> str:
    (tmp_path / "buggy.py").write_text(BUGGY)
    return "buggy.py"
