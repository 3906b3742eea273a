"""Import paths and fixtures for tests with third-party libraries, which skip without them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test folders are not packages, so that shared modules are imported as top-level modules.
sys.path.insert(0, str(Path(__file__).parent))
# The tools under test are in the root of the repository.
sys.path.append(str(Path(__file__).parents[2]))


@pytest.fixture
def native() -> Iterator[None]:
    """Run the kernels of a test on the CPU, even on machines with a GPU."""
    from ttools.interpreter import interpret

    with interpret():
        yield
