"""Measures what a warm launch of a tiny kernel costs, with and without checks.

The cost is relative to Triton's own launch path: the same call, with a launcher that does nothing,
is measured alternately in the same process. Run as a program, this file is that process.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sides import CHECKED, HERE, cache_variables, environment

_LAUNCHES = 500


def _seconds(call: Callable[[], Any]) -> float:
    """Return the median time of several hundred calls in seconds."""
    times = []
    for _ in range(_LAUNCHES):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def child(repeat: int) -> None:
    """Print the times of all launches as JSON."""
    import kernels
    import torch

    from ttools.sanitizer import sanitize

    x, out = torch.ones(16), torch.zeros(16)
    grid = (1,)

    def launch() -> Any:
        return kernels.tiny_kernel[grid](x, out, 16, BLOCK=16)

    compiled = launch()
    assert torch.equal(out, x + 1)
    ours = compiled.run  # makes Triton create the launcher

    def nothing(*arguments: Any) -> None:
        pass

    gc.disable()
    checked = {side: sanitize(checks=checks) for side, checks in CHECKED.items()}
    for sanitization in checked.values():
        with sanitization:
            launch()
    names = ("launch", "triton", *checked)
    samples: dict[str, list[float]] = {f"{name}_s": [] for name in names}
    for _ in range(repeat):
        compiled._run = ours
        samples["launch_s"].append(_seconds(launch))
        for side, sanitization in checked.items():
            with sanitization:
                samples[f"{side}_s"].append(_seconds(launch))
        compiled._run = nothing
        samples["triton_s"].append(_seconds(launch))
    print(json.dumps(samples))


def measure_launch(repeat: int, caches: Path) -> dict[str, Any]:
    """Return median seconds of a launch, of Triton's part, of the difference, and with checks."""
    done = subprocess.run(
        [sys.executable, str(HERE / "launch_overhead.py"), str(repeat)],
        env=environment(cache_variables(caches)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    samples = json.loads(done.stdout)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    overhead = medians["launch_s"] - medians["triton_s"]
    return {**medians, "overhead_s": overhead, "samples": samples}


if __name__ == "__main__":
    child(int(sys.argv[1]))
