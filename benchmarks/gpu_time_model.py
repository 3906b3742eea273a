"""A model of GPU times by the machine code that runs, judged on kernels it was not fitted to.

    python benchmarks/gpu_time_model.py judge points.json.gz …     # of `gpu_points.py join`
    python benchmarks/gpu_time_model.py present points.json.gz …   # today's projection on the same

What a launch executes is read off its machine code and its counts (`machine_code.py`). It takes as
long as what takes longest of: the busiest multiprocessor's units, one wave of programs after the
other, matrix units, memory, the last level of cache, atomics. The constants are fitted to all
kernels but one, which is then projected, for each kernel.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from machine_code import count_turns, read
from scipy.optimize import least_squares

from ttools.core.gpus.devices import Device, read_device
from ttools.profiler.gpu_time.projection import Constants, Work, fitted, project

#: Opcodes by the unit that executes them; all others are of the integer units.
UNITS = {
    name: unit
    for unit, names in {
        "float": "FFMA FADD FMUL FFMA2 FADD32I FMUL32I FFMA32I HFMA2 HADD2 HMUL2 HSET2 HSETP2",
        "double": "DFMA DADD DMUL DSETP DMNMX",
        "function": "MUFU",
        "conversion": "F2F F2I I2F I2FP F2IP F2FP FRND I2I",
        "product": "IMAD IMAD32I IMUL IDP IDP4A UIMAD",
        "load": "LDG LD",
        "copy": "LDGSTS UTMALDG",
        "store": "STG ST UTMASTG",
        "shared load": "LDS LDSM",
        "shared store": "STS STSM",
        "shared atomic": "ATOMS VOTE POPC",
        "local": "LDL STL",
        "atomic": "RED REDG ATOM ATOMG",
        "shuffle": "SHFL",
        "matrix": "HMMA IMMA QMMA DMMA HGMMA QGMMA IGMMA",
        "barrier": "BAR WARPSYNC SYNCS BSYNC WARPGROUP DEPBAR LDGDEPBAR MEMBAR FENCE CCTL ERRBAR",
        "control": "BRA EXIT NOP BRX RET CALL BREAK BSSY",
    }.items()
    for name in names.split()
}
_SHARED = ("shared load", "shared store")
_GLOBAL = ("load", "copy", "store", "atomic")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a launch executes and moves.

    Attributes:
        kernel: its name; `shape` tells its launches apart.
        seconds: measured.
        device: that it ran on.
        programs: how many, of `warps` warps each.
        resident: how many a multiprocessor holds at once.
        executed: instructions of a warp by unit.
        shared: bytes of shared memory that a warp moves.
        batches: rounds of loads from memory that a warp waits for.
        touched: bytes, in whole sectors.
        sectors: bytes beyond the L1 cache.
        requested: bytes of the sectors of all warps' accesses.
        matrix: seconds of the matrix units at their peak.
        atomic_sectors: that atomics change.
        contended: atomic operations on one address, on average.
    """

    kernel: str
    shape: str
    seconds: float
    device: Device
    programs: int
    warps: int
    resident: int
    executed: Mapping[str, float]
    shared: float
    batches: float
    touched: float
    sectors: float
    requested: float
    matrix: float
    atomic_sectors: float
    contended: float


def launch_of(point: Mapping[str, Any], device: Device) -> Launch:
    """What `gpu_points.py` has found, as the model needs it."""
    lines, programs, warps = point["lines"], max(1, point["programs"]), point["warps"]
    code = read(point["sass"])
    count_turns(code, lines, programs, warps)
    executed: defaultdict[str, float] = defaultdict(float)
    shared, waits = 0.0, dict.fromkeys(range(-1, len(code.loops)), 0.0)
    for (instruction, times), loop in zip(code.executed(), code.inner, strict=True):
        unit = UNITS.get(instruction.name, "integer")
        executed[unit] += times
        if unit in _SHARED:
            shared += times * instruction.bytes * 32
        if unit == "load":
            waits[-1 if loop is None else loop] = times
    total = sum(line["loaded"] + line["stored"] + line["atomic"] for line in lines)
    accesses = point["accesses"]
    known = sum(each["requested"] for each in accesses) or 1
    sectors = sum(_wasted(each, "tile_sectors", "tile_ideal") for each in accesses) * total / known
    touched = point["unique_loaded"] + point["unique_stored"]
    atomics = [each for each in accesses if each["kind"] == "atomic"]
    changed = sum(line["atomic"] for line in lines)
    return Launch(
        kernel=point["kernel"],
        shape=point["shape"],
        seconds=point["seconds"],
        device=device,
        programs=programs,
        warps=warps,
        resident=point["occupancy"]["blocks"],
        executed=executed,
        shared=shared,
        batches=sum(waits.values()),
        touched=touched * sectors / max(1, total),
        sectors=sectors,
        requested=sum(_wasted(each, "sectors", "ideal") for each in accesses) * total / known,
        matrix=_matrix(lines, device),
        atomic_sectors=max(sum(_wasted(e, "sectors", "ideal") for e in atomics), changed) / 32,
        contended=changed / max(1, point["unique_stored"]),
    )


