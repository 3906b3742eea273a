"""Makes the files of cases importable, and compiles them as for users."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Test folders are not packages, so that the files of cases are imported as top-level modules.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def full_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all passes of LLVM, as for users."""
    monkeypatch.setenv("TTOOLS_OPT", "2")
