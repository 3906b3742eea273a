"""Import path of the shared modules, and the fixture `cpu_is_default`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

# With `--import-mode=importlib`, pytest does not add this folder to the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def cpu_is_default() -> None:
    """Skip the test if the driver of a GPU is Triton's default, which then runs plain launches."""
    # Triton must be imported before the driver, which it imports itself.
    importlib.import_module("triton")
    from ttools.interpreter.backend.driver import CPUDriver

    if not CPUDriver.is_active():
        pytest.skip("the driver of a GPU is active")
