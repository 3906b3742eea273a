"""Replays searches over recorded spaces, without a GPU: how far from the best, how often.

    python benchmarks/replay_tuning.py benchmarks/spaces/*.json [--seeds 3] [--share 4] [--cold]

A search is told the medians that were recorded, and stops after a quarter of the space; the gap is
that of its best to the best of all, by the same medians. The first three shapes of a kernel are
tuned one after the other, as a program does, so the second knows what was tried for the first; with
`--cold` each shape on its own, and all shapes of the file.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from tuning_samples import Recorded, read_samples

from ttools.tuner.experience import distance
from ttools.tuner.search import STRATEGIES, Known

#: Shapes of a kernel that are tuned one after the other.
SHAPES = 3


def tried(row: Recorded, name: str, seed: int, trials: int, others: Sequence[Known]) -> Known:
    """What a search tries first, and what it is told."""
    search = STRATEGIES[name](row.space, seed, others)
    # As a tuning does: the first that runs is the reference.
    found: dict[str, float | None] = {row.space[0].key: row.costs[row.space[0].key]}
    try:
        batch = next(search)
        while True:
            new = [each for each in batch if each.key not in found][: trials - len(found)]
            found |= {each.key: row.costs[each.key] for each in new}
            if len(found) >= trials:
                return found
            batch = search.send([found[each.key] for each in batch])
    except StopIteration:
        return found


def gaps(rows: Sequence[Recorded], name: str, seed: int, share: int) -> list[float]:
    """How far the best one found is from the best, for shapes tuned one after the other."""
    known: list[tuple[Recorded, Known]] = []
    found = []
    for row in rows:
        known.sort(key=lambda pair: distance(pair[0].shape, row.shape))
        others = [costs for _, costs in known]
        own = tried(row, name, seed, max(1, len(row.space) // share), others)
        known.append((row, own))
        found.append(min(cost for cost in own.values() if cost is not None) / row.best - 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=int, default=4, help="one in so many is tried")
    parser.add_argument("--search", default="guided,random,descent")
    parser.add_argument("--cold", action="store_true", help="each shape on its own")
    options = parser.parse_args()
    names = options.search.split(",")
    for file in options.files:
        rows = read_samples(file)
        kernels = dict.fromkeys(row.kernel for row in rows)
        groups = [[row for row in rows if row.kernel == kernel] for kernel in kernels]
        if options.cold:
            groups = [[row] for group in groups for row in group]
        report(file, [group[:SHAPES] for group in groups], names, options.seeds, options.share)


def report(
    file: Path, groups: Sequence[Sequence[Recorded]], names: Sequence[str], seeds: int, share: int
) -> None:
    """Prints a table of medians over the seeds, with the worst of them."""
    print(f"{file.name:44}" + "".join(f"{name:>20}" for name in names))
    totals: dict[str, list[float]] = {name: [] for name in names}
    for rows in groups:
        by_name = {n: [gaps(rows, n, seed, share) for seed in range(seeds)] for n in names}
        for place, row in enumerate(rows):
            cells = []
            for name, runs in by_name.items():
                own = [run[place] for run in runs]
                totals[name].append(statistics.median(own))
                cells.append(f"{statistics.median(own):9.1%} ({max(own):6.1%})")
            print(f"{row!s:44}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
    within = {name: sum(gap <= 0.02 for gap in found) for name, found in totals.items()}
    cells = [f"{within[name]} of {len(totals[name])}" for name in names]
    print(f"{'within 2% (median of the seeds)':44}" + "".join(f"{cell:>20}" for cell in cells))


if __name__ == "__main__":
    main()
