"""Measures how close the guided search comes to the optimum on kernels it was not fitted to.

    python benchmarks/tuning/leave_one_out.py benchmarks/spaces/*.json [--seeds 3] [--jobs 2]
        [--budgets 16,24,32,48] [--only conv2d,adam] [--in-turn] [--hint kernel|family|all|none]

Replays recorded spaces without a GPU: the search receives the medians that were recorded. The first
three shapes of each kernel are tuned separately; with `--in-turn`, each shape starts from the
results of the previous ones, as in a program that launches them one after another.

`--hint` selects the weights of the static cost: `kernel` fits them without the kernel, `family`
without all similar kernels, `all` uses the tuner's own weights, and `none` uses no static cost.

The first table has a row per kernel and a column per budget. A cell contains the shares of runs
that find a configuration within 2% and within 5% of the optimum, and the gap of the worst run. A
budget is a number of trials or a level of effort. The second table has a row per budget: trials and
regret of all runs.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

from fit_static_cost import PROCESSORS, without
from tuning_samples import Recorded, read_samples

from ttools.tuner.cost.static_cost import WEIGHTS, Weights, expected_costs
from ttools.tuner.options import EFFORTS, TuneOptions
from ttools.tuner.search.guided import Known, guided
from ttools.tuner.store.experience import distance

#: Number of shapes of each kernel that are tuned.
SHAPES = 3
#: Relative gaps to the optimum up to which a result counts as near, and as acceptable.
NEAR, FAR = 0.02, 0.05
#: Relative gap between the best configuration found and the optimum, by budget.
Gaps = Mapping[str, float]
#: The quantile of the gaps that the second table shows.
MOST = 0.95


@cache
def weights_without(files: tuple[Path, ...], kernel: str, hint: str) -> Weights | None:
    """Return weights of the static cost, fitted as `hint` says: without a kernel or its family."""
    if hint == "none":
        return None
    rows = [row for file in files for row in read_samples(file)]
    return WEIGHTS if hint == "all" else without(rows, kernel, hint)


def tried(
    row: Recorded, seed: int, trials: int, others: Sequence[Known], weights: Weights | None
) -> Known:
    """Return the recorded costs of the configurations that the guided search tries, in order."""

    def hint() -> Mapping[str, float]:
        return {} if weights is None else expected_costs(row.facts, PROCESSORS, weights)

    search = guided(row.space, seed, others, hint)
    # As in a real tuning run, the first configuration that runs is the reference.
    costs: dict[str, float | None] = {row.space[0].key: row.costs[row.space[0].key]}
    try:
        batch = next(search)
        while True:
            new = [item for item in batch if item.key not in costs][: trials - len(costs)]
            costs |= {item.key: row.costs[item.key] for item in new}
            if len(costs) >= trials:
                return costs
            batch = search.send([costs[item.key] for item in batch])
    except StopIteration:
        return costs


def trials_of(budget: str, space: int) -> int:
    """Return the number of configurations that a budget allows."""
    chosen = TuneOptions(effort=budget) if budget in EFFORTS else TuneOptions(trials=int(budget))
    return chosen.budget(space)


def tried_of(row: Recorded, budgets: Sequence[str]) -> Gaps:
    """Return the number of configurations that each budget allows for a shape."""
    return {budget: trials_of(budget, len(row.space)) for budget in budgets}


def curve(row: Recorded, found: Known, budgets: Sequence[str]) -> Gaps:
    """Return the gap for each budget; `found` has the costs in the order of the search."""
    costs = [cost if cost is not None else float("inf") for cost in found.values()]
    size = len(row.space)
    return {budget: min(costs[: trials_of(budget, size)]) / row.best - 1 for budget in budgets}


def curves(
    files: tuple[Path, ...],
    budgets: Sequence[str],
    in_turn: bool,
    hint: str,
    task: tuple[str, str, int],
) -> list[tuple[Gaps, Gaps]]:
    """Return gaps and trials for each shape of a kernel; `task` is (file, kernel, seed)."""
    file, kernel, seed = task
    rows = [row for row in read_samples(Path(file)) if row.kernel == kernel][:SHAPES]
    weights = weights_without(files, kernel, hint)
    earlier: list[tuple[Recorded, Known]] = []
    gaps = []
    for row in rows:
        earlier.sort(key=lambda pair: distance(pair[0].shape, row.shape))
        others = [costs for _, costs in earlier]
        most = max(trials_of(budget, len(row.space)) for budget in budgets)
        own = tried(row, seed, most, others, weights)
        gaps.append((curve(row, own, budgets), tried_of(row, budgets)))
        if in_turn:
            budget = TuneOptions().budget(len(row.space))
            earlier.append((row, dict(list(own.items())[:budget])))
    return gaps


def cell(gaps: Sequence[float]) -> str:
    """Return a cell: the shares of runs that are near and acceptable, and the worst gap."""
    near, well = (sum(gap <= most for gap in gaps) / len(gaps) for most in (NEAR, FAR))
    return f"{near:4.0%} {well:4.0%} {max(gaps):6.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="16,24,32,48")
    parser.add_argument("--only", default="", help="names of problems, separated by commas")
    parser.add_argument("--in-turn", action="store_true", help="use the results of earlier shapes")
    parser.add_argument("--hint", default="kernel", choices=("none", "kernel", "family", "all"))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    budgets = options.budgets.split(",")
    names = set(filter(None, options.only.split(",")))
    kernels = [
        (str(file), kernel)
        for file in options.files
        for kernel in dict.fromkeys(row.kernel for row in read_samples(file))
        if not names or kernel in names
    ]
    tasks = [(*kernel, seed) for kernel in kernels for seed in range(options.seeds)]
    every: list[tuple[Gaps, Gaps]] = []
    print(f"{'left out: within 2%, 5%, worst':34}" + "".join(f"{budget:>20}" for budget in budgets))
    with ProcessPoolExecutor(options.jobs) as executor:
        work = partial(curves, tuple(options.files), budgets, options.in_turn, options.hint)
        results = executor.map(work, tasks)
        for file, kernel in kernels:
            own = [run for _ in range(options.seeds) for run in next(results)]
            every += own
            print_row(f"{kernel} ({Path(file).stem})", [gaps for gaps, _ in own], budgets)
    print_row("all", [gaps for gaps, _ in every], budgets)
    print(f"\n{f'{len(every)} runs':12}{'trials':>10}{'mean':>10}{f'{MOST:.0%}':>10}{'worst':>10}")
    for budget in budgets:
        print_budget(budget, every)


def print_row(name: str, own: Sequence[Gaps], budgets: Sequence[str]) -> None:
    """Print a row of the first table."""
    cells = (cell([gaps[budget] for gaps in own]) for budget in budgets)
    print(f"{name:34}" + "".join(f"{text:>20}" for text in cells), flush=True)


def print_budget(budget: str, runs: Sequence[tuple[Gaps, Gaps]]) -> None:
    """Print a row of the second table: trials; mean, 95% quantile and maximum of the gaps."""
    gaps = sorted(gaps[budget] for gaps, _ in runs)
    mean, most = statistics.fmean(gaps), gaps[min(len(gaps) - 1, int(MOST * len(gaps)))]
    trials = statistics.fmean(tried[budget] for _, tried in runs)
    cells = f"{mean:10.2%}{most:10.2%}{gaps[-1]:10.2%}"
    print(f"{budget:12}{trials:10.1f}{cells}")


if __name__ == "__main__":
    main()
