"""Measures what the device map adds to torch's operators, and the cost of the map itself.

    python benchmarks/device_map_overhead.py [--repeat N]

Each operator runs on f32 tensors of 64 x 64 elements, on the CPU and on a mapped device
alternately, on one thread. A measurement is the time of the fastest of several batches; the result
is the median over all repetitions. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

_BATCHES, _CALLS = 20, 100
_FORMS: dict[str, Callable[[Any], Any]] = {
    "x + x": lambda x: x + x,
    "x + 1": lambda x: x + 1,
    "x.mul_(1)": lambda x: x.mul_(1),
    "x.view(-1)": lambda x: x.view(-1),
    "x @ x": lambda x: x @ x,
    "x.sum()": lambda x: x.sum(),
    "torch.empty_like(x)": torch.empty_like,
    "x.softmax(1)": lambda x: x.softmax(1),
}


def _microseconds(call: Callable[[Any], Any], x: Any) -> float:
    best = float("inf")
    for _ in range(_BATCHES):
        start = time.perf_counter()
        for _ in range(_CALLS):
            call(x)
        best = min(best, time.perf_counter() - start)
    return best / _CALLS * 1e6


def main() -> None:
    """Print the microseconds of each operator on both devices, and the milliseconds of the map."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    torch.set_num_threads(1)
    from ttools.core.device_map.mapping import map_devices

    start = time.process_time()
    with map_devices({"cuda": "cpu"}):
        entered = time.process_time()
        torch.empty(1, device="cuda")
        used = time.process_time()
        host = torch.rand(64, 64)
        device = host.cuda()
        times: dict[str, dict[str, list[float]]] = {
            form: {"cpu_us": [], "mapped_us": []} for form in _FORMS
        }
        for _ in range(repeat):
            for form, call in _FORMS.items():
                times[form]["cpu_us"].append(_microseconds(call, host))
                times[form]["mapped_us"].append(_microseconds(call, device))
    report: dict[str, Any] = {
        form: {side: round(statistics.median(values), 1) for side, values in sides.items()}
        for form, sides in times.items()
    }
    report["the map, ms of processor time"] = {
        "entered": round((entered - start) * 1e3),
        "first use": round((used - entered) * 1e3),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
