"""Worker process of one side of the comparison: checks results and measures calls on request.

The parent's requests are read from standard input and answers are written to standard output, each
as one line of JSON. `sides` describes the sides.

The slowdown caused by checks is the ratio of two samples from the same process, one with checks and
one without. Two processes may differ by more than the checks cost: in one process, malloc returns
the same memory for all calls; in another, it alternates between several blocks.
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
from contextlib import nullcontext
from typing import Any

import torch
from peak_memory import forget_peak_memory, peak_memory, release_free_memory
from sides import CHECKED
from workloads.rows import WORKLOADS
from workloads.workload import Call, largest_error

#: Calls are repeated until a sample has taken this many seconds; the sample is the median call.
_SAMPLE_SECONDS = 0.03
_MOST_CALLS = 300
#: A workload whose first call takes longer than this is not called again before the measurement.
_PATIENCE_SECONDS = 1.0
#: Maximum number of results that are kept alive, see `Bench._settle`.
_MOST_KEPT = 12


def sample(call: Call) -> tuple[float, float, int]:
    """Measure repeated calls.

    Returns:
        The median time of a call in seconds; the share of the elapsed time in which the process
        used no CPU, counting one thread; the number of calls.
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
    """Runs the workloads of one side, one at a time.

    Args:
        side: Name of the side, a key of `sides.SIDES`.
        sanitization: Context in which launches are checked; None for sides without checks.
    """

    def __init__(self, side: str, sanitization: Any = None) -> None:
        self._side = side
        self._sanitization = sanitization
        self._checking = nullcontext() if sanitization is None else sanitization
        self._checked_first = False
        self._call: Call | None = None
        self._factor = 1
        self._input_bytes = 0
        self._kept: list[tuple[torch.Tensor, ...]] = []
        if side not in ("torch", "viz"):
            with self._checking:
                _launch_first_kernel()

    def prepare(self, name: str) -> dict[str, Any]:
        """Make the inputs, call once, and compare the result with torch in double precision."""
        with self._checking:
            answer = self._prepare(name)
        if answer["first_s"] < _PATIENCE_SECONDS * self._factor:
            self._settle()
        return answer

    def _prepare(self, name: str) -> dict[str, Any]:
        workload = next(w for w in WORKLOADS if w.name == name)
        make = workload.torch_call if self._side == "torch" else workload.triton_call
        earlier = self._kinds()
        inputs = workload.make_inputs(self._side)
        self._input_bytes = sum(tensor.nbytes for tensor in inputs)
        expected = workload.expected(inputs)
        self._factor = workload.factor(self._side)
        self._call = make(*inputs)
        self._kept = []
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
            "findings": self._kinds()[len(earlier) :],
        }

    def _settle(self) -> None:
        """Make each call write its results to the memory of the previous call's results.

        Among free blocks of one size, malloc returns the one that was freed first. If there are
        several, calls cycle through more memory than the caches hold, which makes them slower than
        in a process that has one block. Therefore results are kept until only one block is free.
        """
        assert self._call is not None
        modes = [self._checking] if self._sanitization is None else [self._checking, nullcontext()]
        while len(self._kept) < _MOST_KEPT:
            places = set()
            for mode in modes:
                with mode:
                    places |= {_places(self._call()) for _ in range(4)}
            if len(places) == 1:
                return
            self._kept.append(self._call())

    def measure(self) -> dict[str, Any]:
        """Return a sample of the workload; for sides with checks, also a sample without checks."""
        if self._sanitization is None:
            return self._sample()
        # The first sample after a pause is slower, so it is discarded.
        self._sample()
        self._checked_first = not self._checked_first
        before = None if self._checked_first else self._sample()
        with self._sanitization:
            answer = self._sample()
        unchecked = before or self._sample()
        return {**answer, "unchecked": unchecked["seconds"]}

    def _sample(self) -> dict[str, Any]:
        assert self._call is not None
        seconds, waited, calls = sample(self._call)
        return {"seconds": seconds * self._factor, "waited": waited, "calls": calls}

    def measure_memory(self) -> dict[str, Any]:
        """Return the memory that a call of the workload needs, inputs included.

        Free memory is returned to the system first. Therefore later calls are slower.
        """
        assert self._call is not None
        gc.collect()
        release_free_memory()
        before = forget_peak_memory()
        with self._checking:
            self._call()
        return {"peak_bytes": self._input_bytes + max(0, peak_memory() - before)}

    def _kinds(self) -> list[str]:
        """Return all findings so far, of all workloads."""
        findings = [] if self._sanitization is None else self._sanitization.findings
        return [f"{finding.kind} ({finding.severity})" for finding in findings]


def _places(results: tuple[torch.Tensor, ...]) -> tuple[int, ...]:
    return tuple(tensor.untyped_storage().data_ptr() for tensor in results)


def _launch_first_kernel() -> None:
    """Launch a kernel, so that no workload's time includes the first launch's initialisation."""
    import kernels

    kernels.tiny_kernel[1,](torch.ones(16), torch.empty(16), 16, BLOCK=16)


class TracedBench:
    """Runs workloads under triton-viz, which may be missing and may fail."""

    def __init__(self) -> None:
        self._bench = Bench("viz")
        self._missing = ""
        try:
            _trace_kernels()
        except Exception as error:  # noqa: BLE001 - an error of triton-viz is reported as a note
            self._missing = f"cannot be used: {_first_line(error)}"

    def prepare(self, name: str) -> dict[str, Any]:
        """Prepare a workload like `Bench.prepare`; `note` says why nothing can be measured."""
        if self._missing:
            return {"note": self._missing}
        try:
            return {**self._bench.prepare(name), "error": 0.0, "right": True}
        except Exception as error:  # noqa: BLE001 - an error of triton-viz is reported as a note
            return {"note": f"fails: {_first_line(error)}"}

    def measure(self) -> dict[str, Any]:
        """Return a sample like `Bench.measure`."""
        return self._bench.measure()

    def measure_memory(self) -> dict[str, Any]:
        """Return the peak memory like `Bench.measure_memory`."""
        return self._bench.measure_memory()


def _trace_kernels() -> None:
    """Trace the kernels with triton-viz's sanitizer, which checks accesses and computes nothing."""
    import kernels
    import triton_viz  # type: ignore[import-not-found, unused-ignore]
    from workloads import wider_kernels

    for module in (kernels, wider_kernels):
        for name, value in list(vars(module).items()):
            if name.endswith("_kernel"):
                setattr(module, name, triton_viz.trace("sanitizer")(value))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:100]


def _requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    # Output of libraries must not appear between the answers, so it is sent to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # A garbage collection during a call would be included in its time.
    gc.disable()
    bench = (
        TracedBench()
        if arguments.side == "viz"
        else Bench(arguments.side, _sanitization(arguments.side))
    )
    for request in _requests():
        answer = _answer(bench, **request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(bench: Bench | TracedBench, prepare: str = "", memory: bool = False) -> dict[str, Any]:
    if prepare:
        return bench.prepare(prepare)
    return bench.measure_memory() if memory else bench.measure()


def _sanitization(side: str) -> Any:
    if side not in CHECKED:
        return None
    from ttools.sanitizer import sanitize

    return sanitize(checks=CHECKED[side])


if __name__ == "__main__":
    main()
