"""A program whose kernel is launched in a configuration that is known: fixed, or remembered.

    python benchmarks/tuning/known_launch.py NAME SHAPE WAY FILE

`SHAPE` is a number or `small`. `WAY` is `fixed` (FILE has the values as JSON), `autotune`
(`triton.autotune`; the winner's values are written to FILE), `cached` (the same with the disk cache
that `cache_results` fills) or `tune` (`@tune` with FILE as its store).
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import triton
from tuning_problem import TuningProblem
from tuning_problems import PROBLEMS


def kernel_of(problem: TuningProblem, way: str, file: Path) -> Any:
    """The kernel, decorated."""
    zeroed = list(problem.sums_into) or None
    if way == "fixed":
        return problem.kernel
    if way == "tune":
        from ttools.tuner import tune

        decorator = tune(problem.configs(), list(problem.key), reset_to_zero=zeroed, store=file)
    else:
        decorator = triton.autotune(
            problem.configs(),
            list(problem.key),
            reset_to_zero=zeroed,
            cache_results=way == "cached",
        )
    return decorator(problem.kernel)


def launch(problem: TuningProblem, shape: str, way: str, file: Path) -> None:
    """Makes the launch, and writes down which configuration won where that is asked for."""
    sizes = problem.small if shape == "small" else problem.shapes[int(shape)]
    assert sizes is not None
    arguments, grid = problem.inputs(**sizes)
    kernel = kernel_of(problem, way, file)
    values = json.loads(file.read_text()) if way == "fixed" else {}
    kernel[grid](**arguments, **values)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    if way == "autotune":
        values = {n: v for n, v in kernel.best_config.all_kwargs().items() if v is not None}
        file.write_text(json.dumps(values))


def main() -> None:
    name, shape, way, file = sys.argv[1:]
    problem = next(each for each in PROBLEMS if each.name == name)
    on_cpu = way == "tune" and not torch.cuda.is_available()
    if on_cpu:
        from ttools.interpreter import device_map
    with device_map("cuda=cpu") if on_cpu else nullcontext():
        launch(problem, shape, way, Path(file))


if __name__ == "__main__":
    main()
