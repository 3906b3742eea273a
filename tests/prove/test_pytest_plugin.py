"""The pytest plugin with the marker `ttools_sizes` is installed and imports nothing by default."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points


def test_is_installed_and_imports_no_engine() -> None:
    assert any(point.name == "ttools-prove" for point in entry_points(group="pytest11"))
    code = "import sys, ttools.prove.pytest_plugin as p; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "pytest" in loaded
    assert not {"torch", "triton", "numpy", "ttools.prove.api", "ttools.core.errors"} & loaded
