"""One side's process: checks results and times calls when the parent asks.

Owns how a call is timed. Reads requests from standard input and answers on standard output, a
line of JSON each; must not know the other sides nor what is made of the times.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from workload import Call, largest_error
from workloads import WORKLOADS

#: Calls are repeated until a sample has taken this long; the sample is the median call.
_SAMPLE_SECONDS = 0.03
_MOST_CALLS = 300


def sample(call: Call) -> tuple[float, float, int]:
    """Times calls for a while.

    Returns:
        Seconds of the median call; the share of the time in which this process had no CPU,
        counting one thread; the number of calls.
    """
    times: list[float] = []
    start, busy = time.perf_counter(), time.process_time()
    while not times or (sum(times) < _SAMPLE_SECONDS and len(times) < _MOST_CALLS):
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    elapsed = time.perf_counter() - start
    waited = max(0.0, 1.0 - (time.process_time() - busy) / elapsed)
    return statistics.median(times), waited, len(times)


class Bench:
    """The workload at hand of one side."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._call: Call | None = None
        self._factor = 1

    def prepare(self, name: str) -> dict[str, Any]:
        """Makes the inputs, calls once, and compares with torch in double precision."""
        workload = next(w for w in WORKLOADS if w.name == name)
        make = workload.torch_call if self._side == "torch" else workload.triton_call
        inputs = workload.make_inputs(self._side)
        expected = workload.expected(inputs)
        self._factor = workload.factor(self._side)
        self._call = make(*inputs)
        start = time.perf_counter()
        results = self._call()
        first = time.perf_counter() - start
        error = largest_error(results, expected)
        del results, expected
        gc.collect()
        return {
            "first_s": first * self._factor,
            "error": error,
            "right": error <= workload.tolerance,
            "factor": self._factor,
        }

    def measure(self) -> dict[str, Any]:
        """One sample of the prepared workload."""
        assert self._call is not None
        seconds, waited, calls = sample(self._call)
        return {"seconds": seconds * self._factor, "waited": waited, "calls": calls}


def _requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bench = Bench(arguments.side)
    # A collection in the middle of a call would be charged to it.
    gc.disable()
    for request in _requests():
        name = request.get("prepare")
        answer = bench.measure() if name is None else bench.prepare(name)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
