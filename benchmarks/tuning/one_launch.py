"""Launches an autotuned kernel of the tuning problems for one shape, as a user's program does.

    python benchmarks/tuning/one_launch.py NAME SHAPE OUTPUT
    ttools tune benchmarks/tuning/one_launch.py NAME SHAPE OUTPUT
    ttools sanitize benchmarks/tuning/one_launch.py NAME small OUTPUT

`SHAPE` is the index of a shape, or `small` for a shape that the CPU can launch. The values of the
winning configuration are written to OUTPUT as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tuning_problems import PROBLEMS


def main() -> None:
    name, number, output = sys.argv[1:]
    problem = next(candidate for candidate in PROBLEMS if candidate.name == name)
    shape = problem.small if number == "small" else problem.shapes[int(number)]
    arguments, grid = problem.inputs(**shape)
    tuner = problem.autotuned()
    tuner[grid](**arguments)
    torch.cuda.synchronize()
    values = {n: v for n, v in tuner.best_config.all_kwargs().items() if v is not None}
    Path(output).write_text(json.dumps(values))


if __name__ == "__main__":
    main()
