"""Makes the modules that these tests share importable; skips what needs to be the default."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

# Tests are imported without packages; the modules they share lie beside them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def cpu_is_default() -> None:
    """Skips where a GPU's driver is Triton's default: plain launches are not ours there."""
    # First: Triton imports the driver, which cannot be imported the other way round.
    importlib.import_module("triton")
    from ttools.interpreter.backend.driver import CPUDriver

    if not CPUDriver.is_active():
        pytest.skip("a GPU's driver is active")
