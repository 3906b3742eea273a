"""A program as users have them: an autotuned kernel of the problems, launched for one shape.

    python benchmarks/tuning/one_launch.py NAME SHAPE OUTPUT
    ttools tune benchmarks/tuning/one_launch.py NAME SHAPE OUTPUT

`SHAPE` is its number. The winner's values are written to a file as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tuning_problems import PROBLEMS


def main() -> None:
    name, number, output = sys.argv[1:]
    problem = next(each for each in PROBLEMS if each.name == name)
    arguments, grid = problem.inputs(**problem.shapes[int(number)])
    tuner = problem.autotuned()
    tuner[grid](**arguments)
    torch.cuda.synchronize()
    values = {n: v for n, v in tuner.best_config.all_kwargs().items() if v is not None}
    Path(output).write_text(json.dumps(values))


if __name__ == "__main__":
    main()
