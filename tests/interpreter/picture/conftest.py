"""Fixtures of the tests of pictures."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.core.conftest import dump_dom

__all__ = ["dump_dom"]

# Tests are imported without packages.
sys.path.insert(0, str(Path(__file__).parent))
