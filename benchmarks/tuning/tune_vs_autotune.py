"""Compares the tuner with exhaustive `triton.autotune` on a GPU: wall time, and what wins.

    python benchmarks/tuning/tune_vs_autotune.py --samples benchmarks/spaces/h200.json --output FILE
        [--only gelu,softmax] [--autotune gelu] [--seeds 3] [--seconds 165]
        [--repeats 10 --repeated matmul_fp16,gelu --ways workers,process,lock]

Per kernel: a cold guided tuning of a quarter of the space for each of three shapes, the start of
worker processes included; a cold exhaustive `triton.autotune` for the first one. Both winners and
the best configuration of the samples (of `record_spaces.py`) are timed in turns. Cold means that
nothing was compiled before; the disk caches of both are new. What both import and run was read from
disk before, by a tuning that is not counted. `--seeds` repeats the cold tuning of the first shape
with other seeds. `--repeats` tunes the second shape of some kernels so often anew, by the default
budget: with worker processes, in this process, and with the lock file of the last; how often does
the same win?
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from tuning_problem import TuningProblem
from tuning_problems import PROBLEMS
from tuning_samples import read_samples

from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.gpu_bench import GpuBench
from ttools.tuner.measure.gpu_launch import gpu_launch
from ttools.tuner.space.candidate import candidates, config_key
from ttools.tuner.store.problem import gpu_device

SHARE = 4
#: How repeated tunings are made: how many worker processes, whether by the lock file.
WAYS: Mapping[str, tuple[int | None, bool]] = {
    "workers": (None, False),
    "process": (0, False),
    "lock": (0, True),
}


def autotuned(problem: TuningProblem) -> Any:
    """The kernel as no process has compiled it."""
    return problem.autotuned(triton.jit(problem.kernel.fn))


def timed(work: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def values_of(config: Any) -> dict[str, Any]:
    return {name: v for name, v in config.all_kwargs().items() if v is not None}


def warm_up() -> None:
    """Tunes a few configurations in both ways, so that all that they read from disk was read."""
    softmax = next(each for each in PROBLEMS if each.name == "softmax")
    small = replace(softmax, space={"BLOCK": (256, 512), "ROWS": (1,), "num_warps": (4, 8)})
    inputs = small.inputs(**small.shapes[-1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        guided(small, [inputs])
        exhaustive(small, *inputs)


def guided(problem: TuningProblem, inputs: Sequence[Any], seed: int = 0) -> list[dict[str, Any]]:
    """Seconds, winner and number of trials for each shape, in one run, as a program has.

    The first one waits for the start of its processes.
    """
    tuner = autotuned(problem)
    options = TuneOptions(trials=max(1, len(problem.configs()) // SHARE), seed=seed)
    found = []
    start = time.perf_counter()
    with TuningRun(options, on="gpu") as run:
        for arguments, grid in inputs:
            tuner[grid](**arguments)
            torch.cuda.synchronize()
            now = time.perf_counter()
            result = run.results[-1]
            for note in result.notes:
                print("   note:", note)
            assert result.winner is not None
            winner = dict(result.winner.values)
            found.append({"seconds": now - start, "winner": winner, "tried": len(result.trials)})
            start = now
    return found


def exhaustive(problem: TuningProblem, arguments: dict[str, Any], grid: Any) -> dict[str, Any]:
    """Seconds and winner of `triton.autotune`."""
    tuner = autotuned(problem)
    seconds = timed(lambda: tuner[grid](**arguments))
    return {"seconds": seconds, "winner": values_of(tuner.best_config)}


def in_turns(
    problem: TuningProblem, arguments: dict[str, Any], grid: Any, keys: set[str]
) -> dict[str, float]:
    """The median of each of some configurations, in seconds."""
    launch = gpu_launch(autotuned(problem), (), {**arguments, "grid": grid, "warmup": False})
    wanted = [each for each in candidates(launch.configs) if each.key in keys]
    turns = GpuBench(launch, Checks()).final(wanted)
    return {key: statistics.median(samples) for key, samples in turns.items()}


def compare(
    problem: TuningProblem, best: Mapping[tuple[int, ...], str], autotunes: bool, seeds: int
) -> list[dict[str, Any]]:
    """A row per shape; the first has the seconds and winners of all seeds."""
    inputs = [problem.inputs(**shape) for shape in problem.shapes]
    rows = []
    others = [cold(problem, inputs[0], seed) for seed in range(1, seeds)]
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        os.environ["TRITON_CACHE_DIR"] = ours
        own = guided(problem, inputs)
        for shape, (arguments, grid), tuner in zip(problem.shapes, inputs, own, strict=True):
            autotune = None
            if autotunes and shape is problem.shapes[0]:
                os.environ["TRITON_CACHE_DIR"] = theirs
                autotune = exhaustive(problem, arguments, grid)
                os.environ["TRITON_CACHE_DIR"] = ours
            winners = {"tuner": tuner["winner"], "best": json.loads(best[tuple(shape.values())])}
            winners |= {"autotune": autotune["winner"]} if autotune else {}
            seeded = others if shape is problem.shapes[0] else []
            winners |= {f"seed {n}": each["winner"] for n, each in enumerate(seeded, start=1)}
            keys = {name: config_key(values) for name, values in winners.items()}
            medians = in_turns(problem, arguments, grid, set(keys.values()))
            row = {
                "kernel": problem.name,
                "shape": dict(shape),
                "space": len(problem.configs()),
                "tried": tuner["tried"],
                "seconds": {"tuner": tuner["seconds"]}
                | {f"seed {n}": each["seconds"] for n, each in enumerate(seeded, start=1)}
                | ({"autotune": autotune["seconds"]} if autotune else {}),
                "winners": winners,
                "medians": {name: medians[key] for name, key in keys.items()},
            }
            least = min(medians.values())
            told = ", ".join(f"{n} +{medians[k] / least - 1:.1%}" for n, k in keys.items())
            taken = ", ".join(f"{n} {s:.1f} s" for n, s in row["seconds"].items())
            print(f"{problem.name} {tuple(shape.values())}: {taken}; {told}", flush=True)
            rows.append(row)
    return rows


def cold(problem: TuningProblem, inputs: Any, seed: int) -> dict[str, Any]:
    """A tuning of one shape with a disk cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        return guided(problem, [inputs], seed)[0]


