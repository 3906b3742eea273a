"""Makes the modules that these tests share importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported without packages; kernels from text are made as the differential tests do.
sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parent))