def _wasted(access: Mapping[str, Any], moved: str, ideal: str) -> float:
    waste = access[moved] / access[ideal] if access[ideal] else 1.0
    return float(access["requested"] * waste)


def _matrix(lines: Sequence[Mapping[str, Any]], device: Device) -> float:
    products: Counter[str] = Counter()
    for line in lines:
        products.update({u: n for u, n in line["operations"].items() if u.startswith("dot ")})
    return sum(n / (device.peak(unit) or math.inf) for unit, n in products.items())


#: Where fitting begins. Shares of peaks; `least` in seconds; latencies in cycles of a warp;
#: `sharpness` says how nearly the longest part hides the others.
BEGIN = {
    "least": 1.4e-6,
    "memory": 0.9,
    "cache": 2.2,
    "kept": 0.8,
    "fed": 1.0,
    "sharpness": 2.0,
    "issue": 0.8,
    "arithmetic": 0.8,
    "function": 0.8,
    "access": 0.6,
    "shared": 0.8,
    "l1": 1.0,
    "matrix": 0.6,
    "atomic": 4e10,
    "contended": 2.6e-9,
    "wait": 500.0,
    "step": 2.0,
    "far": 20.0,
    "near": 20.0,
    "barrier": 20.0,
    "group": 40.0,
    "copied": 30.0,
}
NAMES = tuple(BEGIN)


def seconds_of(launch: Launch, constants: Mapping[str, float]) -> float:
    """The time that the model gives a launch."""
    c, did, device = constants, launch.executed, launch.device
    multiprocessors, programs, warps = device.multiprocessors, launch.programs, launch.warps
    # 128 lanes of f32 each, of two operations a cycle.
    cycle = 256 * multiprocessors / device.peaks["fp32"]
    even = programs / multiprocessors
    busiest = 1.0 if even < 1 else (even + math.ceil(even)) / 2
    accesses = sum(did.get(unit, 0) for unit in (*_GLOBAL, *_SHARED, "shuffle"))
    product = did.get("product", 0)
    integer = did.get("integer", 0)
    units = max(
        sum(did.values()) * warps / 4 / c["issue"],
        (integer / 2 + product / 4) * warps / c["arithmetic"],
        (did.get("float", 0) + product) * warps / 4 / c["arithmetic"]
        + did.get("double", 0) * warps / 2 / c["arithmetic"],
        (2 * did.get("function", 0) + did.get("conversion", 0)) * warps / c["function"],
        accesses * warps / c["access"],
        (launch.shared / 128 + did.get("shuffle", 0) + 16 * did.get("shared atomic", 0))
        * (warps / c["shared"]),
        launch.requested / programs / 64 / c["l1"],
    )
    steps = ("integer", "product", "float", "double", "conversion", "control")
    serial = (
        launch.batches * c["wait"]
        + c["step"] * sum(did.get(unit, 0) for unit in steps)
        + c["far"] * (did.get("shuffle", 0) + did.get("function", 0))
        + c["near"] * sum(did.get(unit, 0) for unit in _SHARED)
        + c["copied"] * (did.get("copy", 0) + did.get("local", 0))
        + c["barrier"] * did.get("barrier", 0)
        + c["group"] * did.get("matrix", 0)
    )
    waves = max(1.0, programs / (multiprocessors * max(1, launch.resident)))
    fed = min(1.0, even * c["fed"])
    parts = (
        units * busiest * cycle,
        waves * serial * cycle,
        launch.matrix / c["matrix"] * busiest / min(even, busiest),
        launch.touched * _missed(launch, c["kept"]) / (device.bandwidth * c["memory"]) / fed,
        launch.sectors / (device.bandwidth * c["cache"]) / fed,
        launch.atomic_sectors / c["atomic"] + launch.contended * c["contended"],
    )
    power = 1 + c["sharpness"]
    return float(c["least"] + sum(part**power for part in parts) ** (1 / power))


def _missed(launch: Launch, kept: float) -> float:
    """Share of the bytes touched that the last level of cache does not hold from before."""
    cache = launch.device.cache
    if not launch.touched or not cache:
        return 1.0
    return 1 / (1 + (cache * kept / launch.touched) ** 4)


def fit(launches: Sequence[Launch], begin: Mapping[str, float] = BEGIN) -> dict[str, float]:
    """The constants that give measured launches their times, as nearly as they can."""
    at = np.log([BEGIN[name] for name in NAMES])

    def named(values: Any) -> dict[str, float]:
        return dict(zip(NAMES, np.exp(values).tolist(), strict=True))

    def errors(values: Any) -> Any:
        constants = named(values)
        own = [math.log(seconds_of(each, constants) / each.seconds) for each in launches]
        # What the launches do not tell stays where it began.
        return np.concatenate([own, (values - at) * 0.07])

    first = np.log([begin[name] for name in NAMES])
    found = least_squares(errors, first, loss="soft_l1", f_scale=0.3, max_nfev=30)
    return named(found.x)


