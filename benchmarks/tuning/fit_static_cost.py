"""Fits the weights of `ttools.tuner.cost.static_cost` to recorded spaces.

    python benchmarks/tuning/fit_static_cost.py benchmarks/spaces/*.json

A ridge regression of each configuration's logarithmic slowdown, as far as it counts, on its numbers
and their squares, both relative to the mean of the launch. Beside each kernel: the mean rank
correlation of costs with what is expected by weights that were fitted without it, and without its
family.
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
#: What is slower than the best by more counts as so many times as slow.
MOST = 4.0
#: Kernels that are much alike.
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
#: The first shapes of a kernel that are fitted, where not all: further ones are for rules, and
#: would outweigh the other kernels.
FITTED_SHAPES = {"grouped_matmul": 11}


def fitted(rows: Sequence[Recorded]) -> Weights:
    """Weights of all numbers and of their squares."""
    names = list(WEIGHTS)
    points, slowdowns = [], []
    shapes: Counter[str] = Counter()
    for row in rows:
        shapes[row.kernel] += 1
        if shapes[row.kernel] > FITTED_SHAPES.get(row.kernel, len(rows)):
            continue
        keys = [each.key for each in row.space if each.key in row.facts]
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
    """Weights that know nothing of a kernel, or of its whole family."""
    family = next(each for each in FAMILIES if kernel in each)
    left_out = family if way == "family" else {kernel}
    return fitted([row for row in rows if row.kernel not in left_out])


def correlation(row: Recorded, weights: Weights) -> float:
    """Of ranks, -1 to 1."""
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
        told = []
        for way in ("kernel", "family"):
            weights = without(rows, kernel, way)
            mean = statistics.fmean(correlation(row, weights) for row in own)
            told.append(f"without its {way} {mean:.2f}")
        print(f"{kernel}: {', '.join(told)}")


def print_weights(weights: Mapping[str, tuple[float, float]]) -> None:
    """As they are written in the module."""
    for name, (linear, square) in weights.items():
        print(f'    "{name}": ({linear:.4f}, {square:.4f}),')


if __name__ == "__main__":
    main()
