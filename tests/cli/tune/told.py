"""Reads the output of `ttools tune --format json`."""

from __future__ import annotations

import json
import subprocess


def problems(result: subprocess.CompletedProcess[str]) -> list[dict]:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout[result.stdout.index('{\n  "schema"') :])["problems"]
