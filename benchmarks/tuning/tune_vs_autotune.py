"""Compares `ttools tune` with `triton.autotune`, as whole processes with cold caches.

    python benchmarks/tuning/tune_vs_autotune.py --samples FILE --output FILE
        [--only quantize,route] [--autotune quantize] [--shapes 1] [--seconds 300]

For each shape of a problem, `ttools tune one_launch.py` runs with default options and with its own
caches and store. For the problems in `--autotune`, the program also runs without ttools for the
first shape, so that `triton.autotune` measures all configurations. Then the winners of both, and
the best three configurations of the samples (of `record_spaces.py`), are measured alternately. One
run before the first measurement loads the files that all runs read. At the end it prints how many
times faster the tuner is, and how far its winners are from the best configuration.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import triton
from tuning_problem import TuningProblem
from tuning_problems import PROBLEMS
from tuning_samples import Recorded, read_samples

from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.gpu_bench import GpuBench
from ttools.tuner.measure.gpu_launch import gpu_launch
from ttools.tuner.space.candidate import candidates, config_key
from ttools.tuner.store.problem import gpu_device

#: Number of the best recorded configurations that are measured again.
RIVALS = 3
PROGRAM = str(Path(__file__).with_name("one_launch.py"))
WAYS: Mapping[str, Sequence[str]] = {
    "tuner": ("ttools", "tune"),
    "autotune": (sys.executable,),
}


def cold(way: str, name: str, shape: int, folder: Path) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a process whose caches are in a new folder, and its winner."""
    own = folder / way
    own.mkdir()
    caches = {"TRITON_CACHE_DIR": str(own / "triton"), "TTOOLS_CACHE_DIR": str(own / "ttools")}
    store = ["--store", str(own / "store.sqlite")] if way == "tuner" else []
    output = own / "winner.json"
    command = [*WAYS[way], *store, PROGRAM, name, str(shape), str(output)]
    start = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if not output.exists():
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return seconds, json.loads(output.read_text())


def rivals(samples: Sequence[Recorded], kernel: str, shape: Mapping[str, int]) -> list[str]:
    """Return the keys of the best recorded configurations, the best first."""
    for row in samples:
        if (row.kernel, row.shape) == (kernel, shape):
            costs = {key: cost for key, cost in row.costs.items() if cost is not None}
            return sorted(costs, key=lambda key: costs[key])[:RIVALS]
    return []


def alternating_medians(
    problem: TuningProblem, arguments: dict[str, Any], grid: Any, keys: set[str]
) -> dict[str, float]:
    """Measure some configurations alternately; return the median of each in seconds."""
    tuner = problem.autotuned(triton.jit(problem.kernel.fn))  # a new function has no cached kernels
    launch = gpu_launch(tuner, (), {**arguments, "grid": grid, "warmup": False})
    wanted = [config for config in candidates(launch.configs) if config.key in keys]
    timed = GpuBench(launch, Checks()).final(wanted)
    return {key: statistics.median(samples) for key, samples in timed.items()}


def compare(
    problem: TuningProblem, number: int, best: Sequence[str], autotunes: bool
) -> dict[str, Any]:
    """Run both tuners for a shape; return their times, and the medians of the configurations."""
    shape = problem.shapes[number]
    seconds: dict[str, float] = {}
    keys: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for way in ("tuner", "autotune") if autotunes else ("tuner",):
            seconds[way], values = cold(way, problem.name, number, Path(folder))
            keys[way] = config_key(values)
        keys |= {f"best {place}": key for place, key in enumerate(best, start=1)}
        os.environ["TRITON_CACHE_DIR"] = str(Path(folder) / "tuner" / "triton")
        medians = alternating_medians(problem, *problem.inputs(**shape), set(keys.values()))
    return {
        "kernel": problem.name,
        "shape": dict(shape),
        "space": len(problem.configs()),
        "seconds": seconds,
        "winners": {name: json.loads(key) for name, key in keys.items()},
        "medians": {name: medians[key] for name, key in keys.items()},
    }


def gap(row: Mapping[str, Any]) -> float:
    """Return the relative slowdown of the tuner's winner compared with the best configuration."""
    return float(row["medians"]["tuner"] / min(row["medians"].values()) - 1)


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row as text."""
    taken = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in row["seconds"].items())
    return f"{row['kernel']} {tuple(row['shape'].values())}: {taken}; +{gap(row):.1%}"


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the summary of all rows."""
    gaps = [gap(row) for row in rows]
    times = [
        row["seconds"]["autotune"] / row["seconds"]["tuner"]
        for row in rows
        if "autotune" in row["seconds"]
    ]
    near = [sum(gap_ <= most for gap_ in gaps) for most in (0.02, 0.05)]
    lines = [f"within 2%: {near[0]} of {len(gaps)}, 5%: {near[1]}; the worst +{max(gaps):.1%}"]
    if times:
        mean = math.exp(statistics.fmean(map(math.log, times)))
        lines.append(f"times less: {mean:.1f} on average (geometric), {min(times):.1f} at least")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=Path, nargs="*", default=[])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument(
        "--autotune", default="", help="problems for which triton.autotune is run, too"
    )
    parser.add_argument("--shapes", type=int, default=3, help="number of shapes of each problem")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="start no new shape after this many seconds"
    )
    options = parser.parse_args()
    began = time.monotonic()
    names = list(filter(None, options.only.split(","))) or [problem.name for problem in PROBLEMS]
    by_name = {problem.name: problem for problem in PROBLEMS}
    autotunes = set(filter(None, options.autotune.split(",")))
    samples = [row for file in options.samples for row in read_samples(file)]
    with tempfile.TemporaryDirectory() as folder:  # loads files into the page cache
        cold("tuner", "route", 1, Path(folder))
    rows: list[dict[str, Any]] = []
    for name in names:
        problem = by_name[name]
        for number, shape in enumerate(problem.shapes[: options.shapes]):
            if time.monotonic() - began > options.seconds:
                print("out of time at", name, dict(shape))
                break
            best = rivals(samples, name, shape)
            rows.append(compare(problem, number, best, number == 0 and name in autotunes))
            print(row_text(rows[-1]), flush=True)
            data = {"device": gpu_device(), "rows": rows}
            options.output.write_text(json.dumps(data) + "\n")
    print(summary(rows))


if __name__ == "__main__":
    main()
