"""Compares the tuner with exhaustive `triton.autotune` on a GPU, and records every sample.

    python benchmarks/tune_vs_autotune.py --output samples.json [--only gelu,softmax]

Per kernel and shape: a cold guided tuning of a quarter of the space (worker processes and their
start included), a cold exhaustive `triton.autotune`, both winners and the best of all timed in
turns, and the samples of all configurations, for `replay_tuning.py`. Cold means that nothing was
compiled before; the disk caches of both are new. Shapes after the first one of a kernel find what
was compiled for it, on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import triton
from tuning_problems import PROBLEMS, TuningProblem

from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.bench import Checks
from ttools.tuner.gpu_bench import GpuBench
from ttools.tuner.gpu_launch import gpu_launch
from ttools.tuner.problem import gpu_device
from ttools.tuner.trial import candidates, config_key

SHARE = 4
#: Samples that are published of each configuration.
KEPT = 15
SCHEMA = "ttools.tuning-samples/1"


def fresh_kernel(problem: TuningProblem) -> Any:
    """The kernel as no process has compiled it."""
    return triton.jit(problem.kernel.fn)


def autotuned(problem: TuningProblem) -> Any:
    return triton.autotune(problem.configs(), list(problem.key))(fresh_kernel(problem))


def timed(work: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def values_of(config: Any) -> dict[str, Any]:
    return {name: v for name, v in config.all_kwargs().items() if v is not None}


def guided(problem: TuningProblem, cache: str) -> list[Any]:
    """Seconds, winner and number of trials of guided tunings of a quarter of the space.

    One run for all shapes, as a program has; the first one waits for the start of its processes.
    """
    os.environ["TRITON_CACHE_DIR"] = cache
    tuner = autotuned(problem)
    options = TuneOptions(trials=len(problem.configs()) // SHARE)
    found = []
    with TuningRun(options, on="gpu") as run:
        for shape in problem.shapes:
            arguments, grid = problem.inputs(**shape)
            seconds = timed(lambda a=arguments, g=grid: tuner[g](**a))  # type: ignore[misc]
            result = run.session.results[-1]
            for note in result.notes:
                print("   note:", note)
            assert result.winner is not None
            found.append((seconds, dict(result.winner.values), len(result.trials)))
    return found


def exhaustive(problem: TuningProblem, arguments: dict[str, Any], grid: Any, cache: str) -> Any:
    """Seconds and winner of `triton.autotune`."""
    os.environ["TRITON_CACHE_DIR"] = cache
    tuner = autotuned(problem)
    seconds = timed(lambda: tuner[grid](**arguments))
    return seconds, values_of(tuner.best_config)


def all_samples(problem: TuningProblem, arguments: dict[str, Any], grid: Any) -> Any:
    """Each configuration's trial, by our bench; and the bench, to time in turns."""
    launch = gpu_launch(autotuned(problem), (), {**arguments, "grid": grid, "warmup": False})
    bench = GpuBench(launch, Checks())
    space = candidates(launch.configs)
    return space, [bench.attempt(each) for each in space], bench


def compare(
    problem: TuningProblem,
    shape: Mapping[str, int],
    tuned: tuple[float, Any, int],
    cache: str,
    autotunes: bool,
) -> Any:
    arguments, grid = problem.inputs(**shape)
    own_s, own, tried = tuned
    os.environ["TRITON_CACHE_DIR"] = cache
    theirs_s, theirs = exhaustive(problem, arguments, grid, cache) if autotunes else (None, None)
    space, trials, bench = all_samples(problem, arguments, grid)
    right = [trial for trial in trials if trial.cost is not None]
    best = min(right, key=lambda trial: trial.cost)
    winners = {"tuner": own, "autotune": theirs, "best": dict(best.values)}
    wanted = {config_key(values) for values in winners.values() if values}
    turns = bench.final([each for each in space if each.key in wanted])
    medians = {key: statistics.median(samples) for key, samples in turns.items()}
    row = {
        "kernel": problem.name,
        "shape": dict(shape),
        "space": len(space),
        "tried": tried,
        "seconds": {"tuner": own_s, "autotune": theirs_s},
        "winners": winners,
        "medians": {n: medians[config_key(v)] if v else None for n, v in winners.items()},
        "conditions": best.conditions,
        "trials": [
            {
                "config": dict(trial.values),
                "status": trial.status,
                "reason": trial.reason[:120],
                "samples_ns": [round(s * 1e9) for s in trial.samples[:KEPT]],
                "median_ns": None if trial.seconds is None else round(trial.seconds * 1e9),
            }
            for trial in trials
        ],
    }
    least = min(medians.values())
    told = ""
    if theirs is not None:
        told = f"autotune {theirs_s:.1f} s +{medians[config_key(theirs)] / least - 1:.1%}; "
    print(
        f"{problem.name} {tuple(shape.values())}: {len(space)} configs, {tried} tried; "
        f"tuner {own_s:.1f} s +{medians[config_key(own)] / least - 1:.1%}; "
        f"{told}best {least * 1e6:.1f} us; {sum(t.status != 'ok' for t in trials)} rejected",
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no shape after so long")
    parser.add_argument(
        "--first", action="store_true", help="run triton.autotune for the first shape only"
    )
    options = parser.parse_args()
    all_shapes = not options.first
    began = time.monotonic()
    rows: list[Any] = []
    names = set(filter(None, options.only.split(",")))
    for problem in PROBLEMS:
        if names and problem.name not in names:
            continue
        with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory() as theirs:
            for shape, tuned in zip(problem.shapes, guided(problem, own), strict=True):
                if time.monotonic() - began > options.seconds:
                    print("out of time at", problem.name, shape)
                    break
                rows.append(
                    compare(problem, shape, tuned, theirs, all_shapes or shape is problem.shapes[0])
                )
                data = {
                    "schema": SCHEMA,
                    "device": gpu_device(),
                    "versions": {"triton": triton.__version__, "torch": torch.__version__},
                    "rows": rows,
                }
                options.output.write_text(json.dumps(data) + "\n")


if __name__ == "__main__":
    main()
