"""Makes the modules that these tests share importable."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported without packages; the modules they share lie beside them.
sys.path.insert(0, str(Path(__file__).parent))
