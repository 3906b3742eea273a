"""Replays searches over recorded spaces, without a GPU: how far from the best, how often.

    python benchmarks/tuning/replay_tuning.py benchmarks/spaces/*.json [--seeds 3] [--share 4]
        [--cold] [--hint none|kernel|family|all] [--jobs 2] [--repeats 20]

A search is sent the medians that were recorded, and stops after a quarter of the space; the gap is
that of its best to the best of all, by the same medians. The first three shapes of a kernel are
tuned one after the other, as a program does, so the second knows what was tried for the first; with
`--cold` each shape on its own, and all shapes of the file. What compilation lets expect is weighed
as rows of other kernels teach (`--hint kernel`, the default), of other families of kernels, or of
`all` rows, as the tuner itself does; `none` leaves it out.

With `--repeats` each shape is tuned so often by the default budget and seed, with the guided search
and all that follows it, each time with other noise on all medians: how often is the most frequent
winner the winner, and how far is the worst one from the best?
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache
from itertools import repeat
from pathlib import Path

from fit_static_cost import PROCESSORS, without
from tuning_samples import Recorded, read_samples

from ttools.tuner.cost.static_cost import WEIGHTS, Weights, expected_costs
from ttools.tuner.measure.finalists import finalists, winner
from ttools.tuner.options import TuneOptions
from ttools.tuner.search.guided import Hint, Known
from ttools.tuner.search.strategies import STRATEGIES, Search, Strategy
from ttools.tuner.space.candidate import Candidate
from ttools.tuner.store.experience import distance

#: Shapes of a kernel that are tuned one after the other.
SHAPES = 3
#: Standard deviation of a configuration's median from one tuning to the next, relative: 0.15% to
#: 0.4% on an H200, in ten tunings of the GELU and a few of others, each with memory of its own.
#: The finalists are timed more often.
NOISE, FINAL_NOISE = 0.004, 0.0025


@cache
def _recorded(files: tuple[Path, ...]) -> list[Recorded]:
    return [row for file in files for row in read_samples(file)]


@cache
def weights_without(files: tuple[Path, ...], kernel: str, hint: str) -> Weights | None:
    if hint == "none":
        return None
    return WEIGHTS if hint == "all" else without(_recorded(files), kernel, hint)


def shuffled(space: Sequence[Candidate], seed: int, others: Sequence[Known], hint: Hint) -> Search:
    """All in a random order: what a search must be better than."""
    yield random.Random(seed).sample(list(space), len(space))


SEARCHES: dict[str, Strategy] = {**STRATEGIES, "random": shuffled}


def with_noise(costs: Known, draw: random.Random, noise: float) -> dict[str, float | None]:
    """What another tuning might be told."""
    return {
        key: None if cost is None else cost * math.exp(draw.gauss(0, noise))
        for key, cost in costs.items()
    }


def tried(
    row: Recorded,
    costs: Known,
    name: str,
    seed: int,
    trials: int,
    others: Sequence[Known],
    weights: Weights | None,
) -> Known:
    """What a search tries first, and what it is sent."""

    def hint() -> Mapping[str, float]:
        return {} if weights is None else expected_costs(row.facts, PROCESSORS, weights)

    search = SEARCHES[name](row.space, seed, others, hint)
    # As a tuning does: the first that runs is the reference.
    found: dict[str, float | None] = {row.space[0].key: costs[row.space[0].key]}
    try:
        batch = next(search)
        while True:
            new = [each for each in batch if each.key not in found][: trials - len(found)]
            found |= {each.key: costs[each.key] for each in new}
            if len(found) >= trials:
                return found
            batch = search.send([found[each.key] for each in batch])
    except StopIteration:
        return found


def gaps(
    rows: Sequence[Recorded], name: str, seed: int, share: int, weights: Weights | None
) -> list[float]:
    """How far the best one found is from the best, for shapes tuned one after the other."""
    known: list[tuple[Recorded, Known]] = []
    found = []
    for row in rows:
        known.sort(key=lambda pair: distance(pair[0].shape, row.shape))
        others = [costs for _, costs in known]
        trials = max(1, len(row.space) // share)
        own = tried(row, row.costs, name, seed, trials, others, weights)
        known.append((row, own))
        found.append(min(cost for cost in own.values() if cost is not None) / row.best - 1)
    return found


def winners(rows: Sequence[Recorded], repeat: int, weights: Weights | None) -> list[str]:
    """What wins a tuning with its own noise, for shapes tuned one after the other."""
    draw = random.Random(repeat)
    known: list[tuple[Recorded, Known]] = []
    found = []
    for row in rows:
        known.sort(key=lambda pair: distance(pair[0].shape, row.shape))
        others = [costs for _, costs in known]
        budget = TuneOptions().budget(len(row.space))
        told = with_noise(row.costs, draw, NOISE)
        own = tried(row, told, "guided", 0, budget, others, weights)
        known.append((row, own))
        timed = [(e, cost) for e in row.space if (cost := own.get(e.key)) is not None]
        again = with_noise(row.costs, draw, FINAL_NOISE)
        turns = [(e, cost) for e in finalists(timed) if (cost := again[e.key]) is not None]
        found.append(winner([(each, [cost]) for each, cost in turns]).key)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=int, default=4, help="one in so many is tried")
    parser.add_argument("--search", default="guided,random")
    parser.add_argument("--hint", default="kernel", choices=("none", "kernel", "family", "all"))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--cold", action="store_true", help="each shape on its own")
    parser.add_argument("--repeats", type=int, default=0, help="tunings with noise, instead")
    options = parser.parse_args()
    names = options.search.split(",")
    for file in options.files:
        rows = read_samples(file)
        kernels = dict.fromkeys(row.kernel for row in rows)
        groups = [[row for row in rows if row.kernel == kernel] for kernel in kernels]
        if options.cold:
            groups = [[row] for group in groups for row in group]
        groups = [group[:SHAPES] for group in groups]
        weights = {k: weights_without(tuple(options.files), k, options.hint) for k in kernels}
        with ProcessPoolExecutor(options.jobs) as executor:
            if options.repeats:
                report_repeats(file, groups, options.repeats, weights, executor)
                continue
            report(file, groups, names, options.seeds, options.share, weights, executor)


def report_repeats(
    file: Path,
    groups: Sequence[Sequence[Recorded]],
    repeats: int,
    weights: Mapping[str, Weights | None],
    executor: Executor,
) -> None:
    """Prints how often the most frequent winner of each shape won."""
    print(f"{file.name:44}{'same winner':>20}{'worst winner':>20}")
    often, near = [], []
    for rows in groups:
        own_weights = repeat(weights[rows[0].kernel])
        runs = list(executor.map(winners, repeat(rows), range(repeats), own_weights))
        for place, row in enumerate(rows):
            keys = Counter(run[place] for run in runs)
            most = keys.most_common(1)[0][1]
            own = [(row.costs[key] or math.inf) / row.best - 1 for key in keys.elements()]
            often.append(most >= 0.9 * repeats)
            near += [gap <= 0.02 for gap in own]
            print(f"{row!s:44}{f'{most} of {repeats}':>20}{max(own):20.1%}", flush=True)
    print(f"{'same winner in nine of ten':44}{f'{sum(often)} of {len(often)}':>20}")
    print(f"{'within 2% (runs)':44}{statistics.fmean(near):20.1%}")


def report(
    file: Path,
    groups: Sequence[Sequence[Recorded]],
    names: Sequence[str],
    seeds: int,
    share: int,
    weights: Mapping[str, Weights | None],
    executor: Executor,
) -> None:
    """Prints a table of medians over the seeds, with the worst of them."""
    print(f"{file.name:44}" + "".join(f"{name:>20}" for name in names))
    totals: dict[str, list[float]] = {name: [] for name in names}
    every: dict[str, list[float]] = {name: [] for name in names}
    for rows in groups:
        own_weights = repeat(weights[rows[0].kernel])
        by_name = {
            name: list(
                executor.map(
                    gaps, repeat(rows), repeat(name), range(seeds), repeat(share), own_weights
                )
            )
            for name in names
        }
        for place, row in enumerate(rows):
            cells = []
            for name, runs in by_name.items():
                own = [run[place] for run in runs]
                totals[name].append(statistics.median(own))
                every[name] += own
                cells.append(f"{statistics.median(own):9.1%} ({max(own):6.1%})")
            print(f"{row!s:44}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
    within = {name: sum(gap <= 0.02 for gap in found) for name, found in totals.items()}
    cells = [f"{within[name]} of {len(totals[name])}" for name in names]
    print(f"{'within 2% (median of the seeds)':44}" + "".join(f"{cell:>20}" for cell in cells))
    shares = [statistics.fmean(gap <= 0.02 for gap in every[name]) for name in names]
    print(f"{'within 2% (runs)':44}" + "".join(f"{share:>20.1%}" for share in shares))


if __name__ == "__main__":
    main()
