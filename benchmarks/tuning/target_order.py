"""Compares the ranking of configurations by `ttools tune --gpu` with times recorded on a GPU.

    python benchmarks/tuning/target_order.py benchmarks/spaces/h100_work.json.gz
        [--points benchmarks/points/h100.json.gz benchmarks/points/h200.json.gz]

For each configuration of the recorded kernels, the file contains the recorded time and the work
that the configuration requires of the device, as the tuner counts it. For each kernel, the script
prints:

- Spearman's rank correlation of the projected times and the recorded medians,
- the regret of the configuration that ranks first: how much longer it takes than the best one,
- the regret of the best of the four configurations that rank first,
- the error factor: the geometric mean of the factors by which projected and recorded times differ.

The projection uses the constants of ttools. If the points to which these were fitted are given, the
figures are also printed for constants that are fitted without kernels of the same kind.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ttools.core.gpus.devices import Device, read_device
from ttools.profiler.gpu_time.model import Constants, seconds_of
from ttools.profiler.gpu_time.work import Work

#: For each kernel, the names of those launches among the points that are of the same kind.
KIN: Mapping[str, Sequence[str]] = {
    "gelu": ("GELU tanh", "GELU erf"),
    "softmax": ("softmax", "log-sum-exp"),
    "layer_norm": ("layer norm", "RMS norm"),
    "matmul_fp16": ("half product",),
    "matmul_fp8": ("half product",),
    "attention": ("flash attention",),
    "rms_int8": ("int8 weights", "RMS norm"),
    "int4": ("int8 weights", "dequantise"),
    "conv2d": ("convolution",),
    "batched": ("batched product",),
    "split_k": ("split K",),
    "experts": ("half product",),
    "decode": ("decoding",),
    "cross_entropy": ("cross entropy",),
    "kl": ("divergence",),
    "swiglu_backward": ("swiglu",),
    "layer_norm_backward": ("layer norm", "column sum"),
    "group_norm": ("group norm",),
    "rope": (),
    "adam": ("AdamW",),
    "conv1d": ("depthwise",),
    "stencil": ("stencil", "stencil 2D"),
    "histogram": ("histogram", "counters"),
    "embedding_backward": ("embedding", "segments", "scatter"),
    "paged_gather": ("gather",),
    "grouped_matmul": ("half product",),
}


def works_of(configs: Sequence[Mapping[str, Any]], device: Device) -> Work:
    """Return the work of all configurations; each field is an array over them.

    The files contain the work with empty caches (`held` is 0), because the times were recorded with
    empty caches. The tuner, in contrast, projects launches as the profiler does: their data is in
    the cache if it fits.
    """
    work = Work(
        **{f.name: np.array([config["work"][f.name] for config in configs]) for f in fields(Work)}
    )
    touched = np.maximum(1.0, work.memory * device.bandwidth)
    return replace(work, cache_ratio=(device.cache or 0) / touched)


def print_table(path: Path, points: Sequence[Path]) -> None:
    """Print a row per kernel."""
    with gzip.open(path, "rt") as file:
        data = json.load(file)
    device = read_device("h200" if "H200" in data["device"] else "h100")
    print(f"{data['device']}; triton {data['triton']}; one configuration in {data['every']}")
    heads = ("rank", "first", "of four", "error")
    titles = ["constants of ttools", "without its kind"][: 2 if points else 1]
    print(f"{'':44}" + "".join(f"{title:^34}" for title in titles))
    print(f"{'kernel':36}{'configs':>8}" + "".join(f"{h:>8}" for h in heads) * len(titles))
    every: list[list[tuple[float, ...]]] = [[] for _ in titles]
    fitted = _fitted(points, [row["kernel"] for row in data["rows"]])
    for row in data["rows"]:
        measured = np.array([config["seconds"] for config in row["configs"]])
        work = works_of(row["configs"], device)
        line = f"{row['kernel']} {'x'.join(map(str, row['shape'].values()))}"
        line = f"{line:36}{len(measured):8}"
        for place, constants in enumerate([Constants(), *fitted.get(row["kernel"], [])]):
            row_figures = figures(measured, np.asarray(seconds_of(work, constants)))
            every[place].append(row_figures)
            rank, first, four, error = row_figures
            line += f"{rank:8.3f}{first:8.1%}{four:8.1%}{error:8.2f}"
        print(line, flush=True)
    line = f"{'mean':44}"
    for own in every:
        rank, first, four, error = (statistics.fmean(column) for column in zip(*own, strict=True))
        line += f"{rank:8.3f}{first:8.1%}{four:8.1%}{error:8.2f}"
    print(line)


def figures(
    measured: NDArray[np.float64], guessed: NDArray[np.float64]
) -> tuple[float, float, float, float]:
    """Return the rank correlation, two regrets, and the error factor.

    The regrets are those of the configuration that ranks first, and of the best of the first four.
    """
    order = np.argsort(guessed, kind="stable")
    best = measured.min()
    rank = float(spearmanr(measured, guessed).statistic)
    error = float(np.exp(np.abs(np.log(guessed / measured)).mean()))
    return rank, measured[order[0]] / best - 1, measured[order[:4]].min() / best - 1, error


def _fitted(points: Sequence[Path], kernels: Sequence[str]) -> dict[str, list[Constants]]:
    """Return for each kernel the constants that are fitted without launches of its kind."""
    if not points:
        return {}
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from gpu_points import read_points
    from gpu_time_model import Launches, fit

    launches = Launches.of([point for path in points for point in read_points(path)])
    names = np.array([point.kernel for point in launches.points])
    begin, by_kind = fit(launches), {}
    for kin in {KIN[kernel] for kernel in kernels}:
        by_kind[kin] = fit(launches.where(~np.isin(names, kin)), begin)
    return {kernel: [by_kind[KIN[kernel]]] for kernel in kernels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path)
    parser.add_argument("--points", type=Path, nargs="*", default=())
    options = parser.parse_args()
    print_table(options.path, options.points)


if __name__ == "__main__":
    main()
