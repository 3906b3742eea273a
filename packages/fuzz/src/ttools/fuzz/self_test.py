"""The fuzzer as a self-test on a user's machine: new kernels for some seconds, and a report."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ttools.fuzz.generate.kernel import generate
from ttools.fuzz.script import script
from ttools.fuzz.shrink import reduce_failure
from ttools.fuzz.trial import Failure, Verdict
from ttools.fuzz.variants import BY_NAME, usable
from ttools.fuzz.workers import Work, verdicts


@dataclass
class Outcome:
    """The results of a number of kernels.

    Attributes:
        kernels: Number of kernels that ran.
        rejected: Number of kernels that Triton rejected.
        launches: Number of launches by variant.
        failures: The first failure of each cause.
        scripts: A reduced script for each failure.
        first: The first seed of the run.
    """

    kernels: int = 0
    rejected: int = 0
    launches: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    first: int = 0

    def add(self, verdict: Verdict) -> None:
        self.kernels += 1
        self.launches.update(verdict.variants)
        self.rejected += any(failure.kind == "rejected" for failure in verdict.failures)
        causes = {failure.cause for failure in self.failures}
        for failure in verdict.failures:
            if failure.kind != "rejected" and failure.cause not in causes:
                self.failures.append(failure)
                causes.add(failure.cause)


def self_test(
    seconds: float,
    *,
    first: int,
    processes: int | None = None,
    shrinking: float = 45.0,
    progress: Callable[[float, Outcome], None] = lambda _part, _outcome: None,
    work: Work | None = None,
) -> Outcome:
    """Run new kernels for some seconds, and shrink those that fail.

    Args:
        seconds: Time for running kernels in seconds; shrinking is not included.
        first: Seed of the first kernel.
        processes: Number of worker processes; None for two, or for one on a machine with one core.
        shrinking: Time limit for shrinking each failure in seconds.
        progress: Called with the elapsed share of the time, and the outcome so far.
        work: Options of the workers; None for four variants per kernel, from all that this machine
            can run.
    """
    work = work or Work(variants=tuple(variant.name for variant in usable()))
    outcome, start = Outcome(first=first), 0.0

    def seeds() -> Iterator[int]:
        for seed in itertools.count(first):
            # The time starts with the first verdict, because starting processes takes seconds.
            if (outcome.kernels and time.monotonic() - start > seconds) or len(
                outcome.failures
            ) > 2:
                return
            yield seed

    for verdict in verdicts(seeds(), work, processes or min(2, os.cpu_count() or 1)):
        start = start or time.monotonic()
        outcome.add(verdict)
        progress(min(1.0, (time.monotonic() - start) / seconds), outcome)
    outcome.scripts = [smallest_script(failure, work, shrinking) for failure in outcome.failures]
    return outcome


def smallest_script(failure: Failure, work: Work, seconds: float = 45.0) -> str:
    """Return a short script that fails like the kernel of `failure`."""
    program = generate(failure.seed, work.features)
    variant = BY_NAME.get(failure.variant, BY_NAME["native"])
    if failure.variant not in BY_NAME and not work.device:
        return script(program, variant, cpu=work.cpu)
    small, latest = reduce_failure(program, failure, work, seconds)
    return script(small, variant, cpu=work.cpu, mismatch=latest.mismatch)
