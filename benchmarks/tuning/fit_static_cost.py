"""Fits the weights of `ttools.tuner.cost.static_cost` to recorded tuning spaces.

    python benchmarks/tuning/fit_static_cost.py benchmarks/spaces/*.json

The fit is a ridge regression. The target is the logarithm of each configuration's slowdown, capped
at `MOST`; the predictors are the configuration's static figures and their squares. Both are centred
on the launch's mean. For each kernel, the script also prints the mean rank correlation of recorded
and predicted costs, with weights fitted without that kernel, and without its family.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from tuning_samples import Recorded, read_samples

from ttools.core.gpus.devices import DEVICES
from ttools.tuner.cost.static_cost import WEIGHTS, Weights, expected_costs, numbers_of

#: Multiprocessors of the H100 and the H200 that the spaces were recorded on.
PROCESSORS = DEVICES["h100"].multiprocessors
#: Maximum slowdown relative to the best configuration; larger ones are capped.
MOST = 4.0
#: Groups of similar kernels.
FAMILIES: Sequence[Collection[str]] = (
    {"matmul_fp16", "matmul_fp8", "grouped_matmul", "batched", "experts", "conv2d", "split_k"},
    {"rms_int8", "int4"},
    {"attention", "decode"},
    {"softmax", "layer_norm", "group_norm", "cross_entropy", "kl", "cumsum"},
    {"layer_norm_backward"},
    {"gelu", "adam", "swiglu_backward", "rope"},
    {"conv1d", "stencil"},
    {"histogram", "embedding_backward", "paged_gather"},
)
#: Number of a kernel's shapes that are used in the fit; kernels that are not listed use all shapes.
#: The further shapes were recorded for rules, and would outweigh the other kernels.
FITTED_SHAPES = {"grouped_matmul": 11}


def fitted(rows: Sequence[Recorded]) -> Weights:
    """Return the fitted weights of all figures and of their squares."""
    names = list(WEIGHTS)
    points, slowdowns = [], []
    shapes: Counter[str] = Counter()
    for row in rows:
        shapes[row.kernel] += 1
        if shapes[row.kernel] > FITTED_SHAPES.get(row.kernel, len(rows)):
            continue
        keys = [config.key for config in row.space if config.key in row.facts]
        numbers = [numbers_of(row.facts[key], PROCESSORS) for key in keys]
        table = np.array([[own[name] for name in names] for own in numbers])
        table = np.hstack([table, table**2])
        costs = [row.costs[key] for key in keys]
        able = [place for place, cost in enumerate(costs) if cost is not None]
        logs = np.log(np.array([costs[place] for place in able], dtype=float) / row.best)
        logs = np.minimum(logs, math.log(MOST))
        points.append((table - table.mean(0))[able])
        slowdowns.append(logs - logs.mean())
    model = Ridge(1.0, fit_intercept=False).fit(np.concatenate(points), np.concatenate(slowdowns))
    linear, square = model.coef_[: len(names)], model.coef_[len(names) :]
    return {n: (float(a), float(b)) for n, a, b in zip(names, linear, square, strict=True)}


def without(rows: Sequence[Recorded], kernel: str, way: str) -> Weights:
    """Return the weights that are fitted without a kernel, or without its whole family."""
    family = next(group for group in FAMILIES if kernel in group)
    left_out = family if way == "family" else {kernel}
    return fitted([row for row in rows if row.kernel not in left_out])


def correlation(row: Recorded, weights: Weights) -> float:
    """Return Spearman's rank correlation of recorded and predicted costs."""
    expected = expected_costs(row.facts, PROCESSORS, weights)
    pairs = [(cost, expected[key]) for key, cost in row.costs.items() if cost and key in expected]
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+")
    rows = [row for file in parser.parse_args().files for row in read_samples(file)]
    print_weights(fitted(rows))
    for kernel in dict.fromkeys(row.kernel for row in rows):
        own = [row for row in rows if row.kernel == kernel]
        correlations = []
        for way in ("kernel", "family"):
            weights = without(rows, kernel, way)
            mean = statistics.fmean(correlation(row, weights) for row in own)
            correlations.append(f"without its {way} {mean:.2f}")
        print(f"{kernel}: {', '.join(correlations)}")


def print_weights(weights: Mapping[str, tuple[float, float]]) -> None:
    """Print the weights as they are written in the module's source."""
    for name, (linear, square) in weights.items():
        print(f'    "{name}": ({linear:.4f}, {square:.4f}),')


if __name__ == "__main__":
    main()
