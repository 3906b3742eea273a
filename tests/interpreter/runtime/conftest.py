"""Import path of the modules that these tests share."""

from __future__ import annotations

import sys
from pathlib import Path

# pytest imports tests without packages, so this folder is not on the path.
sys.path.insert(0, str(Path(__file__).parent))
