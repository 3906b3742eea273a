"""Accesses at all sizes of the domain at once, in a process of its own.

Owns which choices are tried, in which time, and what is said of them. A failure is only what was
seen at certain sizes; what is not proved, or cannot be followed, is said and fails nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case
from ttools.verifier.judging.finding_classes import of_findings
from ttools.verifier.judging.processes import NotLoadedError, Processes
from ttools.verifier.oracle.comparison import Mismatch

#: With tensors of so many elements offsets of 32 bits wrap.
_MANY = 1 << 31
#: How long it may take by default, without and with such sizes.
_USUAL_SECONDS = 5.0, 25.0
#: How much longer than it was asked to take the process may take, as it looks at the time between
#: steps only.
_GRACE = 10.0
#: With less time nothing is begun.
_LEAST = 0.5
#: A case is run as others are if what is accessed has so few bytes.
_FEW_BYTES = 1 << 26


@dataclass(frozen=True)
class Found:
    """A failure at certain sizes.

    Attributes:
        problem: what fails.
        case: with the sizes.
        fits: whether its tensors are small enough for another run.
    """

    problem: Mismatch
    case: Case
    fits: bool


@dataclass(frozen=True)
class _Run:
    """What came of one value of each choice."""

    case: Case
    verdict: str
    reasons: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()


def usual_seconds(ranges: dict[str, tuple[int, int]]) -> float:
    """How long a domain with these sizes may take, unless somebody says so."""
    most = math.prod(high for _, high in ranges.values())
    return _USUAL_SECONDS[most >= _MANY]


class AllSizesTried:
    """Asks for all sizes, and keeps what came of it.

    Args:
        ranges: first and last of each size.
    """

    def __init__(
        self, processes: Processes, ranges: dict[str, tuple[int, int]], seconds: float
    ) -> None:
        self._processes, self._ranges = processes, ranges
        self._until = time.monotonic() + seconds
        self._runs: list[_Run] = []

    def run(self, cases: Iterable[Case], why: str = "") -> Iterator[Found]:
        """Checks the domain for the choices of each case.

        Args:
            cases: one for each choice.
            why: they are not tried; empty if they are.

        Yields:
            What fails, with its sizes. What comes after is left out.
        """
        worker: Worker | None = None
        why = why or ("" if self._ranges else "`inputs` takes no sizes")
        try:
            for case in cases:
                left = self._until - time.monotonic()
                if why:
                    done = _Run(case, "not tried", (why,))
                elif left < _LEAST:
                    done = _Run(case, "not tried", ("there was no time left",))
                else:
                    try:
                        worker = worker or self._processes.all_sizes(left + _GRACE)
                        done = self._checked(worker, case, self._until - time.monotonic())
                    except (NotLoadedError, WorkerEndedError) as error:
                        done, why = _Run(case, "not tried", (error.message,)), error.message
                self._runs.append(done)
                yield from done.found
                if done.found:
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
            }
        )
        if "error" in answer:
            return _Run(case, "not tried", (answer["error"],))
        reasons = tuple(answer["abstained"])
        if not answer["launches"]:
            return _Run(case, "not tried", reasons or ("no kernel is launched",))
        found = tuple(
            Found(
                Mismatch(problem.failure, _detail(each, answer["sentences"]), {"all_sizes": True}),
                Case(sizes=each["sizes"], choices=case.choices, seed=case.seed),
                0 < each["bytes"] <= _FEW_BYTES,
            )
            for each in answer["findings"]
            for problem in of_findings([each])
        )
        verdict = "fails" if found else "not proved" if reasons else "proved"
        return _Run(case, verdict, reasons, tuple(answer["assumptions"]), found)

    def described(self, domain: Domain) -> dict[str, Any]:
        """What was proved, what was not and why, and what was not tried."""
        return {
            "sizes": {name: list(ends) for name, ends in self._ranges.items()},
            "runs": [
                {
                    "choices": domain.labels(each.case.choices),
                    "verdict": each.verdict,
                    "why": list(each.reasons),
                    "assumed": list(each.assumed),
                }
                for each in self._runs
            ],
        }


def _detail(finding: dict[str, Any], sentences: list[str]) -> str:
    """What is wrong, where, and up to which sizes nothing is."""
    text = f"{finding['message']} ({finding['where']})"
    known = f"`{finding['kernel']}` is right for "
    up_to = (each.partition(";")[0] for each in sentences if each.startswith(known))
    return "; ".join([text, *up_to])
