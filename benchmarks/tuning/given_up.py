"""What the tuner gives up for its compilation: could any of it have won? Needs no GPU.

    python benchmarks/tuning/given_up.py --samples benchmarks/spaces/h100.json --times FILE
        [--only gelu,adam] [--arch 90]

Compiles all configurations of the recorded kernels for an architecture of NVIDIA's, one after the
other, and adds the processor time of each to a file, a line each; what the file has is not compiled
again. Then deals them out to processes as the tuner does, and says how much slower the best one
is of those that its rule gives up than the best of all, for each recorded shape.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import resource
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from tuning_problem import TuningProblem
from tuning_problems import PROBLEMS
from tuning_samples import Recorded, read_samples

from ttools.tuner.measure.gpu_launch import gpu_launch
from ttools.tuner.space.candidate import Candidate, candidates
from ttools.tuner.workers.fake_tensor import ElementType, FakeStorage, FakeTensor
from ttools.tuner.workers.remote_bench import _LEAST_WAITING_S, waited_until
from ttools.tuner.workers.target_driver import compile_for_target


class _WithoutMemory(TorchFunctionMode):
    """Tensors that are made on a GPU have no memory."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if str(named.get("device", "")).startswith("cuda"):
            named["device"] = "meta"
        return func(*args, **named)


def _fake(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return FakeTensor(
        storage=FakeStorage(value.untyped_storage().nbytes()),
        dtype=ElementType(str(value.dtype).removeprefix("torch."), value.element_size()),
        shape=tuple(value.shape),
        strides=tuple(value.stride()),
        offset=int(value.storage_offset()),
    )


def _processor_seconds() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, whose))


def add_times(problem: TuningProblem, file: Path) -> None:
    """Adds how long each configuration compiles for the first shape."""
    with _WithoutMemory():
        arguments, grid = problem.inputs(**problem.shapes[0])
    fakes = {name: _fake(value) for name, value in arguments.items()}
    launch = gpu_launch(problem.autotuned(), (), {**fakes, "grid": grid, "warmup": False})
    with tempfile.TemporaryDirectory() as folder, file.open("a") as lines:
        os.environ["TRITON_CACHE_DIR"] = folder
        for each in candidates(launch.configs):
            began = _processor_seconds()
            try:
                launch.compiled(each.config)
            except Exception as error:  # noqa: BLE001 - cannot win, whatever it is
                print(problem.name, each, type(error).__name__)
                continue
            row = {"kernel": problem.name, "key": each.key, "s": _processor_seconds() - began}
            lines.write(json.dumps(row) + "\n")


def given_up(
    space: Sequence[Candidate], seconds: Mapping[str, float], processes: int, least: float
) -> set[str]:
    """Keys of what is not compiled when the tuner ends its wait.

    Args:
        space: compiled in the tuner's order: the first, then what has most to do for each warp.
        seconds: of each configuration that compiles.
        processes: that compile.
        least: seconds that are waited for in any case.
    """
    order = [space[0], *sorted(space[1:], key=lambda each: -each.work)]
    free = [0.0] * processes
    ended: dict[str, float] = {}
    for each in order:
        ended[each.key] = heapq.heappop(free) + seconds.get(each.key, 0.0)
        heapq.heappush(free, ended[each.key])
    until = max(waited_until(ended.values(), len(ended)), least)
    return {key for key, end in ended.items() if end > until}


def judge(rows: Sequence[Recorded], times: Mapping[str, Mapping[str, float]]) -> None:
    """Says what is given up, and how near the best of it comes."""
    for processes in (8, 16):
        for slower in (1.0, 2.0):
            gone: dict[str, set[str]] = {}
            nearest: list[tuple[float, str]] = []
            for row in rows:
                own = {key: slower * each for key, each in times[row.kernel].items()}
                if not own or len(row.space) > 8 * processes:
                    continue  # not all of it is timed
                out = given_up(row.space, own, processes, _LEAST_WAITING_S)
                gone[row.kernel] = out
                costs = [cost for key, cost in row.costs.items() if key in out and cost is not None]
                nearest += [(cost / row.best, str(row)) for cost in costs]
            worst = "" if not nearest else ", the best {:.2f} of the least time ({})"
            told = worst.format(*min(nearest)) if nearest else ""
            count = sum(map(len, gone.values()))
            print(f"{processes} processes, {slower:g} times the time: {count} given up{told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--times", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--arch", type=int, default=90)
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    rows = [row for row in read_samples(options.samples) if not names or row.kernel in names]
    compile_for_target(GPUTarget("cuda", options.arch, 32))
    times: dict[str, dict[str, float]] = defaultdict(dict)
    for again in (True, False):
        times.clear()
        for line in options.times.read_text().splitlines() if options.times.exists() else []:
            known = json.loads(line)
            times[known["kernel"]][known["key"]] = known["s"]
        missing = {row.kernel for row in rows} - {*times} if again else set()
        for problem in PROBLEMS:
            if problem.name in missing:
                add_times(problem, options.times)
    for kernel in sorted({row.kernel for row in rows}):
        every = sorted(times[kernel].values())
        if every:
            typical = statistics.median(every)
            print(f"{kernel}: {typical:.2f} s in the median, {every[-1]:.2f} at most")
    judge(rows, times)


if __name__ == "__main__":
    main()
