"""One folder for the tests of a module, and a script with a defect in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.sanitize.buggy_script import BUGGY


@pytest.fixture
def tmp_path(same_folder: Path) -> Path:
    """One folder for all tests, so that kernels which they share are compiled once."""
    return same_folder


@pytest.fixture
def buggy(tmp_path: Path) -> str:
    (tmp_path / "buggy.py").write_text(BUGGY)
    return "buggy.py"
