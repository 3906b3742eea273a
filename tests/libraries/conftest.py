"""Fixtures of the tests that run other people's libraries, each skipped where it is absent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without packages; the modules they share lie beside them.
sys.path.insert(0, str(Path(__file__).parent))
# And the tools that some of them test, in the repository's root.
sys.path.append(str(Path(__file__).parents[2]))


@pytest.fixture
def native() -> Iterator[None]:
    """Run the test's kernels on the CPU, on GPU machines too."""
    from ttools.interpreter import interpret

    with interpret():
        yield
