"""How much longer kernels take to compile under the checks than without.

Each side is a process that stays, and all sides compile one kernel in turns, again and again: what
else the machine does meets all of them, as it would not in processes that run one after the other.
Run as a program it is such a process. A kernel is cold in it again when Triton has forgotten it and
what the caches hold is gone.
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

#: The sides, in the order of their turns.
_SIDES = ("ours", *CHECKED)


def measure_checked_compilation(workloads: Sequence[Any], repeat: int) -> list[dict[str, Any]]:
    """What compiling takes under the checks, and what it takes under none.

    The checks also plan, judge and tell at each launch, so what counts as compiling is by how
    much the first launch of a kernel takes longer than the second, less the time in which its
    programs run.

    Args:
        workloads: of `workloads.WORKLOADS`.
        repeat: how often each side compiles each kernel.

    Returns:
        For each kernel that a workload is the first to launch `workload`, `title`, `kernel`, the
        median seconds of `ours` and of each checked side, and each side's median `phases`.
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
    """One launch's record of the records that each round has of each side."""
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
        """Makes a workload's call; tells of each of its launches whether its kernel was new."""
        from workloads.rows import WORKLOADS

        if name != self._workload:
            workload = next(w for w in WORKLOADS if w.name == name)
            self._workload, self._call = name, workload.triton_call(*workload.make_inputs("ours"))
            # What has lived until now lives on: looking through it takes as long as compiling.
            gc.collect()
            gc.freeze()
        return {"compiled": ["codegen" in record["phases"] for record in self._records()]}

    def compile(self) -> dict[str, Any]:
        """Makes the call with cold kernels and once more; tells what the first one took longer."""
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
                    "kernel": one["kernel"],
                    "phases": one["phases"],
                    "seconds": one["phases"]["total"] - two["phases"]["total"],
                }
                for one, two in zip(first, second, strict=True)
            ]
        }

    def _records(self) -> list[dict[str, Any]]:
        self._recorder.records, self._recorder.launched = [], []
        self._call()
        return self._recorder.records


def _serve(side: str) -> None:
    """Answers the requests of `SideProcess`."""
    import kernels
    import torch

    from ttools.sanitizer import sanitize

    torch.set_num_threads(1)
    # What libraries print must not come between the answers.
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
    gc.unfreeze()  # else nanobind tells at the end what was not collected


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", required=True)
    parser.add_argument("--threads", type=int)
    _serve(parser.parse_args().side)
