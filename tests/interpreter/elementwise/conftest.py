"""What these tests share: the modules beside them, and oracles without NumPy's warnings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# Tests are imported without packages; the modules they share lie beside them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _quiet_numpy() -> Iterator[None]:
    """Overflow, NaN and division by zero are what many tests are about."""
    with np.errstate(all="ignore"):
        yield
