"""Replays searches over recorded spaces, without a GPU: how far from the best, how often.

    python benchmarks/replay_tuning.py benchmarks/spaces/*.json [--seeds 10] [--share 4]

A search is told the medians that `tune_vs_autotune.py` recorded, and stops after a quarter of the
space. The gap is that of its best to the best of all, by the same medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuning_problems import config_of

from ttools.tuner.search import STRATEGIES
from ttools.tuner.trial import Candidate, candidates


def recorded(row: dict[str, Any]) -> tuple[list[Candidate], dict[str, float | None]]:
    """The space of a row and what each configuration costs; None for what cannot win."""
    space = candidates([config_of(each["config"]) for each in row["trials"]])
    costs = {
        each.key: trial["median_ns"] if trial["status"] == "ok" else None
        for each, trial in zip(space, row["trials"], strict=True)
    }
    return space, costs


def best_found(
    name: str, space: Sequence[Candidate], costs: dict[str, float | None], seed: int, trials: int
) -> float:
    """The least cost among the first trials of a search."""
    search = STRATEGIES[name](space, seed)
    found: list[float] = []
    left = trials
    batch = list(next(search))
    while left > 0:
        told = [costs[each.key] for each in batch[:left]]
        found += [cost for cost in told if cost is not None]
        left -= len(told)
        if left <= 0:
            break
        try:
            batch = list(search.send(told))
        except StopIteration:
            break
    return min(found, default=float("inf"))


def gaps(row: dict[str, Any], name: str, seeds: int, share: int) -> list[float]:
    space, costs = recorded(row)
    best = min(cost for cost in costs.values() if cost is not None)
    trials = max(1, len(space) // share)
    return [best_found(name, space, costs, seed, trials) / best - 1 for seed in range(seeds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--share", type=int, default=4, help="one in so many is tried")
    parser.add_argument("--search", default="guided,random,descent")
    options = parser.parse_args()
    names = options.search.split(",")
    print(f"{'kernel and shape':44}" + "".join(f"{name:>20}" for name in names))
    totals: dict[str, list[float]] = {name: [] for name in names}
    for file in options.files:
        for row in json.loads(file.read_text())["rows"]:
            shape = "x".join(map(str, row["shape"].values()))
            text = f"{row['kernel']} {shape} ({len(row['trials'])})"
            cells = []
            for name in names:
                found = gaps(row, name, options.seeds, options.share)
                totals[name].append(statistics.median(found))
                cells.append(f"{statistics.median(found):9.1%} ({max(found):6.1%})")
            print(f"{text:44}" + "".join(f"{cell:>20}" for cell in cells))
    within = {name: sum(gap <= 0.02 for gap in found) for name, found in totals.items()}
    cells = [f"{within[name]} of {len(totals[name])}" for name in names]
    print(f"{'within 2% (median of the seeds)':44}" + "".join(f"{cell:>20}" for cell in cells))


if __name__ == "__main__":
    main()
