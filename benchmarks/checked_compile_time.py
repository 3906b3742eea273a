"""Measures how much longer kernels take to compile with checks than without.

Each side (no checks, memcheck, default checks) is a process that exists during the whole
measurement. The sides compile each kernel alternately, several times. Therefore other load on the
machine affects all sides equally, which it would not if the processes ran one after the other.
Before each compilation, the process deletes the caches on disk and the kernels that Triton holds in
memory. Run as a program, this file is such a process.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from compile_time import PHASES, Recorder
from sides import CHECKED, SideProcess

#: The sides, in the order in which they are measured.
_SIDES = ("ours", *CHECKED)


def measure_checked_compilation(workloads: Sequence[Any], repeat: int) -> list[dict[str, Any]]:
    """Return the compile times with and without checks.

    The checks also do work at each launch. Therefore the compile time is measured as the
    difference between a kernel's first and second launch, without the time in which its programs
    run.

    Args:
        workloads: Elements of `workloads.WORKLOADS`.
        repeat: Number of times that each side compiles each kernel.

    Returns:
        One record for each kernel, from the first workload that launches it: `workload`, `title`,
        `kernel`, the median seconds of `ours` and of each checked side, and each side's median
        `phases`.
    """
    results = []
    with tempfile.TemporaryDirectory() as caches:
        processes = [SideProcess(side, 1, Path(caches) / side, Path(__file__)) for side in _SIDES]
        try:
            for workload in workloads:
                new = [process.ask(launch=workload.name)["compiled"] for process in processes]
                if not any(any(launches) for launches in new):
                    continue
                rounds = [
                    [process.ask(compile=workload.name)["launches"] for process in processes]
                    for _ in range(repeat)
                ]
                named = {"workload": workload.name, "title": workload.title}
                results += [
                    {**named, **_medians([[side[n] for side in sides] for sides in rounds])}
                    for n, compiled in enumerate(zip(*new, strict=True))
                    if all(compiled)
                ]
        finally:
            for process in processes:
                process.close()
    return results


def _medians(rounds: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Return the medians of one launch over all rounds; a round has a record for each side."""
    medians: dict[str, Any] = {"kernel": rounds[0][0]["kernel"], "phases": {}}
    for side, records in zip(_SIDES, zip(*rounds, strict=True), strict=True):
        medians[side] = statistics.median(record["seconds"] for record in records)
        medians["phases"][side] = {
            phase: statistics.median(record["phases"].get(phase, 0.0) for record in records)
            for phase in PHASES
        }
    return medians


class _Compiling:
    """The process of one side."""

    def __init__(self) -> None:
        self._recorder = Recorder()
        self._recorder.install()
        self._workload = ""
        self._call: Any = None

    def launch(self, name: str) -> dict[str, Any]:
        """Run a workload; return, for each of its launches, whether the kernel was compiled."""
        from workloads.rows import WORKLOADS

        if name != self._workload:
            workload = next(w for w in WORKLOADS if w.name == name)
            self._workload, self._call = name, workload.triton_call(*workload.make_inputs("ours"))
            # Garbage collection of the objects so far would take as long as compiling a kernel.
            gc.collect()
            gc.freeze()
        return {"compiled": ["codegen" in record["phases"] for record in self._records()]}

    def compile(self) -> dict[str, Any]:
        """Run the workload with cold and then with warm caches; return the difference in time."""
        for function in self._recorder.launched:
            function.device_caches.clear()
            function.hash = None
        for entry in Path(os.environ["TRITON_CACHE_DIR"]).iterdir():
            shutil.rmtree(entry)
        for entry in Path(os.environ["TTOOLS_CACHE_DIR"], "objects").iterdir():
            entry.unlink()
        gc.collect()
        first, second = self._records(), self._records()
        missing = [record["kernel"] for record in first if "codegen" not in record["phases"]]
        if missing:
            raise RuntimeError(f"{self._workload}: {', '.join(missing)} was not compiled")
        return {
            "launches": [
                {
                    "kernel": cold["kernel"],
                    "phases": cold["phases"],
                    "seconds": cold["phases"]["total"] - warm["phases"]["total"],
                }
                for cold, warm in zip(first, second, strict=True)
            ]
        }

    def _records(self) -> list[dict[str, Any]]:
        self._recorder.records, self._recorder.launched = [], []
        self._call()
        return self._recorder.records


def _serve(side: str) -> None:
    """Answer the requests of `SideProcess`."""
    import kernels
    import torch

    from ttools.sanitizer import sanitize

    torch.set_num_threads(1)
    # Output of libraries must not appear between the answers, so it is sent to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.disable()
    compiling = _Compiling()
    with sanitize(checks=CHECKED[side]) if side in CHECKED else nullcontext():
        kernels.tiny_kernel[1,](torch.ones(16), torch.empty(16), 16, BLOCK=16)
        for line in sys.stdin:
            request = json.loads(line)
            launch = request.get("launch")
            answer = compiling.launch(launch) if launch else compiling.compile()
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    gc.unfreeze()  # otherwise nanobind reports leaked objects at exit


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", required=True)
    parser.add_argument("--threads", type=int)
    _serve(parser.parse_args().side)
