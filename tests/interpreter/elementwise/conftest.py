"""Import path of the shared modules, and a fixture that silences NumPy's warnings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# pytest imports tests without packages, so this folder is not on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _quiet_numpy() -> Iterator[None]:
    """Disable warnings, because many tests use overflow, NaN and division by zero."""
    with np.errstate(all="ignore"):
        yield
