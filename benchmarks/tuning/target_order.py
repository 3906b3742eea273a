"""How `ttools tune --target` orders configurations, beside times that were recorded on a GPU.

    python benchmarks/tuning/target_order.py benchmarks/spaces/h200.json [--only softmax]
        [--every 4]

Each problem's configurations for one shape are projected as the tuner does, without a GPU. Printed
are Spearman's rank correlation with the recorded medians, how much longer the configuration that
ranks first takes than the best one, and the same of the best of the first four. Nothing of the
model was fitted to these kernels.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from scipy.stats import spearmanr
from tuning_problem import TuningProblem
from tuning_problems import PROBLEMS
from tuning_samples import Recorded, read_samples

from ttools.core.errors import TtoolsError
from ttools.core.gpus.devices import device_called
from ttools.interpreter import device_map
from ttools.profiler import profile
from ttools.profiler.gpu_time.projection import project
from ttools.profiler.report.access_frame import qualities

#: Shapes that a CPU runs in about a second.
SHAPES: Mapping[str, Mapping[str, int]] = {
    "gelu": {"n": 1 << 22},
    "softmax": {"rows": 512, "columns": 8192},
    "layer_norm": {"rows": 512, "columns": 8192},
    "matmul_fp16": {"m": 512, "n": 4096, "k": 2048},
    "matmul_fp8": {"m": 512, "n": 4096, "k": 2048},
    "attention": {"heads": 64, "length": 1024, "head": 64},
}


def projected(
    problem: TuningProblem, row: Recorded, device: Any, every: int
) -> Iterator[tuple[float, float]]:
    """Recorded and projected seconds of the configurations that ran, or of one in so many."""
    arguments, grid = problem.inputs(**row.shape)
    for candidate in row.space[::every]:
        median = row.medians[candidate.key]
        if median is None:
            continue
        tuned = triton.autotune([candidate.config], list(problem.key))(problem.kernel)
        try:
            with profile(on="cpu", device=device, line_times=False) as prof:
                tuned.fn[grid](**arguments, **candidate.values)
            ((form, inspection, accesses),) = qualities(prof.samples, prof.inspections)
        except (TtoolsError, ValueError) as error:
            print(f"   {candidate.key}: {error}", flush=True)
            continue
        counts = form.sample.counts
        assert counts is not None
        yield median / 1e9, project(counts, inspection, device, accesses, cold=True).seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="one configuration in so many")
    options = parser.parse_args()
    device = device_called(json.loads(options.path.read_text())["device"].split(":")[1])
    assert device is not None
    rows = {(row.kernel, tuple(row.shape.values())): row for row in read_samples(options.path)}
    names = set(filter(None, options.only.split(","))) or set(SHAPES)
    correlations = []
    print(f"{device.name:40}{'rank':>8}{'first':>9}{'of four':>9}{'error':>8}")
    for problem in PROBLEMS:
        if problem.name not in names or problem.name not in SHAPES:
            continue
        torch.manual_seed(0)
        row = rows[problem.name, tuple(SHAPES[problem.name].values())]
        with device_map("cuda=cpu,capability=9.0"):
            pairs = list(projected(problem, row, device, options.every))
        if pairs:
            correlations.append(report(str(row), np.array(pairs)))
    print(f"{'mean':40}{statistics.fmean(correlations):8.3f}")


def report(name: str, pairs: Any) -> float:
    measured, guessed = pairs.T
    order = np.argsort(guessed, kind="stable")
    best = measured.min()
    rank = float(spearmanr(measured, guessed).statistic)
    first, four = measured[order[0]] / best - 1, measured[order[:4]].min() / best - 1
    error = float(np.exp(np.abs(np.log(guessed / measured)).mean()))
    print(f"{name:40}{rank:8.3f}{first:9.1%}{four:9.1%}{error:8.2f}", flush=True)
    return rank


if __name__ == "__main__":
    main()
