"""Tunes a product on one GPU, on two, and on a Ray cluster: seconds, and what becomes of a Ctrl-C.

    python benchmarks/tuning/several_gpus.py --output FILE [--ways one,two,resumed,ray]

Each way is `ttools tune --search exhaustive` in a new process with an empty store and an empty
cache of compiled kernels, of four shapes one after the other. The first shape waits for
compilation; how long the others take is what more GPUs make less. Beside it: how busy the driver
says each GPU was.
`resumed` is two GPUs, stopped by Ctrl-C after the second shape has begun, then run again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SHAPES = ((2048, 2048, 2048), (4096, 4096, 1024), (8192, 8192, 4096), (8192, 8192, 8192))
_PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import triton
from tuning_problems import PROBLEMS
problem = next(each for each in PROBLEMS if each.name == "matmul_fp16")
tuner = triton.autotune(problem.configs(), list(problem.key))(problem.kernel)
for m, n, k in {_SHAPES!r}:
    arguments, grid = problem.inputs(m=m, n=n, k=k)
    tuner[grid](**arguments)
"""
_WAYS = {
    "one": ["--gpus", "0"],
    "two": ["--gpus", "0,1"],
    "resumed": ["--gpus", "0,1"],
    "ray": ["--ray", "local@2"],
}
#: Of the announcement of each problem.
_BEGUN = "configurations, search"


class Busy:
    """How busy each GPU was, from the driver's tool, twice a second."""

    def __enter__(self) -> Busy:
        self.shares: dict[str, float] = {}
        query = ["--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits"]
        self._process = subprocess.Popen(
            ["nvidia-smi", *query, "-lms", "500"], stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        text, _ = self._process.communicate()
        rows = [line.split(", ") for line in text.splitlines() if line.count(",") == 1]
        for number in sorted({number for number, _ in rows}):
            own = [float(share) / 100 for n, share in rows if n == number]
            self.shares[number] = statistics.fmean(own)


def run(way: Sequence[str], store: Path, cache: Path, stop_at: int | None = None) -> dict[str, Any]:
    """One process: seconds of each shape, and of the whole, and what its report says.

    Args:
        way: options.
        store: that it writes.
        cache: of compiled kernels.
        stop_at: a second after so many problems have begun it gets a Ctrl-C.
    """
    report = store.with_suffix(".json")
    command = [sys.executable, "-m", "ttools_entry", "tune", "--search", "exhaustive", *way]
    command += ["--store", str(store), "--format", "json", "--output", str(report), "-c", _PROGRAM]
    begun = time.monotonic()
    marks, told = [], []
    with Busy() as busy:
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRITON_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"},
        )
        assert process.stderr is not None
        for line in process.stderr:
            told.append(line.rstrip())
            if _BEGUN in line:
                marks.append(time.monotonic())
                if stop_at is not None and len(marks) == stop_at:
                    time.sleep(1)
                    process.send_signal(signal.SIGINT)
        status = process.wait()
    ends = [*marks[1:], time.monotonic()]
    found: dict[str, Any] = {
        "options": list(way),
        "status": status,
        "seconds": round(ends[-1] - begun, 2),
        "each": [round(end - start, 2) for start, end in zip(marks, ends, strict=True)],
        "busy": busy.shares,
        "told": told[-6:],
    }
    if report.exists():
        data = json.loads(report.read_text())
        found["new"] = [each["new_trials"] for each in data["problems"]]
        found["trials"] = [len(each["trials"]) for each in data["problems"]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ways", default=",".join(_WAYS))
    options = parser.parse_args()
    rows = []
    for name in options.ways.split(","):
        folder = Path(tempfile.mkdtemp())
        store, cache = folder / "store.sqlite", folder / "cache"
        turns = [2, None] if name == "resumed" else [None]
        for stop_at in turns:
            row = {"way": name, **run(_WAYS[name], store, cache, stop_at)}
            rows.append(row)
            print(json.dumps(row), flush=True)
            options.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
