"""How `ttools tune --target` orders configurations, beside times that were recorded on a GPU.

    python benchmarks/tuning/target_order.py describe benchmarks/spaces/h100.json work.json.gz
        [--only softmax] [--every 4] [--jobs 2]
    python benchmarks/tuning/target_order.py judge benchmarks/spaces/h100_work.json.gz
        [--points benchmarks/points/h100.json.gz benchmarks/points/h200.json.gz]

`describe` needs no GPU: it counts and compiles the configurations of one recorded shape of each
kernel as the tuner does, without running them, and keeps what they ask of the device.
With the triton that the times were recorded with the code is the one that was timed. `judge`
prints for each kernel Spearman's rank correlation of the projected times with the recorded medians,
how much longer the configuration that ranks first takes than the best one, the same of the best of
the first four, and the error factor: with the constants that ttools has, and, given the points that
these were fitted to, with constants fitted to the points of kernels of other kinds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from scipy.stats import spearmanr
from tuning_problems import PROBLEMS
from tuning_samples import Recorded, read_samples

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.launched import launched, source_by_kernel
from ttools.core.compilation.stages import compile_for
from ttools.core.gpus.devices import Device, device_called
from ttools.interpreter import device_map, interpret
from ttools.interpreter.run.observation import ObservedLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.profiler.access.requests import access_qualities
from ttools.profiler.counting.counter import LaunchCounter
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.gpu_time.model import Constants, seconds_of
from ttools.profiler.gpu_time.projection import asked_of
from ttools.profiler.gpu_time.work import Work

#: Nanoseconds that the best configuration of a shape takes at least: of shorter ones little but the
#: launch itself is measured.
LEAST = 10_000
SCHEMA = "ttools.target-order/1"
#: Of each kernel the launches among the points that are of its kind.
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


class _Counted:
    """An observer that counts the launch it sees, and does not run it."""

    def __init__(self, counter: LaunchCounter) -> None:
        self._counter = counter
        self.counts: LaunchCounts | None = None

    def launch(self, launch: ObservedLaunch) -> LaunchReport:
        """Counts a launch."""
        self.counts = self._counter.count(launch)
        return LaunchReport(0, 0.0)


def described(row: Recorded, device: Device, every: int) -> Iterator[dict[str, Any]]:
    """What the configurations that could be timed, or one in so many, ask of the device."""
    problem = next(each for each in PROBLEMS if each.name == row.kernel)
    arguments, grid = problem.inputs(**row.shape)
    counter = LaunchCounter()
    timed = [each for each in row.space if row.medians[each.key] is not None]
    for candidate in timed[::every]:
        seen = _Counted(counter)
        tuned = triton.autotune([candidate.config], list(problem.key))(problem.kernel)
        try:
            with launched() as kernels, interpret(observer=seen):
                tuned.fn[grid](**arguments, **candidate.config.all_kwargs())
            (source,) = source_by_kernel(kernels).values()
            inspection = Inspection(compile_for(source, device.target))
            assert seen.counts is not None
            qualities = access_qualities(seen.counts.accesses, inspection)
            work = asked_of(seen.counts, inspection, device, qualities, cold=True)
        except Exception as error:  # noqa: BLE001 - the row is told, and left out
            print(
                f"{row.kernel} {candidate.key}: {type(error).__name__}: {error}"[:300],
                file=sys.stderr,
            )
            continue
        median = row.medians[candidate.key]
        assert median is not None
        yield {
            "config": candidate.key,
            "seconds": median / 1e9,
            "work": {name: float(value) for name, value in asdict(work).items()},
        }


def _describe_one(path: Path, every: int, kernel: str) -> dict[str, Any]:
    device = _device_of(path)
    torch.manual_seed(0)
    rows = [row for row in read_samples(path) if row.kernel == kernel]
    long = [row for row in rows if row.best >= LEAST] or [max(rows, key=lambda row: row.best)]
    row = min(long, key=lambda row: row.best)
    with device_map(f"cuda=cpu,capability={device.target.name[3:-1]}.{device.target.name[-1]}"):
        found = list(described(row, device, every))
    print(f"{row}: {len(found)}", file=sys.stderr, flush=True)
    return {"kernel": kernel, "shape": dict(row.shape), "configs": found}


def _device_of(path: Path) -> Device:
    device = device_called(json.loads(path.read_text())["device"].split(":")[1])
    assert device is not None
    return device


def describe(path: Path, output: Path, only: str, every: int, jobs: int) -> None:
    """Writes what recorded configurations ask of their device."""
    kernels = list(dict.fromkeys(row.kernel for row in read_samples(path)))
    wanted = set(filter(None, only.split(","))) or set(kernels)
    chosen = [each for each in kernels if each in wanted]
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "device": json.loads(path.read_text())["device"],
        "triton": triton.__version__,
        "every": every,
        "rows": [],
    }
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for row in pool.map(partial(_describe_one, path, every), chosen):
            data["rows"].append(row)
            with gzip.open(output, "wt") as file:
                json.dump(data, file)


def works_of(configs: Sequence[Mapping[str, Any]]) -> Work:
    """What configurations ask, each figure of all of them."""
    return Work(
        **{f.name: np.array([each["work"][f.name] for each in configs]) for f in fields(Work)}
    )


def judge(path: Path, points: Sequence[Path]) -> None:
    """Prints a row per kernel."""
    with gzip.open(path, "rt") as file:
        data = json.load(file)
    print(f"{data['device']}; triton {data['triton']}; one configuration in {data['every']}")
    heads = ("rank", "first", "of four", "error")
    titles = ["as it is", "without its kind"][: 2 if points else 1]
    print(f"{'':44}" + "".join(f"{title:^34}" for title in titles))
    print(f"{'kernel':36}{'configs':>8}" + "".join(f"{h:>8}" for h in heads) * len(titles))
    every: list[list[tuple[float, ...]]] = [[] for _ in titles]
    fitted = _fitted(points, [row["kernel"] for row in data["rows"]])
    for row in data["rows"]:
        measured = np.array([each["seconds"] for each in row["configs"]])
        work = works_of(row["configs"])
        line = f"{row['kernel']} {'x'.join(map(str, row['shape'].values()))}"
        line = f"{line:36}{len(measured):8}"
        for place, constants in enumerate([Constants(), *fitted.get(row["kernel"], [])]):
            found = figures(measured, np.asarray(seconds_of(work, constants)))
            every[place].append(found)
            rank, first, four, error = found
            line += f"{rank:8.3f}{first:8.1%}{four:8.1%}{error:8.2f}"
        print(line, flush=True)
    line = f"{'mean':44}"
    for own in every:
        rank, first, four, error = (statistics.fmean(each) for each in zip(*own, strict=True))
        line += f"{rank:8.3f}{first:8.1%}{four:8.1%}{error:8.2f}"
    print(line)


def figures(
    measured: NDArray[np.float64], guessed: NDArray[np.float64]
) -> tuple[float, float, float, float]:
    """Rank correlation, regret of the first and of the best of four, error factor."""
    order = np.argsort(guessed, kind="stable")
    best = measured.min()
    rank = float(spearmanr(measured, guessed).statistic)
    error = float(np.exp(np.abs(np.log(guessed / measured)).mean()))
    return rank, measured[order[0]] / best - 1, measured[order[:4]].min() / best - 1, error


def _fitted(points: Sequence[Path], kernels: Sequence[str]) -> dict[str, list[Constants]]:
    """Of each kernel the constants without what is of its kind."""
    if not points:
        return {}
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from gpu_points import read_points
    from gpu_time_model import Launches, fit

    launches = Launches.of([point for path in points for point in read_points(path)])
    names = np.array([point.kernel for point in launches.points])
    begin, known = fit(launches), {}
    for kin in {KIN[kernel] for kernel in kernels}:
        known[kin] = fit(launches.where(~np.isin(names, kin)), begin)
    return {kernel: [known[KIN[kernel]]] for kernel in kernels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("describe")
    one.add_argument("path", type=Path)
    one.add_argument("output", type=Path)
    one.add_argument("--only", default="", help="names of problems, separated by commas")
    one.add_argument("--every", type=int, default=1, help="one configuration in so many")
    one.add_argument("--jobs", type=int, default=1)
    other = commands.add_parser("judge")
    other.add_argument("path", type=Path)
    other.add_argument("--points", type=Path, nargs="*", default=())
    given = parser.parse_args()
    if given.command == "describe":
        describe(given.path, given.output, given.only, given.every, given.jobs)
    else:
        judge(given.path, given.points)


if __name__ == "__main__":
    main()
