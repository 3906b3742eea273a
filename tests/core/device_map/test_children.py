"""Tests that child processes of a mapped process are mapped when they import torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).parents[3] / "packages/core/pyproject.toml"
SCRIPT = """\
import subprocess, sys
print(subprocess.check_output([sys.executable, "-c", sys.argv[1]], text=True), end="")
"""
CHILD = """\
import sys, torch
print(torch.cuda.is_available(), torch.ones(2, device="cuda").sum().item(), "triton" in sys.modules)
"""


def test_a_child_without_triton(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["project"]["entry-points"]
    # The entry points are written as an installation would have them, whichever one is present.
    package = tmp_path / "said-0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: said\nVersion: 0\n")
    (package / "entry_points.txt").write_text(
        "[torch.backends]\n"
        + "".join(f"{name} = {target}\n" for name, target in entries["torch.backends"].items())
    )
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "ttools.cli.app", "interpret", "--device-map", "cuda=cpu"]
    completed = subprocess.run(
        [*command, "script.py", CHILD],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert completed.stdout == "True 2.0 False\n"
