"""Repeats calls of a candidate in a process that never imports it, mostly on different inputs.

A candidate's process sends a plan of each call, see `replay/plan.py`. A trusted process executes
the plan on inputs that this module chooses, and the result must equal that of the reference. A
result that was computed elsewhere or remembered can only be a constant of the plan, which is wrong
for inputs that the candidate never saw. No claim of the candidate's process can turn a wrong plan
into a correct one.

Each plan that differs from all earlier ones is executed on such inputs. This is done even if the
call had special values, because a program may choose an honest plan for special values only. The
plan is then executed without its launches: if the results stay the same, the launches compute
nothing. The launches also count as computing nothing if they only copy what torch has moved.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import TensorImage, elements, is_constant
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.run.hidden import HiddenNumbers
from ttools.verifier.run.processes import NotLoadedError, Processes
from ttools.verifier.run.provenance import MOVED_SHARE, only_moves
from ttools.verifier.run.reductions import Reductions
from ttools.verifier.run.trial import Trial, Trials, layouts
from ttools.verifier.workers.replayer import digest_of
from ttools.verifier.workers.results import PHASE, WEIGHT, flat

#: Number of plans that are always executed on new inputs. Later plans are executed on new inputs
#: only if they differ from earlier plans, or at random (see `_ONE_IN`).
_FIRST_UNSEEN = 6
#: Of the remaining plans, one in this many is chosen at random and executed on new inputs. If its
#: call had special values, the new inputs have the same special values.
_ONE_IN = 4
#: The first plans, and one in `_ONE_IN` of all later plans, are also executed twice with new memory
#: that is filled: with zeros, and with a different byte of at most `_BYTES`. Numbers that consist
#: of such bytes may have either sign.
_FIRST_FILLED, _BYTES = 2, 0xFE
#: Maximum number of attempts to draw inputs that differ from those that the candidate received.
_MOST_DRAWS = 4
#: Kind of values for new inputs if the drawn values are the same for every seed.
_DIFFERENT = "positive"
#: Kinds of values with which a plan is executed again to show that its kernels do nothing. Several
#: are needed, because a kernel that changes few elements, such as a clamp, may have nothing to do
#: for one input.
_VALUES = ("scaled", "negative", "mixed sizes", "nan", "infinities", *["drawn"] * 9)
#: After the process that executes plans has ended this many times, no more plans are executed.
_MOST_ENDS = 3
#: Classes of failures of a repeated call that the kernel itself causes.
_OWN_CLASSES = ("memory", "race", "not_computed_by_kernel")
#: Constants that take more bytes than this share of the largest argument may contain a result.
_SHARE = 0.25
#: Number of bytes that a number takes, and number of bytes of numbers that any plan may contain.
_NUMBER_BYTES, _LEAST_DATA = 4, 512
#: Calls that take less time than this, in seconds, are repeated by code that is not optimised.
_QUICK_S = 1.0
#: Share of a result that torch must have moved for a failure, if the reference computes.
_NEARLY_ALL = 0.95
#: Results of fewer elements are not compared with constants.
_TELLING = 8


class Replays:
    """Executes the plans of one verification.

    Args:
        processes: Starts the process that executes the plans.
        trials: Runs and compares calls.
        anew: Runs a case, optionally with different inputs, in a new process of the candidate.
        hidden: Makes the choices that no candidate can predict.
        reductions: Collects the work by which torch finishes results.

    Attributes:
        cases: Number of cases whose plan was executed.
        unseen: Number of cases whose plan was executed on inputs that the candidate never saw.
        sizes: Sizes of the cases whose plan was executed with all of its launches.
        reasons: Reasons why plans were not executed, or only on known inputs, each with the number
            of cases.
    """

    def __init__(
        self,
        processes: Processes,
        trials: Trials,
        anew: Callable[..., Trial],
        hidden: HiddenNumbers,
        reductions: Reductions,
    ) -> None:
        self._processes, self._trials, self._anew, self._hidden = processes, trials, anew, hidden
        self._reductions = reductions
        self._worker: Worker | None = None
        self._ends = 0
        #: Reason why plans are no longer executed.
        self._ended = "the process that executes plans was terminated too often"
        #: Digests of the plans whose results were correct on new inputs, and of the constants of
        #: these plans.
        #: Kinds of special values for which a plan was executed on new inputs.
        self._special_values: set[str] = set()
        self._known: set[bytes] = set()
        self._known_constants: set[bytes] = set()
        self.cases = self.unseen = self._executions = 0
        self.sizes: set[tuple[int, ...]] = set()
        self.reasons: Counter[str] = Counter()

    def check(self, case: Case, trial: Trial) -> list[tuple[Mismatch, Case]]:
        """Execute the plan of a call with correct results; return the failures with their cases."""
        before = self._executions
        failures = self._checked(case, trial)
        self.cases += self._executions > before
        if self._executions == before:
            self._reductions.count(case, trial)  # only the candidate has made the call
        return failures

    def _checked(self, case: Case, trial: Trial) -> list[tuple[Mismatch, Case]]:
        if not trial.plan:
            return self._not_replayed(
                trial.no_plan or "the candidate's process did not send a plan"
            )
        answer = self._ask(_plan_request(trial))
        if "refused" in answer:
            return self._not_replayed(answer["refused"])
        if "forged" in answer:
            # The recorder checks each plan before it sends it, so this one was changed.
            return [(_not_computed(f"its process sent a forged plan: {answer['forged']}"), case)]
        other, why = self._other_inputs(case, trial, answer["reads"])
        if other is None:
            return self._check_on_known_inputs(case, trial, answer, why)
        why = self._much_data(trial, answer)
        if why:
            self.reasons[why] += 1
            return self._check_seen(case, trial)
        key = _key_of(trial)
        is_new, is_special = key not in self._known, case.is_special
        is_chosen = self._hidden.next("choice") % _ONE_IN == 0 or self.unseen < _FIRST_UNSEEN
        if is_special and case.values not in self._special_values:
            is_chosen = True  # the first call with each kind of special values
            self._special_values.add(case.values)
        if not is_new and not is_chosen:
            return self._check_seen(case, trial)
        if is_new or not is_special:
            failures, is_proved = self._check_unseen(*other, trial, answer, is_new=is_new)
            if not is_proved:
                return failures
        self._known.add(key)
        self._known_constants.update(digest for digest, _ in answer["constants"])
        if is_special:
            return self._check_special(case, trial, other[0], answer["reads"], is_only=not is_new)
        return []

    @property
    def is_verified(self) -> bool:
        """True if each plan was executed, and each could be executed on new inputs."""
        return bool(self.unseen) and not self.reasons

    # ---- one plan
    def _check_on_known_inputs(
        self, case: Case, trial: Trial, answer: dict[str, Any], why: str
    ) -> list[tuple[Mismatch, Case]]:
        """Execute a plan without new inputs; constants that may be its results are set to zero."""
        self.reasons[why] += 1
        results = self._possible_results(trial, answer["constants"])
        if results:
            return self._check_blanked(case, trial, results, why)
        return self._check_seen(case, trial)

    def _check_seen(self, case: Case, trial: Trial) -> list[tuple[Mismatch, Case]]:
        again = self._execute(case, trial.sent, trial.right)
        if again.unsupported:
            return self._not_replayed(again.unsupported)
        return [(_explained(problem), case) for problem in again.problems[:1]]

    def _check_blanked(
        self, case: Case, trial: Trial, results: list[bytes], why: str
    ) -> list[tuple[Mismatch, Case]]:
        """Execute a plan with zeros instead of constants that may contain its result."""
        answer = self._ask({**_plan_request(trial), "blank": results})
        if "refused" in answer:
            return self._not_replayed(answer["refused"])
        again = self._execute(case, trial.sent, trial.right)
        if again.unsupported:
            return self._not_replayed(again.unsupported)
        detail = f"{why}, and the call is wrong if constants that may contain its result are zeroed"
        return [(_not_computed(detail), case)] if again.problems else []

    def _check_unseen(
        self,
        case: Case,
        sent: dict[str, Any],
        trial: Trial,
        answer: dict[str, Any],
        *,
        is_new: bool,
    ) -> tuple[list[tuple[Mismatch, Case]], bool]:
        """Execute a plan on new inputs, which have no special values.

        Args:
            case: Case of the new inputs.
            sent: The arguments of that case.
            trial: The call from which the plan was recorded.
            answer: Answer about the plan from the process that executes plans.
            is_new: If True, the plan is also executed without its launches.

        Returns:
            The failures, and whether the results were correct on the new inputs.
        """
        phase = _phase_of(case, answer["reads"])
        again = self._execute(case, sent, None, phase)
        if again.unsupported:
            return self._not_replayed(again.unsupported), False
        if again.skipped:
            return self._check_seen(case, trial), False
        fixed, is_all = _fixed_parts(trial.right, again.right)
        tables = dict(again.tables)
        # A wrapper may return tables of integers, such as offsets, in addition to the results of
        # kernels.
        copied = {part for part in fixed & tables.keys() if is_all or _is_float(again, part)}
        if fixed and answer["reads"] and not again.problems and (is_all or not copied):
            listed, part = _listed(answer["reads"]), min(fixed)
            why = f"the candidate reads elements of {listed} on the host, and {part} depends"
            why = f"{why} on nothing else"
            if is_all:
                return self._check_on_known_inputs(case, trial, answer, why), False
            self.reasons[why] += 1
            return self._check_seen(case, trial), False
        self.unseen += 1
        if again.problems:
            return self._attributed(case, sent, again), False
        if copied:
            part = min(copied)
            return [(_not_computed(f"{part} is a copy of {tables[part]}"), case)], False
        if not is_new:
            return [], True
        if problem := self._depends_on_new_memory(case, sent, again.right, phase):
            return [(problem, case)], False
        several = partial(self._is_shown, case, sent, again.right, _kept(answer["reads"]), phase)
        if answer["is_filled"] and several(_is_right, launches=False):
            detail = "the result is the same if the launches of the call are left out"
            return [(_not_computed(detail), case)], False
        if again.moved and several(_is_moved):
            part, operator, _, share = max(again.moved, key=lambda moved: (moved[3], moved[0]))
            of_part = part if share == 1.0 else f"{share:.0%} of {part}"
            detail = f"{of_part} was made by torch's `{operator}`, and the kernels only copy it"
            return [(_not_computed(detail), case)], False
        return [], True

    def _depends_on_new_memory(
        self, case: Case, sent: dict[str, Any], right: Any, phase: float
    ) -> Mismatch | None:
        """Return a failure if a correct plan becomes wrong with different contents of new memory.

        Candidates are called with new memory that contains NaN, by which the checks recognise it.
        """
        number = self._hidden.next("fill")
        if self.unseen > _FIRST_FILLED and number % _ONE_IN and not case.is_special:
            return None
        for byte in (0, 1 + number % _BYTES):
            again = self._execute(case, sent, right, phase, fill=byte)
            if again.problems:
                what = f"the contents of new memory, here bytes of {byte:#x}"
                detail = f"the result depends on {what}: {again.problems[0].detail}"
                return Mismatch("unwritten", detail, {"replay": True})
        return None

    def _check_special(
        self, case: Case, trial: Trial, fresh: Case, reads: list[str], *, is_only: bool
    ) -> list[tuple[Mismatch, Case]]:
        """Execute a plan on new inputs with the same kinds of special values.

        Args:
            case: Case of the call.
            trial: The call from which the plan was recorded.
            fresh: The same case with a different seed.
            reads: Names of the arguments that keep their values.
            is_only: If True, the plan has not been executed for this case before.
        """
        fresh = replace(fresh, values=case.values, values_of=case.values_of)
        sent = self._drawn(fresh, trial, reads)
        if sent is None:
            return self._check_seen(case, trial)
        phase = _phase_of(fresh, reads)
        again = self._execute(fresh, sent, None, phase)
        if again.skipped:
            return self._check_seen(case, trial)
        if again.unsupported:
            return self._not_replayed(again.unsupported)
        self.unseen += is_only
        if again.problems:
            return self._attributed(fresh, sent, again)
        # New memory contains NaN, as a result of special values may.
        problem = self._depends_on_new_memory(fresh, sent, again.right, phase)
        return [(problem, fresh)] if problem else []

    def _attributed(
        self, case: Case, sent: dict[str, Any], again: Trial
    ) -> list[tuple[Mismatch, Case]]:
        """Return the failures of a plan whose results are wrong on new inputs."""
        # If the candidate itself also fails on these inputs, its own failures are reported.
        own = self._anew(case, sent=sent)
        if own.problems:
            return [(problem, case) for problem in own.problems]
        return [(_explained(again.problems[0]), case)]

    def _is_shown(
        self,
        case: Case,
        sent: dict[str, Any],
        right: dict[str, Any],
        kept: set[str],
        phase: float,
        shows: Callable[[Trial], bool | None],
        **how: bool,
    ) -> bool:
        """Return whether executions of a plan show the same defect for several inputs.

        Args:
            case: Case of the first inputs.
            sent: The arguments of that case.
            right: Answer of the reference's process for these arguments.
            kept: Names of the arguments that keep their values.
            phase: Phase of the weights of results.
            shows: Returns whether an execution shows the defect; None if its inputs do not decide
                this.
            how: How the plan is executed, see `Trials.repeat`.
        """
        if self._trials.is_of_one(case):
            return False  # many functions return a single element unchanged
        kept_values = {key: value for key, value in sent.items() if key in kept}
        trial = self._execute(case, sent, right, phase, **how)
        is_shown, compared = shows(trial), 0
        for values in _VALUES:
            if is_shown is False or trial.unsupported:
                return False
            compared += is_shown is True
            other = replace(case, seed=self._seed(), values=values)
            inputs = self._trials.drawn(other) | kept_values
            if "error" not in inputs and layouts(inputs) == layouts(sent):
                trial = self._execute(other, inputs, None, phase, **how)
                is_shown = shows(trial)
        return compared > 1 and is_shown is not False

    def _execute(
        self, case: Case, sent: dict[str, Any], right: Any, phase: float = PHASE, **how: Any
    ) -> Trial:
        worker = self._process()
        if worker is None:
            return Trial(unsupported=self._ended)
        again = self._trials.repeat(case, worker, sent, right, phase=phase, **how)
        if again.is_gone:
            self._end()
        self._executions += not again.unsupported
        is_right = not (again.problems or again.skipped or again.unsupported)
        if is_right and how.get("launches", True):
            self._reductions.count(case, again)
            self.sizes.add(tuple(case.sizes.values()))
        return again

    def _other_inputs(
        self, case: Case, trial: Trial, reads: list[str]
    ) -> tuple[tuple[Case, dict[str, Any]] | None, str]:
        """Return new inputs with the same layouts, or the reason why there are none."""
        if not self._trials.is_seeded:
            return (
                None,
                "`inputs` does not take a seed, so there are no other inputs of these sizes",
            )
        plain = replace(case, values="drawn", values_of={}, after=(), reuse=False, late_grad=False)
        kept = _kept(reads)
        own = {} if case.is_special else trial.sent
        for _ in range(_MOST_DRAWS):
            fresh = replace(plain, seed=self._seed())
            sent = self._drawn(fresh, trial, reads)
            if sent is None:
                return (
                    None,
                    "`inputs` raises or returns different shapes or numbers for other seeds",
                )
            if any(_has_data(sent.get(key)) for key in kept) or (
                kept and all(key in kept or not _has_elements(e) for key, e in sent.items())
            ):
                return None, f"the candidate reads elements of {_listed(reads)} on the host"
            if sent != own:
                return (fresh, sent), ""
        assert sent is not None
        if _count_of(sent) < _TELLING:  # the values are equal by chance, or there are no tensors
            # If `inputs` always returns the same few values, such as an expanded zero, they are
            # changed here.
            fresh = replace(fresh, values=_DIFFERENT)
            return (fresh, self._drawn(fresh, trial, reads) or sent), ""
        return None, "`inputs` returns the same values for different seeds"

    def _drawn(self, case: Case, trial: Trial, reads: list[str]) -> dict[str, Any] | None:
        """Return inputs with the same layouts and numbers as a call; None if they cannot be drawn.

        Args:
            case: Case for which inputs are drawn.
            trial: The call whose layouts and numbers the inputs must have.
            reads: Names of the arguments that keep the values of the call.
        """
        sent = self._trials.drawn(case)
        if "error" in sent:
            return None
        kept = _kept(reads)
        sent |= {key: value for key, value in trial.sent.items() if key in kept}
        is_alike = layouts(sent) == layouts(trial.sent) and _numbers(sent) == _numbers(trial.sent)
        return sent if is_alike else None

    def _seed(self) -> int:
        return self._hidden.next("inputs") >> 33

    def _possible_results(self, trial: Trial, constants: list[Any]) -> list[bytes]:
        """Return digests of constants that may be a result and that occur in no correct plan.

        These constants are large compared with the arguments, or equal to a result.
        """
        most = _most_bytes(trial)
        images = [part["image"] for part in trial.results if part["kind"] == "tensor"]
        results = {digest_of(image.data) for image in images if _is_telling(image)}
        return [
            digest
            for digest, size in constants
            if digest in results or (size > most and digest not in self._known_constants)
        ]

    def _much_data(self, trial: Trial, answer: dict[str, Any]) -> str:
        """Return a reason if a plan may contain much data from arguments that keep their values.

        The host reads such arguments, and can compute with all of their elements.
        """
        reads = answer["reads"]
        sizes = [s for digest, s in answer["constants"] if digest not in self._known_constants]
        size = sum(sizes) + _NUMBER_BYTES * answer["numbers"]
        if not reads or size <= max(_LEAST_DATA, _most_bytes(trial)):
            return ""
        return (
            f"the candidate reads elements of {_listed(reads)} on the host, and passes constants "
            "or numbers that may contain a result"
        )

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


def _most_bytes(trial: Trial) -> float:
    """Return the size in bytes up to which constants cannot contain a whole result of a call."""
    sizes = [len(e.data) for v in trial.sent.values() for _, e in flat(v) if _is_image(e)]
    return max(8, _SHARE * max(sizes, default=0))


def _plan_request(trial: Trial) -> dict[str, Any]:
    return {"do": "plan", "data": trial.plan, "quick": trial.seconds < _QUICK_S}


def _explained(problem: Mismatch) -> Mismatch:
    """Return the failure of a call whose own result was correct but whose plan fails."""
    if problem.failure in _OWN_CLASSES:
        return problem
    detail = f"when its launches and host operations are repeated without it: {problem.detail}"
    return _not_computed(detail)


def _not_computed(detail: str) -> Mismatch:
    return Mismatch("not_computed_by_kernel", detail, {"replay": True})


def _key_of(trial: Trial) -> bytes:
    """Return a digest of the plan of a call, and of the layouts and numbers of its arguments."""
    others = repr((layouts(trial.sent), _numbers(trial.sent)))
    return hashlib.sha256(trial.plan + others.encode()).digest()


def _phase_of(case: Case, reads: list[str]) -> float:
    """Return the phase of the weights of results for new inputs, see `results.BackwardPass`."""
    is_read = any(name.startswith(WEIGHT) for name in reads)
    return PHASE if is_read else PHASE + case.seed % 997 / 100


def _kept(reads: list[str]) -> set[str]:
    """Return the names of arguments that keep their values, as the host reads parts of them."""
    return {name.partition("[")[0] for name in reads}


def _listed(reads: list[str]) -> str:
    return ", ".join(f"`{key}`" for key in sorted(_kept(reads)))


def _is_moved(trial: Trial) -> bool | None:
    """Return whether torch, not a kernel, moved a result; None if the inputs do not show this.

    A wrapper may also return a tensor that it has moved, in addition to the results of kernels.
    """
    is_right = _is_right(trial)
    if not is_right:
        return is_right
    telling = _telling_parts(trial.right).keys()
    least = MOVED_SHARE if only_moves(trial.right) else _NEARLY_ALL
    moved = {
        part: is_copied
        for part, _, is_copied, share in trial.moved
        if part in telling and share >= least
    }
    return moved.keys() == telling or any(moved.values())


def _is_right(trial: Trial) -> bool | None:
    """Return whether the result of a plan is correct; None if the inputs do not show this."""
    if trial.skipped or trial.unsupported:
        return None
    if trial.classes - {"not_computed_by_kernel"}:
        return False
    return True if _telling_parts(trial.right) else None


def _telling_parts(right: dict[str, Any]) -> dict[str, bytes]:
    """Return the parts of a result that are too varied to equal other results by coincidence."""
    return {
        part["name"]: part["image"].data
        for part in right["given"]
        if part["kind"] == "tensor" and _is_telling(part["image"])
    }


def _fixed_parts(right: dict[str, Any], other: dict[str, Any]) -> tuple[set[str], bool]:
    """Return the parts of a result that are the same for different inputs, and whether all are."""
    one, two = _telling_parts(right), _telling_parts(other)
    fixed = {name for name, data in one.items() if two.get(name) == data}
    return fixed, bool(one) and len(fixed) == len(one)


def _is_float(trial: Trial, part: str) -> bool:
    return any(e["name"] == part and "float" in e.get("dtype", "") for e in trial.results)


def _numbers(arguments: dict[str, Any]) -> list[Any]:
    flattened = [part for key, value in arguments.items() for part in flat(value, key)]
    return [repr(part) for _, part in flattened if not _is_image(part)]


def _is_image(value: Any) -> bool:
    return isinstance(value, TensorImage)


def _is_telling(image: TensorImage) -> bool:
    """Return whether a tensor is large and varied enough that no other is equal by coincidence."""
    data = elements(image)
    return data.numel() >= _TELLING and not is_constant(data)


def _count_of(arguments: dict[str, Any]) -> int:
    """Return the number of elements of all tensors, counting each place in memory only once."""
    parts = [part for key, value in arguments.items() for _, part in flat(value, key)]
    return sum(
        min(math.prod(part.shape), len(part.data) // part.spec.itemsize)
        for part in parts
        if _is_image(part)
    )


def _has_data(value: Any) -> bool:
    """Return whether an argument contains enough floats for a result to depend on them.

    Bytes count as floats, because they are often quantised floats. Integers of all other types are
    lengths, offsets or indices.
    """
    images = [part for _, part in flat(value) if _is_image(part)]
    kinds = ("float", "bfloat", "complex", "int8", "uint8")
    return any(e.dtype.startswith(kinds) and math.prod(e.shape) >= _TELLING for e in images)


def _has_elements(value: Any) -> bool:
    return any(_is_image(part) and 0 not in part.shape for _, part in flat(value))
