"""Makes the modules that the tests of pictures share importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Test folders are not packages, so that shared modules are imported as top-level modules.
sys.path.insert(0, str(Path(__file__).parent))
