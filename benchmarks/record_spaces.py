"""Times every configuration of the problems for all their shapes, for replays without a GPU.

    python benchmarks/record_spaces.py --output FILE [--only gelu,softmax] [--seconds 300]

Runs the exhaustive search, in worker processes as `ttools tune` does, so that what is compiled is
compiled in parallel. Resources are the driver's word of each binary.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
import triton
from tuning_problems import PROBLEMS, TuningProblem
from tuning_samples import SamplesFile

from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.problem import gpu_device
from ttools.tuner.trial import candidates


def record(problem: TuningProblem, file: SamplesFile, until: float) -> None:
    """Adds a row per shape."""
    tuner = triton.autotune(problem.configs(), list(problem.key))(problem.kernel)
    space = candidates(problem.configs())
    with TuningRun(TuneOptions(search="exhaustive"), on="gpu") as run:
        for shape in (*problem.shapes, *problem.more_shapes):
            if time.monotonic() > until:
                print("out of time at", problem.name, shape)
                return
            began = time.monotonic()
            arguments, grid = problem.inputs(**shape)
            tuner[grid](**arguments)
            result = run.session.results[-1]
            for note in result.notes:
                print("   note:", note)
            file.add(problem.name, shape, space, result.trials)
            rejected = sum(trial.status != "ok" for trial in result.trials.values())
            taken = time.monotonic() - began
            print(problem.name, shape, f"{taken:.1f} s, {rejected} rejected", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no shape after so long")
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    until = time.monotonic() + options.seconds
    versions = {"triton": triton.__version__, "torch": torch.__version__}
    file = SamplesFile(options.output, gpu_device(), versions)
    for problem in PROBLEMS:
        if not names or problem.name in names:
            record(problem, file, until)


if __name__ == "__main__":
    main()
