"""Records timed launches with their counts, to which the model of GPU times is fitted.

    python benchmarks/gpu_points.py time times.json             # on an NVIDIA GPU
    python benchmarks/gpu_points.py describe facts.json         # anywhere, --part 0/8 for a share
    python benchmarks/gpu_points.py join times.json facts.json … points.json.gz

`describe` counts the work of each launch on the CPU, and compiles its kernel for the device.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from workloads import gpu_launches

from ttools.core.gpus.devices import Device, device_called
from ttools.core.location import SourceLocation
from ttools.profiler import profile
from ttools.profiler.counting.counts import LineCounts, WorkCounts
from ttools.profiler.gpu_time.work import Access, Blocks

LAUNCHES = 20
#: Matches the paths of source files in SASS, which are removed: they differ between machines.
_FOLDERS = re.compile(r'(## File )"(?:[^"]*/)?([^"/]*)"')


def time(path: Path) -> None:
    points = []
    for kernel, shape, run in gpu_launches.launches("cuda"):
        try:
            seconds = _seconds(run)
        except Exception as error:  # noqa: BLE001 - launches that this Triton rejects are left out
            print(f"{kernel} {shape}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
            continue
        points.append({"kernel": kernel, "shape": shape, "seconds": seconds})
        print(f"{kernel:16} {shape:32} {seconds * 1e6:10.1f} us", flush=True)
    device = torch.cuda.get_device_name()
    path.write_text(json.dumps({"device": device, "triton": triton.__version__, "points": points}))


def _seconds(run: Any) -> float:
    """Return the median time of a launch in a CUDA graph, which excludes the host's overhead."""
    run()
    torch.cuda.synchronize()
    cuda: Any = torch.cuda
    stream = cuda.Stream()
    with torch.cuda.stream(stream):
        run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(LAUNCHES):
                run()
        graph.replay()
        times = []
        for _ in range(9):
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3 / LAUNCHES)
    return float(statistics.median(times))


def describe(path: Path, device: str, part: str) -> None:
    this, of = map(int, part.split("/"))
    facts = []
    for number, (kernel, shape, run) in enumerate(gpu_launches.launches("cpu")):
        if number % of != this:
            continue
        with profile(on="cpu", device=device) as prof:
            run()
        analysis = prof.analyse()
        if not analysis.evidence:
            print(f"{kernel} {shape}: not described; {analysis.notes}", file=sys.stderr, flush=True)
            continue
        (evidence,) = analysis.evidence
        counts, inspection, accesses = evidence.counts, evidence.inspection, evidence.accesses
        assert counts is not None
        facts.append(
            {
                "kernel": kernel,
                "shape": shape,
                "programs": counts.programs,
                "unique_loaded": counts.unique_loaded,
                "unique_stored": counts.unique_stored,
                "lines": [_line(line) for line in counts.lines],
                "accesses": [_access(access) for access in accesses],
                "resources": vars(inspection.resources),
                "occupancy": vars(inspection.occupancy),
                "sass": _FOLDERS.sub(r'\1"\2"', inspection.compilation.text("sass")),
                "warps": inspection.resources.threads // 32,
            }
        )
        print(kernel, shape, flush=True)
    path.write_text(json.dumps(facts))


def _place(location: Any) -> list[Any] | None:
    return location and [Path(location.file).name, location.line]


def _line(line: Any) -> dict[str, Any]:
    return {
        "line": _place(line.location),
        "executions": line.executions,
        "loaded": line.loaded,
        "stored": line.stored,
        "atomic": line.atomic,
        "lanes": line.lanes,
        "masked_off": line.masked_off,
        "operations": dict(line.operations),
    }


def _access(access: Any) -> dict[str, Any]:
    names = ("bits", "requests", "sectors", "ideal", "tile_sectors", "tile_ideal", "nested")
    trace = access.trace
    return {
        "line": _place(trace.location),
        "kind": trace.kind,
        "requested": trace.requested,
        **{name: getattr(access, name) for name in names},
    }


def join(paths: list[Path]) -> None:
    *inputs, output = paths
    times = json.loads(inputs[0].read_text())
    facts = {
        (launch["kernel"], launch["shape"]): launch
        for path in inputs[1:]
        for launch in json.loads(path.read_text())
    }
    points = []
    for point in times["points"]:
        launch_facts = facts.get((point["kernel"], point["shape"]))
        if launch_facts:
            points.append({**launch_facts, "seconds": point["seconds"]})
    with gzip.open(output, "wt") as file:
        json.dump({**times, "points": points}, file)
    print(f"{len(points)} of {len(times['points'])} launches")


@dataclass(frozen=True, kw_only=True)
class Point:
    """A timed launch, and the inputs of the model of GPU times."""

    kernel: str
    shape: str
    seconds: float
    device: Device
    counts: WorkCounts
    sass: str
    blocks: Blocks
    accesses: list[Access]


def read_points(path: Path) -> list[Point]:
    """Return the launches in a file that `join` wrote."""
    with gzip.open(path, "rt") as file:
        data = json.load(file)
    device = device_called(data["device"])
    assert device is not None
    return [_point(point, device) for point in data["points"]]


def _point(point: Mapping[str, Any], device: Device) -> Point:
    return Point(
        kernel=point["kernel"],
        shape=point["shape"],
        seconds=point["seconds"],
        device=device,
        counts=_counts(point),
        sass=point["sass"],
        blocks=Blocks(
            warps=point["warps"],
            resident=point["occupancy"]["blocks"],
            shared=point["resources"]["shared"],
            spilled=point["resources"]["spilled"] * point["resources"]["threads"],
        ),
        accesses=[
            Access(
                kind=access["kind"],
                requested=access["requested"],
                sectors=access["sectors"] / access["ideal"] if access["ideal"] else 1.0,
                tile_sectors=(
                    access["tile_sectors"] / access["tile_ideal"] if access["tile_ideal"] else 1.0
                ),
            )
            for access in point["accesses"]
        ],
    )


def _counts(point: Mapping[str, Any]) -> WorkCounts:
    lines, total = [], LineCounts(None)
    for line in point["lines"]:
        counts = {name: value for name, value in line.items() if name not in ("line", "operations")}
        file, number = line["line"] or ("", 0)
        place = SourceLocation(file, number, 0) if file else None
        lines.append(LineCounts(place, **counts, operations=Counter(line["operations"])))
        total.add(lines[-1])
    return WorkCounts(
        programs=point["programs"],
        total=total,
        lines=tuple(lines),
        unique_loaded=point["unique_loaded"],
        unique_stored=point["unique_stored"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("time", "describe", "join"))
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--part", default="0/1")
    arguments = parser.parse_args()
    if arguments.what == "time":
        time(arguments.paths[0])
    elif arguments.what == "describe":
        describe(arguments.paths[0], arguments.device, arguments.part)
    else:
        join(arguments.paths)


if __name__ == "__main__":
    main()
