"""Checks memory accesses for all sizes of the domain at once, in a separate process.

This module chooses the values of parameters that are not sizes, limits the time, and describes the
outcome. Only an error at concrete sizes is a failure. Accesses that were not proved or could not be
analysed are reported, but do not change the verdict.

The process runs the candidate. The candidate can therefore change the analysis, the kernels that
are analysed and the answer, or launch different kernels while it is analysed. For this reason,
proofs from this process are reported as claims, with the number of sizes at which calls were
repeated without the candidate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from msgspec import to_builtins

from ttools.core.process.channel import WorkerEndedError, WorkerSlowError
from ttools.core.process.worker import Worker
from ttools.core.reports.report import counted
from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.result import CLAIMED
from ttools.verifier.run.answers import AllSizesFinding, MalformedAnswerError, all_sizes_answer
from ttools.verifier.run.finding_classes import of_findings
from ttools.verifier.run.processes import NotLoadedError, Processes

#: Smallest number of elements at which 32-bit offsets overflow.
_MANY = 1 << 31
#: Default time limits in seconds: for domains with fewer elements than `_MANY`, and for all larger
#: domains.
_USUAL_SECONDS = 5.0, 25.0
#: Additional seconds before the process is terminated, because it checks the time only between
#: steps.
_GRACE = 10.0
#: Number of seconds that must remain for a further check to begin.
_LEAST = 0.5
#: A failing case is also run with real tensors if the accessed storage has at most this many bytes.
_FEW_BYTES = 1 << 26


@dataclass(frozen=True)
class Found:
    """A failure at certain sizes.

    Attributes:
        problem: Class and description of the failure.
        case: Case with the sizes of the failure.
        fits: If True, the tensors of the case are small enough to run it.
    """

    problem: Mismatch
    case: Case
    fits: bool


@dataclass(frozen=True)
class _Run:
    """Outcome of the check for one value of each choice."""

    case: Case
    verdict: str
    reasons: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    failures: tuple[Found, ...] = ()


def usual_seconds(ranges: dict[str, tuple[int, int]]) -> float:
    """Return the default time limit in seconds for a domain with these ranges of sizes."""
    most = math.prod(high for _, high in ranges.values())
    return _USUAL_SECONDS[most >= _MANY]


def claim_text(replayed_sizes: int) -> str:
    """Return what is known about accesses that were proved in a process of the candidate.

    Args:
        replayed_sizes: Number of sizes at which calls were repeated without the candidate.
    """
    checked = f"at {counted(replayed_sizes, 'size')}" if replayed_sizes else "at no size"
    return (
        "proved in a process that runs the candidate, which can falsify this; checked without the "
        f"candidate {checked}"
    )


def late_text(seconds: float) -> str:
    """Return the phrase that a report contains if the time limit for all sizes is reached."""
    return f"the time limit of {seconds:g} s for all sizes was reached (--all-sizes-seconds)"


class AllSizesTried:
    """Checks all sizes, and keeps the outcomes.

    Args:
        ranges: Smallest and largest value of each size.
        seconds: Time limit in seconds, for all choices together.
        late: What the report says if the limit is reached, including the option that sets the
            limit; by default, it names the option for all sizes.
    """

    def __init__(
        self,
        processes: Processes,
        ranges: dict[str, tuple[int, int]],
        seconds: float,
        late: str = "",
    ) -> None:
        self._processes, self._ranges = processes, ranges
        self._until = time.monotonic() + seconds
        self._late = late or late_text(seconds)
        self._runs: list[_Run] = []

    def run(self, cases: Iterable[Case], why: str = "") -> Iterator[Found]:
        """Check the domain for the choices of each case, until a case fails.

        Args:
            cases: One case for each combination of choices.
            why: Reason to skip the check; empty to run it.

        Yields:
            The failures of the first case that fails, with their sizes.
        """
        worker: Worker | None = None
        why = why or ("" if self._ranges else "`inputs` does not take sizes")
        try:
            for case in cases:
                left = self._until - time.monotonic()
                if why:
                    done = _Run(case, "not tried", (why,))
                elif left < _LEAST:
                    done = _Run(case, "not tried", (self._late,))
                else:
                    try:
                        worker = worker or self._processes.all_sizes(left + _GRACE)
                        done = self._checked(worker, case, self._until - time.monotonic())
                    except WorkerSlowError:
                        # The process was terminated because it was late: it checks the time only
                        # between steps.
                        done, why = _Run(case, "not proved", (self._late,)), self._late
                    except (NotLoadedError, WorkerEndedError) as error:
                        done, why = _Run(case, "not tried", (error.message,)), error.message
                self._runs.append(done)
                yield from done.failures
                if done.failures:
                    return
        finally:
            if worker is not None:
                self._processes.end(worker)

    def _checked(self, worker: Worker, case: Case, seconds: float) -> _Run:
        answer = worker.ask(
            {
                "do": "check",
                "sizes": self._ranges,
                "choices": case.choices,
                "seed": case.seed,
                "seconds": seconds,
                "late": self._late,
            }
        )
        try:
            checked = all_sizes_answer(answer, self._ranges)
        except MalformedAnswerError as error:
            return _Run(case, "not tried", (error.message,))
        if checked.error:
            return _Run(case, "not tried", (checked.error,))
        reasons = (*([self._late] if checked.is_late else []), *checked.abstained)
        if not (checked.launches or checked.is_late):
            return _Run(case, "not tried", reasons or ("no kernel is launched",))
        failures = tuple(
            Found(
                replace(
                    problem,
                    detail=_detail(finding, checked.sentences),
                    evidence={"all_sizes": True},
                ),
                Case(sizes=finding.sizes, choices=case.choices, seed=case.seed),
                0 < finding.bytes <= _FEW_BYTES,
            )
            for finding in checked.findings
            for problem in of_findings([to_builtins(finding)])
        )
        verdict = "fails" if failures else "not proved" if reasons else CLAIMED
        return _Run(case, verdict, reasons, tuple(checked.assumptions), failures)

    def described(self, domain: Domain, replayed_sizes: int = 0) -> dict[str, Any]:
        """Return the verdict for each choice, with its reasons, as plain data.

        Args:
            domain: Domain of the inputs.
            replayed_sizes: Number of sizes at which calls were repeated without the candidate.
        """
        return {
            "sizes": {name: list(ends) for name, ends in self._ranges.items()},
            "replayed_sizes": replayed_sizes,
            "meaning_of_claimed": claim_text(replayed_sizes),
            "runs": [
                {
                    "choices": domain.labels(run.case.choices),
                    "verdict": run.verdict,
                    "why": list(run.reasons),
                    "assumed": list(run.assumed),
                }
                for run in self._runs
            ],
        }


def _detail(finding: AllSizesFinding, sentences: list[str]) -> str:
    """Describe an error and the sizes for which the kernel is correct."""
    text = finding.message
    beginning = f"`{finding.kernel}` is correct for "
    up_to = (sentence.partition(";")[0] for sentence in sentences if sentence.startswith(beginning))
    return "; ".join([text, *up_to])
