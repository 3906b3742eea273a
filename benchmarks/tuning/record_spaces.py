"""Measures every configuration of the tuning problems, for replays without a GPU.

    python benchmarks/tuning/record_spaces.py --output FILE [--onto FILE] [--only quantize,route]
        [--seconds 300] [--timeout 60]

`--onto` keeps the rows of a file and adds the shapes that it lacks. Each kernel gets an equal part
of the time that `--seconds` allows. The exhaustive search runs in worker processes, like `ttools
tune`, so that configurations are compiled in parallel. No time is recorded for configurations that
take longer than `--timeout`. The resources of each binary are those that the driver reports.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
import triton
from tuning_problem import TuningProblem
from tuning_problems import PROBLEMS
from tuning_samples import SamplesFile

from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.space.candidate import candidates
from ttools.tuner.store.problem import gpu_device


def record(problem: TuningProblem, file: SamplesFile, until: float, timeout: float) -> None:
    """Measure those shapes of a problem that the file lacks, and add a row for each."""
    tuner = problem.autotuned()
    space = candidates(problem.configs())
    with TuningRun(TuneOptions(search="exhaustive", timeout=timeout), on="gpu") as run:
        for shape in problem.shapes:
            if file.has(problem.name, shape):
                continue
            if time.monotonic() > until:
                print("out of time at", problem.name, shape)
                return
            began = time.monotonic()
            arguments, grid = problem.inputs(**shape)
            tuner[grid](**arguments)
            result = run.results[-1]
            for note in result.notes:
                print("   note:", note)
            programs = [math.prod(grid(config.values)) for config in space]
            file.add(problem.name, shape, space, result.trials, programs)
            rejected = sum(trial.status != "ok" for trial in result.trials.values())
            taken = time.monotonic() - began
            print(problem.name, shape, f"{taken:.1f} s, {rejected} rejected", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--onto", type=Path, help="file of the same device whose rows are kept")
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="start no new shape after this many seconds"
    )
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for a configuration")
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    end = time.monotonic() + options.seconds
    versions = {"triton": triton.__version__, "torch": torch.__version__}
    file = SamplesFile(options.output, gpu_device(), versions, options.onto)
    chosen = [problem for problem in PROBLEMS if not names or problem.name in names]
    for place, problem in enumerate(chosen):
        now = time.monotonic()
        until = now + (end - now) / (len(chosen) - place)
        record(problem, file, until, options.timeout)


if __name__ == "__main__":
    main()