def repeat(
    problem: TuningProblem, shape: Mapping[str, int], times: int, ways: Sequence[str]
) -> dict[str, Any]:
    """How often each configuration wins, tuned anew each time and with a lock file.

    In this process the search does not know what compilation tells. The medians of the finalists
    are told too, those of the last comparison.
    """
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    lock = Path(tempfile.mkdtemp()) / "lock.json"
    counts: dict[str, Any] = {}
    medians: dict[str, Any] = {}
    for name in ways:
        workers, locked = WAYS[name]
        found: Counter[str] = Counter()
        for _ in range(times):
            tuner = autotuned(problem)
            arguments, grid = problem.inputs(**shape)  # memory of its own, as another program has
            with TuningRun(TuneOptions(workers=workers), on="gpu", lock=lock, locked=locked) as run:
                tuner[grid](**arguments)
            found[config_key(values_of(tuner.best_config))] += 1
            medians.setdefault(name, []).extend(
                {key: statistics.median(samples) for key, samples in result.final.items()}
                for result in run.results
            )
        counts[name] = found.most_common()
    print(problem.name, tuple(shape.values()), counts, flush=True)
    return {"kernel": problem.name, "shape": dict(shape), **counts, "finals": medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--autotune", default="", help="the same, of those that it tunes too")
    parser.add_argument("--seeds", type=int, default=1, help="cold tunings of the first shape")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no kernel after so long")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--repeated", default="matmul_fp16", help="names of these problems")
    parser.add_argument("--ways", default=",".join(WAYS), help="of these repeats")
    options = parser.parse_args()
    began = time.monotonic()
    names = set(filter(None, options.only.split(",")))
    autotunes = set(filter(None, options.autotune.split(",")))
    best: dict[str, dict[tuple[int, ...], str]] = {}
    for each in read_samples(options.samples):
        costs = {key: cost for key, cost in each.costs.items() if cost is not None}
        sizes = tuple(each.shape.values())
        best.setdefault(each.kernel, {})[sizes] = min(costs, key=lambda key: costs[key])
    data: dict[str, Any] = {"device": gpu_device(), "rows": [], "repeats": []}
    warm_up()
    for problem in PROBLEMS:
        if names and problem.name not in names:
            continue
        if time.monotonic() - began > options.seconds:
            print("out of time at", problem.name)
            break
        data["rows"] += compare(
            problem, best[problem.name], problem.name in autotunes, options.seeds
        )
        options.output.write_text(json.dumps(data) + "\n")
    repeated = set(options.repeated.split(",")) if options.repeats else set()
    for problem in PROBLEMS:
        if problem.name in repeated and time.monotonic() - began < options.seconds:
            ways = options.ways.split(",")
            data["repeats"].append(repeat(problem, problem.shapes[1], options.repeats, ways))
            options.output.write_text(json.dumps(data) + "\n")


if __name__ == "__main__":
    main()
