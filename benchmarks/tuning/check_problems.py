"""Launches each problem's kernel at a small shape in the first and the last configuration.

    ttools sanitize benchmarks/tuning/check_problems.py [NAMES]

Needs no GPU under `ttools interpret` or `sanitize`. The outputs of both must be the same; those
that a launch adds to are zero before each.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from tuning_problem import TuningProblem
from tuning_problems import PROBLEMS


def outputs(problem: TuningProblem, config: Any) -> dict[str, Any]:
    """All tensors after a launch in a configuration."""
    assert problem.small is not None
    torch.manual_seed(0)
    arguments, grid = problem.inputs(**problem.small)
    values = config.all_kwargs()
    own = {name: value for name, value in values.items() if value is not None}
    problem.kernel[grid(own)](**arguments, **own)
    return {n: v for n, v in arguments.items() if isinstance(v, torch.Tensor)}


def check(problem: TuningProblem) -> bool:
    """Whether the first and the last configuration have the same outputs."""
    configs = problem.configs()
    first, last = outputs(problem, configs[0]), outputs(problem, configs[-1])
    differ = [
        name
        for name, value in first.items()
        if not torch.allclose(value.float(), last[name].float(), rtol=1e-2, atol=1e-2)
    ]
    told = f"differ in {', '.join(differ)}" if differ else "are the same"
    print(f"{problem.name}: {len(configs)} configurations; first and last {told}", flush=True)
    return not differ


def main() -> None:
    names = set(sys.argv[1:])
    chosen = [p for p in PROBLEMS if p.small is not None and (not names or p.name in names)]
    results = [check(each) for each in chosen]
    if not all(results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
