"""Repeats calls of a candidate in a process that never imports it, mostly on other inputs.

A candidate's process sends a plan of each call, see `replay/plan.py`. A trusted process executes
the plan on inputs that this module chooses, and the result must equal that of the reference. A
result that was computed elsewhere or remembered can only be a constant of the plan, which is wrong
for inputs that the candidate never saw. No claim of the candidate's process can turn a wrong plan
into a correct one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import TensorImage, elements
from ttools.verifier.judging.processes import NotLoadedError, Processes
from ttools.verifier.judging.trial import Trial, Trials, layouts
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.workers.replayer import digest_of
from ttools.verifier.workers.results import flat

#: Number of plans that are always executed on other inputs. Later plans are executed
#: on other inputs only if they contain a new kernel or constant, or at random (see `_ONE_IN`).
_FIRST_UNSEEN = 6
#: One in this many of the remaining plans is executed on other inputs, at random.
_ONE_IN = 8
#: No more plans are executed after the process that executes them has ended this many times.
_MOST_ENDS = 3
#: Classes of failures of a repeated call that the kernel itself causes.
_OWN_CLASSES = ("memory", "race", "not_computed_by_kernel")
#: Constants of more bytes than this share of the largest argument may contain a result.
_SHARE = 0.25
#: Calls that take less than this are repeated by code that is not optimised.
_QUICK_S = 1.0
#: Results of fewer elements are not compared with constants.
_TELLING = 8


class Replays:
    """Executes the plans of one verification.

    Args:
        processes: Starts the process that executes them.
        trials: Runs and compares calls.
        anew: Runs a case, optionally with other inputs, in a new process of the candidate.
        seed: Seed of the other inputs, to repeat a run. By default it is drawn from the system, so
            that no candidate can predict it.

    Attributes:
        cases: Number of cases whose plan was executed.
        unseen: Number of those that were executed on inputs that the candidate never saw.
        reasons: Reasons why plans were not executed, or only on known inputs, with the
            number of cases.
    """

    def __init__(
        self,
        processes: Processes,
        trials: Trials,
        anew: Callable[..., Trial],
        seed: int | None = None,
    ) -> None:
        self._processes, self._trials, self._anew, self._seed = processes, trials, anew, seed
        self._worker: Worker | None = None
        self._ends = 0
        #: Why no process executes plans any more.
        self._ended = "the process that executes plans was terminated too often"
        #: Digests of the kernels and constants of plans whose results were correct on other inputs.
        self._known: set[bytes] = set()
        self.cases = self.unseen = 0
        self.reasons: Counter[str] = Counter()

    def check(self, case: Case, trial: Trial) -> list[tuple[Mismatch, Case]]:
        """Execute the plan of a call with correct results; return the failures with their cases."""
        if not trial.plan:
            return self._not_replayed(
                trial.no_plan or "the candidate's process did not send a plan"
            )
        answer = self._ask(_taking(trial))
        if "refused" in answer:
            return self._not_replayed(answer["refused"])
        if "forged" in answer:
            # The recorder checks each plan before it sends it, so this one was changed.
            return [(_not_computed(f"its process sent a forged plan: {answer['forged']}"), case)]
        names = set(answer["kernels"]) | {digest for digest, _ in answer["constants"]}
        other, why = self._other_inputs(case, trial, answer["reads"])
        if other is None:
            self.reasons[why] += 1
            results = self._possible_results(trial, answer["constants"])
            if results:
                return self._check_blanked(case, trial, results, why)
        elif self._wants_unseen(names):
            return self._check_unseen(*other, names)
        return self._check_seen(case, trial)

    @property
    def is_verified(self) -> bool:
        """True if each plan was executed, and each could be executed on other inputs."""
        return bool(self.unseen) and not self.reasons

    # ---- one plan
    def _check_seen(self, case: Case, trial: Trial) -> list[tuple[Mismatch, Case]]:
        again = self._execute(case, trial.sent, trial.right)
        if again.unsupported:
            return self._not_replayed(again.unsupported)
        self.cases += 1
        return [(_explained(problem), case) for problem in again.problems[:1]]

    def _check_blanked(
        self, case: Case, trial: Trial, results: list[bytes], why: str
    ) -> list[tuple[Mismatch, Case]]:
        """Execute a plan with zeros instead of constants that may contain its result."""
        answer = self._ask({**_taking(trial), "blank": results})
        if "refused" in answer:
            return self._not_replayed(answer["refused"])
        again = self._execute(case, trial.sent, trial.right)
        if again.unsupported:
            return self._not_replayed(again.unsupported)
        self.cases += 1
        detail = f"{why}, and the call is wrong if constants that may contain its result are zeroed"
        return [(_not_computed(detail), case)] if again.problems else []

    def _check_unseen(
        self, case: Case, sent: dict[str, Any], names: set[bytes]
    ) -> list[tuple[Mismatch, Case]]:
        again = self._execute(case, sent, None)
        if again.unsupported:
            return self._not_replayed(again.unsupported)
        self.cases += 1
        self.unseen += 1
        if again.skipped or not again.problems:
            self._known |= names
            return []
        # Are the results of the candidate itself correct on these inputs?
        own = self._anew(case, sent=sent)
        if own.problems:
            return [(problem, case) for problem in own.problems]
        return [(_explained(again.problems[0]), case)]

    def _execute(self, case: Case, sent: dict[str, Any], right: Any) -> Trial:
        worker = self._process()
        if worker is None:
            return Trial(unsupported=self._ended)
        again = self._trials.repeat(case, worker, sent, right)
        if again.is_gone:
            self._end()
        return again

    def _wants_unseen(self, names: set[bytes]) -> bool:
        return (
            self.unseen < _FIRST_UNSEEN
            or not names <= self._known
            or os.urandom(1)[0] % _ONE_IN == 0
        )

    def _other_inputs(
        self, case: Case, trial: Trial, reads: list[str]
    ) -> tuple[tuple[Case, dict[str, Any]] | None, str]:
        """Return other inputs of the same layouts, or the reason why there are none."""
        if not self._trials.is_seeded:
            return (
                None,
                "`inputs` does not take a seed, so there are no other inputs of these sizes",
            )
        seed = int.from_bytes(os.urandom(4), "little") >> 1
        if self._seed is not None:
            seed = self._seed + self.unseen
        values = "drawn" if case.values == "permuted" else case.values
        fresh = replace(case, seed=seed, values=values, after=(), reuse=False, late_grad=False)
        sent = self._trials.drawn(fresh)
        kept = {name.partition("[")[0] for name in reads}
        if "error" in sent:
            return None, f"`inputs` raises with seed {seed}"
        sent |= {key: value for key, value in trial.sent.items() if key in kept}
        if layouts(sent) != layouts(trial.sent) or _numbers(sent) != _numbers(trial.sent):
            return None, "`inputs` returns different shapes or numbers for different seeds"
        if kept and all(key in kept or not _has_elements(value) for key, value in sent.items()):
            shown = ", ".join(f"`{key}`" for key in sorted(kept))
            return None, f"the candidate reads elements of {shown} on the host"
        return (fresh, sent), ""

    def _possible_results(self, trial: Trial, constants: list[Any]) -> list[bytes]:
        """Return digests of constants that no correct plan contains and that may be a result.

        These are constants that are large compared with the arguments, or equal to a result.
        """
        sizes = [len(e.data) for v in trial.sent.values() for _, e in flat(v) if _is_image(e)]
        most = max(8, _SHARE * max(sizes, default=0))
        images = [part["image"] for part in trial.results if part["kind"] == "tensor"]
        results = {digest_of(image.data) for image in images if _is_telling(image)}
        return [
            digest
            for digest, size in constants
            if digest in results or (size > most and digest not in self._known)
        ]

    def _not_replayed(self, reason: str) -> list[tuple[Mismatch, Case]]:
        self.reasons[reason] += 1
        return []

    # ---- the process
    def _process(self) -> Worker | None:
        if self._worker is None and self._ends < _MOST_ENDS:
            try:
                self._worker = self._processes.replayer()
            except (NotLoadedError, WorkerEndedError) as error:
                self._ended = f"the process that executes plans cannot start: {error.message}"
                self._ends = _MOST_ENDS
        return self._worker

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        worker = self._process()
        if worker is None:
            return {"refused": self._ended}
        try:
            answer: dict[str, Any] = worker.ask(request)
        except WorkerEndedError as error:
            self._end()
            return {"refused": f"the process that executes plans failed: {error.message}"}
        return {"refused": answer["broken"]} if "broken" in answer else answer

    def _end(self) -> None:
        if self._worker is not None:
            self._processes.end(self._worker)
        self._worker = None
        self._ends += 1


def _taking(trial: Trial) -> dict[str, Any]:
    return {"do": "plan", "data": trial.plan, "quick": trial.seconds < _QUICK_S}


def _explained(problem: Mismatch) -> Mismatch:
    """Return the failure of a call whose own result was correct but whose plan fails."""
    if problem.failure in _OWN_CLASSES:
        return problem
    detail = f"when its launches and host operations are repeated without it: {problem.detail}"
    return _not_computed(detail)


def _not_computed(detail: str) -> Mismatch:
    return Mismatch("not_computed_by_kernel", detail, {"replay": True})


def _numbers(arguments: dict[str, Any]) -> list[Any]:
    flattened = [part for key, value in arguments.items() for part in flat(value, key)]
    return [repr(part) for _, part in flattened if not _is_image(part)]


def _is_image(value: Any) -> bool:
    return isinstance(value, TensorImage)


def _is_telling(image: TensorImage) -> bool:
    """Return whether a tensor is large and varied enough that no other is equal by coincidence."""
    data = elements(image).reshape(-1)
    return data.numel() >= _TELLING and bool((data != data[0]).any())


def _has_elements(value: Any) -> bool:
    return any(_is_image(part) and 0 not in part.shape for _, part in flat(value))
