"""The files of cases lie beside the test that runs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ttools.interpreter.runtime import parking

# Tests are imported without packages.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second for each of many deadlocks would be half of the time that all cases take."""
    monkeypatch.setattr(parking, "_DEADLOCK_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def all_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks as users have them, with all of LLVM's passes."""
    monkeypatch.setenv("TTOOLS_OPT", "2")
