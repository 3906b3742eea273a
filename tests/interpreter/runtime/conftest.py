"""Import path of the modules that these tests share."""

from __future__ import annotations

import sys
from pathlib import Path

# With `--import-mode=importlib`, pytest does not add this folder to the path.
sys.path.insert(0, str(Path(__file__).parent))
