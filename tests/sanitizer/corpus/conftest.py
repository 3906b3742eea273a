"""Makes the files of cases importable, and shortens the wait for deadlocks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ttools.interpreter.runtime import blocked_programs

# Test folders are not packages, so that the files of cases are imported as top-level modules.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def short_deadlocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report deadlocks after 0.1 s; a second would double the running time of the corpus."""
    monkeypatch.setattr(blocked_programs, "_DEADLOCK_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def full_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all passes of LLVM, as for users."""
    monkeypatch.setenv("TTOOLS_OPT", "2")
