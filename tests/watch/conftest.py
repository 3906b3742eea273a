"""Makes the kernels that these tests share importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported without packages.
sys.path.insert(0, str(Path(__file__).parent))
