"""Fits the model of GPU times, and measures its error on kernels that it was not fitted to.

    python benchmarks/gpu_time_model.py benchmarks/points/*.json.gz

The points are those of `gpu_points.py join`. Prints the constants of `ttools.profiler.gpu_time`
fitted to all points, and the instructions that the kernels execute. For each kernel, the script
also fits the constants to all other kernels and prints the error on this kernel; the intervals of
projections are derived from these errors.
"""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from gpu_points import Point, read_points
from numpy.typing import NDArray
from scipy.optimize import least_squares

from ttools.core.compilation.machine_code import read_machine_code
from ttools.profiler.gpu_time.model import Constants, seconds_of
from ttools.profiler.gpu_time.work import Work, work_of

#: Initial constants of the fit, from published figures of Hopper. Constants that the points do not
#: determine keep these values.
BEGIN = Constants(
    least=1.4e-6,
    memory=0.9,
    cache=2.2,
    kept=0.8,
    units=0.8,
    shared=0.8,
    matrix=0.8,
    step=4,
    near=25,
    far=250,
    barrier=25,
    group=40,
    changed=1e-9,
    contended=2.6e-9,
    sharpness=3,
)
NAMES = [field.name for field in fields(Constants)]
#: Constants that are shares of a peak rate, and therefore at most 1.
SHARES = ("memory", "kept", "units", "shared", "matrix")
_AT = np.log([getattr(BEGIN, name) for name in NAMES])
_MOST = np.array([0.0 if name in SHARES else np.inf for name in NAMES])
_HOLD = 0.07


@dataclass(frozen=True)
class Launches:
    """Timed launches, and the work that they require of their devices."""

    points: Sequence[Point]
    work: Work
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, points: Sequence[Point]) -> Launches:
        """Compute the work of recorded points."""
        codes = {point.sass: read_machine_code(point.sass) for point in points}
        works = [
            work_of(point.counts, codes[point.sass], point.blocks, point.accesses, point.device)
            for point in points
        ]
        columns = {
            field.name: np.array([getattr(work, field.name) for work in works])
            for field in fields(Work)
        }
        return cls(points, Work(**columns), np.array([point.seconds for point in points]))

    def where(self, mask: NDArray[np.bool_]) -> Launches:
        """Return the launches that a mask selects."""
        work = Work(**{field.name: getattr(self.work, field.name)[mask] for field in fields(Work)})
        points = [point for point, own in zip(self.points, mask, strict=True) if own]
        return Launches(points, work, self.seconds[mask])


def _named(values: NDArray[np.float64]) -> Constants:
    return Constants(**dict(zip(NAMES, np.exp(values).tolist(), strict=True)))


def fit(launches: Launches, begin: Constants = BEGIN) -> Constants:
    """Return the constants that minimise the error of the times of the launches."""

    def errors(values: NDArray[np.float64]) -> Any:
        own = np.log(seconds_of(launches.work, _named(values)) / launches.seconds)
        return np.concatenate([own, (values - _AT) * _HOLD])

    first = np.minimum(np.log([getattr(begin, name) for name in NAMES]), _MOST - 1e-6)
    bounds = np.full(len(NAMES), -np.inf), _MOST
    solution = least_squares(errors, first, bounds=bounds, loss="soft_l1", f_scale=0.3, max_nfev=60)
    return _named(solution.x)


def left_out(kernel: str, launches: Launches, begin: Constants) -> NDArray[np.float64]:
    """Return the times of a kernel's launches by a model that is fitted to all other kernels."""
    own = np.array([point.kernel == kernel for point in launches.points])
    return np.asarray(seconds_of(launches.where(own).work, fit(launches.where(~own), begin)))


def evaluate(launches: Launches, jobs: int) -> None:
    everything = fit(launches)
    print({name: float(f"{value:.3g}") for name, value in asdict(everything).items()})
    report(launches, np.asarray(seconds_of(launches.work, everything)), "fitted to")
    names = np.array([point.kernel for point in launches.points])
    kernels = sorted(set(names))
    projected = np.empty(len(names))
    with ProcessPoolExecutor(jobs) as pool:
        times = pool.map(left_out, kernels, [launches] * len(kernels), [everything] * len(kernels))
        for kernel, own in zip(kernels, times, strict=True):
            projected[names == kernel] = own
    report(launches, projected, "left out")
    ratios = np.log(launches.seconds / projected)
    low, high = np.exp(np.quantile(ratios, [0.05, 0.95]))
    print(f"measured by projected: {low:.2f} to {high:.2f} nine times in ten", end=", ")
    print(f"{math.exp(ratios.min()):.2f} to {math.exp(ratios.max()):.2f} at most")
    worst(launches, projected)


def report(launches: Launches, projected: NDArray[np.float64], title: str) -> None:
    devices = np.array([point.device.name for point in launches.points])
    for device in sorted(set(devices)):
        own = devices == device
        measured, guessed = launches.seconds[own], projected[own]
        errors = np.abs(np.log(guessed / measured))
        ranks = np.corrcoef(measured.argsort().argsort(), guessed.argsort().argsort())[0, 1]
        kernels = len({p.kernel for p, mine in zip(launches.points, own, strict=True) if mine})
        print(
            f"{device}, {title}: {own.sum()} launches of {kernels} kernels; error factor "
            f"{math.exp(errors.mean()):.2f}, 90% within {math.exp(np.quantile(errors, 0.9)):.2f}, "
            f"worst {math.exp(errors.max()):.2f}; rank correlation {ranks:.3f}"
        )


def worst(launches: Launches, projected: NDArray[np.float64], count: int = 16) -> None:
    order = np.argsort(-np.abs(np.log(projected / launches.seconds)))
    for at in order[:count]:
        point = launches.points[at]
        name = f"{point.kernel} {point.shape}, {point.device.name}"
        taken, guess = launches.seconds[at] * 1e6, projected[at] * 1e6
        print(f"{name:48} {taken:9.1f} us, projected {guess:9.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    launches = Launches.of([point for path in arguments.paths for point in read_points(path)])
    evaluate(launches, arguments.jobs)
    codes = {point.sass for point in launches.points}
    every = (instruction for sass in codes for instruction in read_machine_code(sass).instructions)
    names = sorted({instruction.name for instruction in every if not instruction.rare})
    print("instructions:", *textwrap.wrap(" ".join(names), 90), sep="\n")


if __name__ == "__main__":
    main()
