"""Tests of verification with the engine and a real GPU, whose compiler produces another kernel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

FILE = Path(__file__).parent.parent / "verifier" / "kernels_miscompiled.py"


def test_the_first_value_that_differs_on_the_gpu(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    files = ["--reference", f"{FILE}:reference", "--inputs", f"{FILE}:inputs"]
    options = ["--on", "gpu", "--cases", "3", "--all-sizes-seconds", "0", "--output", str(report)]
    command = [sys.executable, "-m", "ttools_entry", "verify", *files, *options, "--format", "json"]
    completed = subprocess.run([*command, f"{FILE}:candidate"], capture_output=True, text=True)
    assert completed.returncode == 1, completed.stderr
    (failure,) = json.loads(report.read_text("utf-8"))["failures"]
    assert re.search(
        r"the first value that differs is in launch 1 of the call \(`scaled_sum_kernel`\), program "
        r"0: `scaled` at \S+:36 \(`scaled = x \* 3.0`\), `arith.mulf`: \d+ of 16 elements",
        failure["detail"],
    ), failure["detail"]
    assert "Versions: triton" in failure["issue"]