def without(
    kernel: str, launches: Sequence[Launch], begin: Mapping[str, float]
) -> list[tuple[Launch, float]]:
    """A kernel's launches, and the times that the model gives them that never saw it."""
    constants = fit([each for each in launches if each.kernel != kernel], begin)
    return [(each, seconds_of(each, constants)) for each in launches if each.kernel == kernel]


def judge(points: list[tuple[Mapping[str, Any], Device]], jobs: int) -> None:
    launches = [launch_of(*each) for each in points]
    begin = fit(launches)
    print({name: float(f"{value:.3g}") for name, value in begin.items()})
    kernels = sorted({each.kernel for each in launches})
    with ProcessPoolExecutor(jobs) as pool:
        parts = pool.map(without, kernels, [launches] * len(kernels), [begin] * len(kernels))
        found = [each for part in parts for each in part]
    report(found, "left out")
    report([(each, seconds_of(each, begin)) for each in launches], "fitted to")


def present(points: list[tuple[Mapping[str, Any], Device]]) -> None:
    """Judges the projection with its constants, and with ones fitted without the kernel."""
    launches = [launch_of(*each) for each in points]
    works = [_work(*each) for each in points]
    report(
        [(each, project(w, Constants())) for each, w in zip(launches, works, strict=True)], "as is"
    )
    found = []
    for kernel in sorted({each.kernel for each in launches}):
        pairs = list(zip(launches, works, strict=True))
        constants = fitted([(w, each.seconds) for each, w in pairs if each.kernel != kernel])
        found += [(each, project(w, constants)) for each, w in pairs if each.kernel == kernel]
    report(found, "left out")


def _work(point: Mapping[str, Any], device: Device) -> Work:
    """As `projection.work_of` makes it."""
    lines, accesses, programs = point["lines"], point["accesses"], max(1, point["programs"])
    total = sum(line["loaded"] + line["stored"] + line["atomic"] for line in lines)
    requested = sum(each["requested"] for each in accesses)
    waste = sum(_wasted(each, "sectors", "ideal") for each in accesses) / max(1, requested)
    touched = (point["unique_loaded"] + point["unique_stored"]) * (waste or 1.0)
    arithmetic = 0.0
    for unit, n in ((u, n) for line in lines for u, n in line["operations"].items()):
        if unit in ("compare", "divide", "function"):
            arithmetic += 4 * n / device.peaks["fp32"]
        elif not unit.startswith("dot "):
            arithmetic += n / (device.peak(unit) or math.inf)
    blocks = max(1, point["occupancy"]["blocks"])
    longest = max(
        (e["executions"] for e in lines if e["loaded"] + e["stored"] + e["atomic"]), default=0
    )
    own = point["resources"]
    return Work(
        memory=0.0 if touched <= 0.8 * (device.cache or 0) else touched / device.bandwidth,
        cache=total * (waste or 1.0) / device.bandwidth,
        matrix=_matrix(lines, device),
        arithmetic=arithmetic,
        iterations=longest / programs * math.ceil(programs / (device.multiprocessors * blocks)),
        busy=programs / (math.ceil(programs / device.multiprocessors) * device.multiprocessors),
        spills=2 * own["spilled"] * own["threads"] * programs / device.bandwidth,
    )


def report(found: Sequence[tuple[Launch, float]], title: str) -> None:
    for device in sorted({each.device.name for each, _ in found}):
        own = [(each, seconds) for each, seconds in found if each.device.name == device]
        measured = np.array([each.seconds for each, _ in own])
        projected = np.array([seconds for _, seconds in own])
        errors = np.abs(np.log(projected / measured))
        ranks = np.corrcoef(measured.argsort().argsort(), projected.argsort().argsort())[0, 1]
        kernels = len({each.kernel for each, _ in own})
        print(
            f"{device}, {title}: {len(own)} launches of {kernels} kernels; error factor "
            f"{math.exp(errors.mean()):.2f}, 90% within {math.exp(np.quantile(errors, 0.9)):.2f}, "
            f"worst {math.exp(errors.max()):.2f}; rank correlation {ranks:.3f}"
        )
    if title == "left out":
        worst = sorted(found, key=lambda pair: -abs(math.log(pair[1] / pair[0].seconds)))
        for each, seconds in worst[:16]:
            name = f"{each.kernel} {each.shape}, {each.device.name}"
            print(f"{name:48} {each.seconds * 1e6:9.1f} us, projected {seconds * 1e6:9.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("judge", "present"))
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    points = []
    for path in arguments.paths:
        with gzip.open(path, "rt") as file:
            data = json.load(file)
        device = read_device("h200" if "H200" in data["device"] else "h100")
        points += [(each, device) for each in data["points"]]
    if arguments.what == "judge":
        judge(points, arguments.jobs)
    else:
        present(points)


if __name__ == "__main__":
    main()
