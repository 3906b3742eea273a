"""Rules made of recorded spaces against the rules by hand, on shapes that the former do not know.

    python benchmarks/tuning/rules_vs_hand.py benchmarks/spaces/h200.json

A made rule chooses for each shape without having seen it (as `ttools tune rules` tells of its own);
a rule by hand gives sizes of blocks, and the configuration of the space that is nearest to them
counts. Slower than the best of the space by: on average (geometric), at worst.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuning_problems import PROBLEMS
from tuning_samples import Recorded, read_samples

from ttools.tuner.heuristics import elementwise_block, matmul_blocks
from ttools.tuner.measure.trial import Trial
from ttools.tuner.rules.synthesis import synthesise
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry


def by_hand(row: Recorded) -> Mapping[str, Any] | None:
    """What the rules of `ttools.tuner.heuristics` say; None for kernels without one."""
    if row.kernel == "gelu":
        return {"BLOCK": elementwise_block(row.shape["n"]), "TURNS": 1, "num_warps": 4}
    if "matmul" in row.kernel:
        itemsize = 1 if row.kernel.endswith("fp8") else 2
        sizes = key_of(row)
        found = matmul_blocks(sizes["M"], sizes["N"], sizes["K"], itemsize=itemsize)
        names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
        return dict(zip(names, found, strict=True))
    return None


def key_of(row: Recorded) -> Mapping[str, int]:
    """What a rule knows: what the kernel is passed, not the grid."""
    return next(each.key_of(row.shape) for each in PROBLEMS if each.name == row.kernel)


def slowdown(row: Recorded, wanted: Mapping[str, Any]) -> float:
    """Of the configuration nearest to some values, that of the best being 1."""
    able = [each for each in row.space if row.costs[each.key] is not None]
    nearest = min(
        able, key=lambda each: sum(abs(math.log2(each.values[n] / v)) for n, v in wanted.items())
    )
    return (row.costs[nearest.key] or math.inf) / row.best


def entry_of(row: Recorded, device: str) -> TuningEntry:
    """As a store has it."""
    trials = []
    for each in row.space:
        cost = row.costs[each.key]
        samples = () if cost is None else (cost * 1e-9,)
        trials.append(
            Trial(values=each.values, status="ok" if samples else "failed", samples=samples)
        )
    key = json.dumps({**key_of(row), "dtypes": []})
    problem = Problem(kernel=row.kernel, source="", key=key, device=device, versions="")
    return TuningEntry(problem=problem, trials=trials)


def told(slowdowns: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(slowdowns) - 1:.1%}, {max(slowdowns) - 1:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", type=Path, nargs="+")
    means = []
    for file in parser.parse_args().files:
        rows, device = read_samples(file), json.loads(file.read_text())["device"]
        for rule in synthesise([entry_of(row, device) for row in rows]):
            own = [row for row in rows if row.kernel == rule.kernel]
            mean, worst = rule.regret.held_out_mean, rule.regret.held_out_worst
            assert mean is not None
            assert worst is not None
            means += [math.log1p(mean)] * len(own)
            wanted = [(row, by_hand(row)) for row in own]
            hand = [slowdown(row, values) for row, values in wanted if values is not None]
            beside = f"; by hand {told(hand)}" if hand else ""
            print(f"{rule.kernel}: made {mean:.1%}, {worst:.1%}{beside}", flush=True)
    print(f"all made rules: {math.expm1(statistics.fmean(means)):.1%}")


if __name__ == "__main__":
    main()
