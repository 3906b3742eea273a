"""Import path of the modules that these tests share, and of those of the differential tests."""

from __future__ import annotations

import sys
from pathlib import Path

# pytest imports tests without packages, so these folders are not on the path.
sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parent))
