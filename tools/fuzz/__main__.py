"""Runs random kernels on the engine and compares them with NumPy: see docs/reference/fuzzing.md.

    python -m tools.fuzz --seconds 60 --processes 2
    python -m tools.fuzz --seed 4711

The exit status is 1 when a kernel did not do as it should.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tools.fuzz.report import Campaign, markdown

from ttools.fuzz.generate.context import Features
from ttools.fuzz.variants import BY_NAME, VARIANTS, usable
from ttools.fuzz.workers import Work, verdicts


def main() -> int:
    """Runs a campaign as the command line says."""
    options = _parser().parse_args()
    campaign = Campaign(command=" ".join(["python -m tools.fuzz", *sys.argv[1:]]), cpu=options.cpu)
    results = options.results.open("a") if options.results else None
    for verdict in verdicts(_seeds(options), _work(options), options.processes):
        campaign.add(verdict)
        if results:
            results.write(json.dumps(asdict(verdict)) + "\n")
            results.flush()
        for failure in verdict.failures:
            if failure.kind != "rejected" or options.seed is not None:
                print(f"--- seed {failure.seed}, {failure.variant}: {failure.kind}")
                print(failure.message, flush=True)
    print(markdown(campaign))
    if options.markdown:
        options.markdown.write_text(markdown(campaign))
    return 1 if campaign.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, help="one kernel, in all variants")
    parser.add_argument("--first", type=int, default=0, help="first seed of the campaign")
    parser.add_argument("--kernels", type=int, help="how many kernels")
    parser.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--cpu", default="", help="TTOOLS_CPU of variants that name no CPU")
    parser.add_argument("--variants", type=lambda s: s.split(","), help=", ".join(BY_NAME))
    parser.add_argument("--per-kernel", type=int, default=4, help="variants for each kernel")
    parser.add_argument("--results", type=Path, help="JSON lines, one for each kernel")
    parser.add_argument("--markdown", type=Path, help="the campaign's table")
    return parser


def _work(options: argparse.Namespace) -> Work:
    variants = [BY_NAME[name] for name in options.variants] if options.variants else VARIANTS
    names = tuple(variant.name for variant in usable(variants) if variant.name != "native")
    count = options.per_kernel if options.seed is None else len(names) + 1
    return Work(variants=names, per_kernel=count, cpu=options.cpu, features=Features())


def _seeds(options: argparse.Namespace) -> Iterator[int]:
    if options.seed is not None:
        yield options.seed
        return
    if options.kernels is None and options.seconds is None:
        options.kernels = 100
    end = None if options.seconds is None else time.monotonic() + options.seconds
    for count, seed in enumerate(itertools.count(options.first)):
        if options.kernels is not None and count >= options.kernels:
            return
        if end is not None and time.monotonic() > end:
            return
        yield seed


if __name__ == "__main__":
    sys.exit(main())
