"""What `ttools tune --format json` tells."""

from __future__ import annotations

import json
import subprocess


def problems(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout[done.stdout.index('{\n  "schema"') :])["problems"]
