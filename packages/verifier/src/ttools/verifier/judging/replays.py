"""Repeats calls of a candidate in a process that never imports it, mostly on other inputs.

A candidate's process hands over a plan of each call, see `replay/plan.py`. The plan is executed by
a process of ours on inputs of our choice, and the result must be the reference's. A result that was
computed elsewhere, or remembered, is in the plan as a constant at most, which is wrong for inputs
that the candidate never saw. Nothing that its process claims makes a plan right.
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
from ttools.verifier.cases.tensors import TensorImage
from ttools.verifier.judging.processes import Processes
from ttools.verifier.judging.trial import Trial, Trials, layouts
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.workers.results import flat

#: So many plans are executed on other inputs in any case; later ones if anything in them is new.
_FIRST_UNSEEN = 6
#: Of the others, one in so many.
_ONE_IN = 8
#: After so many ends of the process that executes plans, no more are executed.
_MOST_ENDS = 3
#: Failures of a repeated call that are the kernel's own.
_OWN_CLASSES = ("memory", "race", "not_computed_by_kernel")
#: Constants of fewer bytes than this share of the largest tensor cannot hold a result.
_SHARE = 0.25


class Replays:
    """Executes the plans of one verification.

    Args:
        processes: Start the process that executes them.
        trials: Run and compare calls.
        anew: Runs a case, or given inputs of it, in a new process of the candidate.
        seed: Seed of the other inputs, to repeat a run; drawn from the system by default, so that
            no candidate knows it.

    Attributes:
        cases: Number of cases whose plan was executed.
        unseen: Number of those that were executed on inputs that the candidate never saw.
        reasons: Why plans were not executed, or only on the inputs that the candidate saw, with the
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
        #: Digests of kernels and constants of plans that were right on other inputs.
        self._known: set[bytes] = set()
        self.cases = self.unseen = 0
        self.reasons: Counter[str] = Counter()

    def check(self, case: Case, trial: Trial) -> list[tuple[Mismatch, Case]]:
        """Execute the plan of a call that was right; return what is wrong with it."""
        if not trial.plan:
            return self._not_replayed(trial.no_plan or "the candidate's process gave no plan")
        held = self._ask({"do": "plan", "data": trial.plan})
        if "refused" in held:
            return self._not_replayed(held["refused"])
        if "forged" in held:
            # The recorder checks a plan before it hands it over.
            return [
                (_not_computed(f"its process hands over a forged plan: {held['forged']}"), case)
            ]
        names = set(held["kernels"]) | {digest for digest, _ in held["constants"]}
        other, why = self._other_inputs(case, trial, held["reads"])
        if other is None:
            self.reasons[why] += 1
            if self._holds_result(trial, held):
                detail = f"{why}, and it gives kernels as many elements that no operator made"
                return [(_not_computed(detail), case)]
        elif self._wants_unseen(names):
            return self._check_unseen(*other, names)
        return self._check_seen(case, trial)

    @property
    def is_verified(self) -> bool:
        """Whether the plan of each case was executed, and all could be on other inputs."""
        return bool(self.unseen) and not self.reasons

    # ---- one plan
    def _check_seen(self, case: Case, trial: Trial) -> list[tuple[Mismatch, Case]]:
        again = self._execute(case, trial.sent, trial.right)
        if again.unsupported:
            return self._not_replayed(again.unsupported)
        self.cases += 1
        return [(_explained(each), case) for each in again.problems[:1]]

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
        # Is the candidate itself right on these inputs?
        own = self._anew(case, sent=sent)
        if own.problems:
            return [(each, case) for each in own.problems]
        return [(_explained(again.problems[0]), case)]

    def _execute(self, case: Case, sent: dict[str, Any], right: Any) -> Trial:
        worker = self._process()
        if worker is None:
            return Trial(unsupported="the process that executes plans ended too often")
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
        """Return other inputs of the same layouts, or why there are none."""
        if not self._trials.is_seeded:
            return None, "`inputs` takes no seed, so there are no other inputs of these sizes"
        seed = int.from_bytes(os.urandom(4), "little") >> 1
        if self._seed is not None:
            seed = self._seed + self.unseen
        values = "drawn" if case.values == "permuted" else case.values
        fresh = replace(case, seed=seed, values=values, after=(), reuse=False, late_grad=False)
        sent = self._trials.drawn(fresh)
        kept = {name.partition("[")[0] for name in reads}
        if "error" in sent:
            return None, f"`inputs` raises with seed {seed}"
        sent |= {key: each for key, each in trial.sent.items() if key in kept}
        if layouts(sent) != layouts(trial.sent) or _numbers(sent) != _numbers(trial.sent):
            return None, "`inputs` returns other shapes or numbers for other seeds"
        if kept and all(key in kept or not _has_elements(each) for key, each in sent.items()):
            shown = ", ".join(f"`{key}`" for key in sorted(kept))
            return None, f"the candidate reads elements of {shown} on the host"
        return (fresh, sent), ""

    def _holds_result(self, trial: Trial, held: dict[str, Any]) -> bool:
        """Whether constants of a plan could hold a result, and were in no plan that was right."""
        sizes = [len(e.data) for v in trial.sent.values() for _, e in flat(v) if _is_image(e)]
        most = max(8, _SHARE * max(sizes, default=0))
        return any(size > most and digest not in self._known for digest, size in held["constants"])

    def _not_replayed(self, reason: str) -> list[tuple[Mismatch, Case]]:
        self.reasons[reason] += 1
        return []

    # ---- the process
    def _process(self) -> Worker | None:
        if self._worker is None and self._ends < _MOST_ENDS:
            self._worker = self._processes.replayer()
        return self._worker

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        worker = self._process()
        if worker is None:
            return {"refused": "the process that executes plans ended too often"}
        try:
            answer: dict[str, Any] = worker.ask(request)
        except WorkerEndedError as error:
            self._end()
            return {"refused": f"the process that executes plans: {error.message}"}
        return {"refused": answer["broken"]} if "broken" in answer else answer

    def _end(self) -> None:
        if self._worker is not None:
            self._processes.end(self._worker)
        self._worker = None
        self._ends += 1


def _explained(problem: Mismatch) -> Mismatch:
    """What is wrong with a call whose own result was right."""
    if problem.failure in _OWN_CLASSES:
        return problem
    detail = f"its launches and host operations, repeated without it: {problem.detail}"
    return _not_computed(detail)


def _not_computed(detail: str) -> Mismatch:
    return Mismatch("not_computed_by_kernel", detail, {"replay": True})


def _numbers(arguments: dict[str, Any]) -> list[Any]:
    flattened = [part for key, each in arguments.items() for part in flat(each, key)]
    return [repr(each) for _, each in flattened if not _is_image(each)]


def _is_image(value: Any) -> bool:
    return isinstance(value, TensorImage)


def _has_elements(value: Any) -> bool:
    return any(_is_image(each) and 0 not in each.shape for _, each in flat(value))
