"""The folder of the tests of pictures, for modules that they share."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported without packages.
sys.path.insert(0, str(Path(__file__).parent))
