"""Times whole processes that need a configuration which is known, beside one that has it fixed.

    python benchmarks/tuning/known.py [--only add_norm,route] [--autotune route] [--rounds 5]
        [--shape small] [--seconds 300] [--output FILE]

For each problem `ttools tune known_launch.py` tunes the kernel once. Then processes are run in
turns: the winner fixed in the program, `ttools tune` with the store that has it all, the program
with `@tune` and that store, and, of the problems of `--autotune`, `triton.autotune` with
`cache_results` and a disk cache that has it. Without a GPU the first one is `ttools interpret`,
which runs it, and the last one is left out. Told are the medians of wall time and of processor
time, user's and system's of all processes that were waited for, and how many times the first one's
each is.
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

from ttools.core.environment import gpu_usable

PROGRAM = str(Path(__file__).with_name("known_launch.py"))
#: Kernels that nothing of the tuner is chosen on.
NAMES = "add_norm,quantize,route,selective_scan,window_attention,block_scaled"


def commands(
    name: str, shape: str, folder: Path, on_gpu: bool, autotunes: bool
) -> dict[str, list[str]]:
    """The command of each way."""
    store = str(folder / "store.sqlite")
    python, ttools = [sys.executable], ["ttools"]

    def program(way: str, file: str) -> list[str]:
        return [PROGRAM, name, shape, way, str(folder / file)]

    found = {
        "fixed": [
            *(python if on_gpu else [*ttools, "interpret"]),
            *program("fixed", "winner.json"),
        ],
        "ttools tune": [
            *(*ttools, "tune", "--store", store),
            *program("autotune", "winner.json"),
        ],
        "@tune": [*python, *program("tune", "store.sqlite")],
    }
    if on_gpu and autotunes:
        found["autotune"] = [*python, *program("cached", "unused")]
    return found


def timed(command: Sequence[str], caches: Mapping[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env={**os.environ, **caches}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors.decode(errors='replace')}")
    return wall, usage.ru_utime + usage.ru_stime


def measure(name: str, shape: str, rounds: int, on_gpu: bool, autotunes: bool) -> dict[str, Any]:
    """Medians of each way, for a problem."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        caches = {
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "TTOOLS_CACHE_DIR": str(folder / "own"),
        }
        ways = commands(name, shape, folder, on_gpu, autotunes)
        first = {"tuned": timed(ways["ttools tune"], caches)[0]}
        for way in ways:  # each tunes what it remembers, and compiles what it launches
            timed(ways[way], caches)
        samples: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for turn in range(rounds):
            for way in list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]:
                samples[way].append(timed(ways[way], caches))
    medians = {
        way: tuple(statistics.median(each) for each in zip(*own, strict=True))
        for way, own in samples.items()
    }
    return {"kernel": name, "shape": shape, **first, "medians": medians, "samples": samples}


def ratios(row: Mapping[str, Any], place: int) -> dict[str, float]:
    """How many times the fixed one's time each way takes, wall (0) or processor's (1)."""
    base = row["medians"]["fixed"][place]
    return {way: own[place] / base for way, own in row["medians"].items() if way != "fixed"}


def told(row: Mapping[str, Any]) -> str:
    """A row as people read it."""
    wall, processor = ratios(row, 0), ratios(row, 1)
    taken = [
        f"{way} {own[0]:.2f} s ({wall[way]:.2f}), processor {own[1]:.2f} s ({processor[way]:.2f})"
        for way, own in row["medians"].items()
        if way != "fixed"
    ]
    fixed = row["medians"]["fixed"]
    return "; ".join(
        [f"{row['kernel']}: fixed {fixed[0]:.2f} s, processor {fixed[1]:.2f} s", *taken]
    )


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """The mean and the worst ratio of each way."""
    lines = []
    for place, what in enumerate(("wall", "processor")):
        for way in dict.fromkeys(way for row in rows for way in ratios(row, place)):
            found = [ratios(row, place) for row in rows]
            own = [each[way] for each in found if way in each]
            mean = math.exp(statistics.fmean(map(math.log, own)))
            lines.append(
                f"{what}, {way}: {mean:.2f} on average (geometric), {max(own):.2f} at most"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default=NAMES, help="names of problems, separated by commas")
    parser.add_argument("--autotune", default="", help="the same, beside `triton.autotune` too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--shape", help="a number, or small; by default small without a GPU, else 0"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no kernel after so long")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    began, on_gpu = time.monotonic(), gpu_usable()
    shape = options.shape or ("0" if on_gpu else "small")
    rows: list[dict[str, Any]] = []
    for name in options.only.split(","):
        if time.monotonic() - began > options.seconds:
            print("out of time at", name)
            break
        autotunes = name in options.autotune.split(",")
        rows.append(measure(name, shape, options.rounds, on_gpu, autotunes))
        print(told(rows[-1]), flush=True)
        if options.output is not None:
            options.output.write_text(json.dumps(rows) + "\n")
    print(summary(rows))


if __name__ == "__main__":
    main()
