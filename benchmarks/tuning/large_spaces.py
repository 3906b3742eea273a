"""What a large space costs before its first trial and for each choice, and how near searches come.

    python benchmarks/tuning/large_spaces.py [--powers 4,5,6] [--budgets 125,250,500] [--seeds 3]

Spaces in TOML of as many parameters as the power says, ten values each, without a kernel: a made-up
cost of each configuration stands for its time, best somewhere inside, with parameters that depend
on each other and noise of half a percent. Processor time and memory of this process; one process a
space, so that memory is its own.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from ttools.tuner.search.guided import guided
from ttools.tuner.space.candidate import Candidate, candidates
from ttools.tuner.space.toml_space import read_space

#: Values of each parameter.
VALUES = 10
#: How much slower, in logarithms, the end of an axis is than its best value.
WORST = 1.2
NOISE = 0.005


class Costs:
    """A made-up cost of each configuration."""

    def __init__(self, power: int, seed: int) -> None:
        draw = random.Random(seed)
        self.best = [draw.uniform(2, VALUES - 3) for _ in range(power)]
        self.weights = [draw.uniform(0.2, 1.0) for _ in range(power)]
        pairs = [(a, b) for a in range(power) for b in range(a)]
        self.together = {pair: draw.uniform(-0.6, 0.6) for pair in draw.sample(pairs, power)}

    def of(self, candidate: Candidate) -> float:
        """Positive."""
        ranks = [math.log2(v) for n, v in candidate.values.items() if n.startswith("P")]
        apart = [(r - b) / VALUES * 2 for r, b in zip(ranks, self.best, strict=True)]
        weighed = sum(w * a * a for w, a in zip(self.weights, apart, strict=True))
        joint = sum(
            weight * apart[a] * apart[b] * math.sqrt(self.weights[a] * self.weights[b])
            for (a, b), weight in self.together.items()
        )
        noise = random.Random(candidate.index).gauss(0, NOISE)
        return math.exp(WORST * (weighed + joint) + noise)


def seconds_and_megabytes() -> tuple[float, float]:
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(power: int, budgets: Sequence[int], seeds: int) -> None:
    """Prints a row of each table."""
    began, empty = seconds_and_megabytes()
    data = {
        "parameters": {f"P{n}": {"powers_of_two": [1, 1 << (VALUES - 1)]} for n in range(power)}
    }
    space = candidates(read_space(data).triton_configs())
    listed, memory = seconds_and_megabytes()
    next(guided(space, 0))
    first, _ = seconds_and_megabytes()
    print(f"{len(space):>10,}: listed {listed - began:.1f} s, first {first - listed:.1f} s")
    regrets: dict[int, list[float]] = {each: [] for each in budgets}
    choices: list[float] = []
    for seed in range(seeds):
        costs = Costs(power, seed)
        best = min(map(costs.of, space))
        search = guided(space, seed)
        found: list[float] = []
        batch = next(search)
        while len(found) < max(budgets):
            own = [costs.of(each) for each in batch]
            found += own
            before = time.process_time()
            batch = search.send([*own])
            choices.append(time.process_time() - before)
        for each in budgets:
            regrets[each].append(min(found[:each]) / best - 1)
    _, peak = seconds_and_megabytes()
    middle, most = statistics.median(choices), max(choices)
    print(f"  memory {memory - empty:,.0f} MB listed, {peak - empty:,.0f} MB in all")
    search_s = sum(choices) / seeds
    print(f"  a choice {middle:.2f} s (median), {most:.1f} s (most), {search_s:.0f} s a search")
    for each, own in regrets.items():
        mean = statistics.fmean(own)
        print(f"  {each:>6} trials: {mean:.2%} off, {max(own):.2%} at worst", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--powers", default="4,5,6")
    parser.add_argument("--budgets", default="125,250,500")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    powers = [int(each) for each in options.powers.split(",")]
    if len(powers) == 1:
        measure(powers[0], [int(each) for each in options.budgets.split(",")], options.seeds)
        return
    for power in powers:
        own = ["--powers", str(power), "--budgets", options.budgets, "--seeds", str(options.seeds)]
        subprocess.run([sys.executable, __file__, *own], check=True)


if __name__ == "__main__":
    main()
