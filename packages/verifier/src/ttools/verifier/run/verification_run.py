"""Runs the plan of a verification against a candidate and determines the verdict.

`VerificationRun` starts and ends the processes, classifies failures, and decides when enough cases
have run.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from ttools.core.context_values import in_environment
from ttools.core.device_map.map_option import emulated_gpu
from ttools.core.device_map.mapping import VARIABLE
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.location import shown_path
from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.plan import Case, Plan
from ttools.verifier.options import MOST_CASES, Progress, VerifyOptions
from ttools.verifier.oracle.comparison import Mismatch, difference
from ttools.verifier.report.text import circumstances
from ttools.verifier.report.written_tests import Call, write_run, write_test
from ttools.verifier.result import (
    CLASSES,
    CONSEQUENCES,
    Failure,
    Replay,
    Verdict,
    Verification,
    ranked,
)
from ttools.verifier.run.all_sizes import AllSizesTried, late_text, usual_seconds
from ttools.verifier.run.conditions import failing_condition
from ttools.verifier.run.constant_references import ConstantReferences
from ttools.verifier.run.gpu import Gpu
from ttools.verifier.run.hidden import HiddenNumbers
from ttools.verifier.run.independent_references import IndependentReferences
from ttools.verifier.run.loading import loaded_candidate, loaded_reference
from ttools.verifier.run.processes import NotLoadedError, Processes, Subject
from ttools.verifier.run.reductions import Reductions
from ttools.verifier.run.replays import Replays
from ttools.verifier.run.rounding_errors import explained_by_rounding
from ttools.verifier.run.shrinking import shrunk
from ttools.verifier.run.trial import Trial

K = TypeVar("K")

#: After the first failure, at most `_MORE_CASES` further cases run. The run ends earlier if
#: `_ENOUGH_FAILED` cases have failed.
_MORE_CASES, _ENOUGH_FAILED = 24, 6
#: Maximum number of attempts to reduce the inputs if a launch or a call exceeded its time limit.
_TRIES_OF_ENDLESS = 4
#: Maximum number of cases that are run to find the condition under which a candidate fails.
_TRIES_OF_CONDITIONS = 40
#: Classes of failures that may depend on sizes and parameters. A condition is searched for the
#: first failure in the report that has one of these classes.
_WITH_CONDITION = {"memory", "race", "unwritten", "layout", "exception", "wrong_values"}
#: The run stops after this many calls that exceeded their time limit.
_MOST_SLOW = 4
#: If a call fails after other calls, it is repeated alone this many times, because it may fail only
#: sometimes. The first number applies if a failure of the class `stale_state` is already known, the
#: second otherwise.
_FEW_ALONE, _OFTEN_ALONE = 1, 6
#: Number of random cases at the end of the plan.
_MIXTURES = 12
#: Maximum number of configurations of an autotuner that are tried.
_MOST_CONFIGS = 128
_NOT_SEPARATE = (
    "the process that evaluates the reference has loaded the candidate's file, so the candidate "
    "could have changed the reference: define `reference` and `inputs` in files that do not import "
    "the candidate's"
)
#: Descriptions of backward passes that a candidate need not support.
_PASSES = {"twice": "a second backward pass through the same graph"}
_STANDS_IN = "the candidate asks for CUDA tensors: the CPU stands in for the GPU"


@dataclass
class _Failed:
    """A failure and its case.

    Attributes:
        number: Number, in the plan, of the case that revealed the failure.
        condition: A clause that says for which inputs the failure occurs; empty if unknown.
    """

    problem: Mismatch
    case: Case
    number: int = 0
    condition: str = ""


class VerificationRun:
    """A run of the plan against a candidate, which determines the verdict.

    The process must be able to fork, so torch must not have started threads in it.

    Args:
        subject: Functions of the verification.
        options: Limits of time and of the number of cases, seeds, and the device.
        write_tests: Folder for test files of failures; None to write none.
        report_progress: Called before each call with the number of cases that were run, the number
            of cases that failed, and the current activity after the cases; the activity is empty
            while cases are run.
    """

    def __init__(
        self,
        subject: Subject,
        options: VerifyOptions,
        write_tests: Path | None = None,
        report_progress: Progress = lambda tried, failing, activity: None,
    ) -> None:
        self._report, self._activity = report_progress, ""
        self._subject, self._options, self._folder = subject, options, write_tests
        self._began = time.monotonic()
        self._processes = Processes(subject, options)
        self._failed: dict[str, _Failed] = {}
        self._warned: dict[tuple[str, str], _Failed] = {}
        self._covered: Counter[str] = Counter()
        self._kinds: dict[str, set[str]] = {"values": set(), "views": set(), "kernels": set()}
        self._notes: dict[str, None] = {}
        self._unsupported: dict[str, None] = {}
        self._tried = self._failing = self._since = self._slow = 0
        self._unfinished = self._limited = self._repeated = False
        self._gpu = ""
        self._cases_tried: list[Case] = []
        #: The first case with ordinary values that has products whose operands a GPU rounds, and
        #: the places of these products.
        self._rounded: tuple[Case, list[str]] | None = None
        self._all_sizes: dict[str, Any] = {}
        self._constants = ConstantReferences()
        self._largest_errors: dict[str, float] = {}
        self._replays: Replays | None = None
        self._reductions = Reductions()
        self._hidden_seed: int | None = None
        #: For each configuration of the autotuners, by its number, the integers that it passes to
        #: kernels.
        self._configs: list[list[int]] = []

    def run(self) -> Verification:
        """Run the plan.

        Raises:
            UsageError: The reference or the inputs cannot be loaded or have no domain.
        """
        torch.set_num_threads(1)
        device_map = emulated_gpu(None, self._options.gpu)
        try:
            with in_environment({} if device_map is None else {VARIABLE: device_map}):
                return self._run()
        finally:
            self._processes.end_all()

    # ---- the run
    def _run(self) -> Verification:
        self._domain, self._trials, patched = loaded_reference(self._processes, self._options.seed)
        self._trials.fail_on = self._options.fail_on
        self._trials.fail_on_torch = self._options.fail_on_torch
        self._independent = IndependentReferences(self._trials.inplace)
        for name in patched:
            self._note(f"loading the reference replaced `{name}`; the original was restored")
        self._hidden = HiddenNumbers(self._processes.hidden())
        if self._options.replay != "off":
            self._trials.wants_plans = True
            self._replays = Replays(
                self._processes, self._trials, self._anew, self._hidden, self._reductions
            )
        if self._processes.not_isolated:
            self._note(
                "the candidate's process is limited, but not isolated from this user's files and "
                f"processes: {self._processes.not_isolated}"
            )
        plan = Plan(self._domain, self._options.seed)
        try:
            self._candidate = loaded_candidate(self._processes)
        except (NotLoadedError, WorkerEndedError) as error:
            case = next(plan.begin())
            self._failed["exception"] = _Failed(Mismatch("exception", error.message), case)
            return self._verdict()
        try:
            self._choose_device()
            for kind, case in self._cases(plan):
                if not self._goes_on():
                    break
                self._try(kind, case)
            for problem, case in self._reductions.failures():
                self._add(problem, case)
            self._shrink()
            self._activity = "looking for the cause of the failures"
            self._explain_by_rounding()
            self._describe_failing_inputs()
            if self._options.on == "gpu":
                self._activity = "running cases on the GPU"
                self._ask_gpu()
            else:
                self._compare_with_tf32()
            self._activity = "analysing all sizes of the domain"
            self._report_progress()
            self._try_all_sizes(plan)
        except WorkerEndedError as error:
            self._unsupported[f"a process of the verification failed: {error.message}"] = None
        with contextlib.suppress(WorkerEndedError):
            self._hidden_seed = self._hidden.seed()
        return self._verdict()

    def _choose_device(self) -> None:
        """Choose `cuda` as the device if the candidate needs CUDA tensors and there is no GPU."""
        if self._processes.device == "cuda":
            self._note(_STANDS_IN)
            return
        case = next(Plan(self._domain, self._options.seed).begin())
        trial = self._trials.run(case, self._candidate)
        if trial.is_gone:
            self._processes.is_endless |= trial.is_endless
            self._renew()
        if gpu_usable() or not trial.classes & {"exception", "not_computed_by_kernel"}:
            return
        self._processes.device = "cuda"
        other = self._anew(case)
        is_better = not other.problems or "exception" in trial.classes - other.classes
        if not is_better or other.unsupported or not other.launches:
            self._processes.device = "cpu"
        else:
            self._note(_STANDS_IN)
        self._renew()

    def _cases(self, plan: Plan) -> Iterator[tuple[str, Case]]:
        first: list[Trial] = []
        differentiable: tuple[list[str], list[str], dict[str, int]] = [], [], {}
        for case in plan.begin():
            trial = self._try("ordinary sizes", case)
            if trial is not None and not trial.skipped:
                first.append(trial)
                if len(trial.differentiable) > len(differentiable[0]):
                    differentiable = trial.differentiable, trial.outputs, case.choices
        constants = sorted({c for trial in first for c in trial.constants})
        arguments = first[0].arguments if first else []
        alike = first[0].alike if first else []
        yield from (("sequences of calls", sequence) for sequence in plan.sequences(arguments))
        self._without_launches(plan)
        edges = _named("smallest and largest sizes", plan.edges())
        views = _named("views", plan.views(arguments))
        values = _named("special values", plan.special_values())
        blocks = _named("sizes about blocks", plan.blocks(constants))
        unequal = _named("unequal special values", plan.unequal_values(arguments))
        shared = _named("one tensor as two arguments", plan.shared(alike))
        backward = _named("backward passes", plan.gradients(*differentiable))
        yield from _interleaved(edges, views, values, blocks, unequal, shared, backward)
        if len(self._configs) > _MOST_CONFIGS:
            self._note(
                f"only the first {_MOST_CONFIGS} of {len(self._configs)} configurations of an "
                "autotuner were tried"
            )
        yield from _named("configurations", plan.configurations(self._configs[:_MOST_CONFIGS]))
        for case in plan.mixtures(self._hidden.several("sizes", _MIXTURES)):
            yield "random sizes, values and views", case
        if not self._failed:
            self._orders(plan, constants)

    def _goes_on(self) -> bool:
        options = self._options
        if self._failed:
            self._since += 1
            return self._since <= _MORE_CASES and self._failing < _ENOUGH_FAILED
        if self._slow >= _MOST_SLOW:
            self._unfinished = True
            return False
        if options.cases is not None and self._tried >= options.cases:
            self._limited = True
            return False
        # Half of the time is reserved for the GPU, on which the same cases run again.
        if self._tried >= MOST_CASES or self._is_late(0.5 if options.on == "gpu" else 1.0):
            self._unfinished = True
            return False
        return True

    def _report_progress(self) -> None:
        self._report(self._tried, self._failing, self._activity)

    def _is_late(self, share: float = 1.0) -> bool:
        """Return whether this share of the time limit has passed."""
        limit = self._options.seconds
        return limit is not None and time.monotonic() - self._began > share * limit

    def _try(self, kind: str, case: Case) -> Trial | None:
        """Run a case, and analyse it further if it fails."""
        self._tried += 1
        self._report_progress()
        self._cases_tried.append(case)
        trial = self._trials.run(case, self._candidate)
        self._covered[kind] += 1
        if trial.skipped:
            self._covered["outside of what the reference takes"] += 1
            self._last_skipped = trial.skipped
            return trial
        if trial.unsupported:
            self._unsupported[trial.unsupported] = None
            self._processes.is_endless |= trial.is_endless
            self._slow += trial.is_endless
            self._renew()
            return None
        self._kinds["values"].add(case.values)
        self._kinds["views"] |= set(case.views.values())
        self._kinds["kernels"] |= set(trial.kernels)
        self._note_configs(trial.configs)
        if trial.rounded_products and case.values == "drawn" and self._rounded is None:
            self._rounded = case, trial.rounded_products
        for warning in trial.warnings:
            _keep_plainest(self._warned, (warning.failure, warning.where), warning, case)
        for name in trial.replaced:
            self._note(f"the candidate replaces `{name}`, but only in its own process")
        if trial.is_endless:
            self._processes.is_endless, self._failing = True, _ENOUGH_FAILED
            for problem in trial.problems:
                self._add(problem, case)
            self._renew()
        elif trial.is_idle and self._works_on_others(case):
            self._failing += 1
            detail = "no kernel was launched for these values, although one was launched for others"
            self._add(Mismatch("not_computed_by_kernel", detail, {"launches": False}), case)
        elif trial.problems:
            self._failing += 1
            for problem in self._explained(case, trial):
                self._add(problem, case)
            self._renew()
        else:
            for label, error in trial.largest_errors.items():
                self._largest_errors[label] = max(error, self._largest_errors.get(label, 0.0))
            labels = self._domain.labels(case.choices)
            self._constants.count(case, labels, trial.right)
            self._independent.count(case, labels, trial.sent, trial.right)
            for name in trial.strided:
                self._note(
                    f"{name} is not contiguous, but that of the reference is: operations such as "
                    "`view`, and kernels that expect contiguous arguments, may fail on it"
                )
            if trial.declined:
                self._note(
                    f"the candidate does not support {_PASSES[case.passes]}, but the reference "
                    f"does: {trial.declined}"
                )
            else:
                self._replay(case, trial)
        return trial

    def _note_configs(self, configs: list[list[int]]) -> None:
        """Remember the configurations of the autotuners of a call."""
        self._configs += [[] for _ in range(len(configs) - len(self._configs))]
        for integers, own in zip(self._configs, configs, strict=False):
            integers += [value for value in own if value not in integers]

    def _replay(self, case: Case, trial: Trial) -> None:
        """Repeat a call with correct results in a process without the candidate."""
        if self._replays is None:
            self._reductions.count(case, trial)
            return
        wrong = self._replays.check(case, trial)
        self._failing += bool(wrong)
        for problem, other in wrong:
            self._add(problem, other)

    def _works_on_others(self, case: Case) -> bool:
        """Return whether the same case launches kernels with the values that `inputs` draws."""
        plain = replace(case, values="drawn", values_of={}, after=(), reuse=False)
        return plain != case and self._trials.run(plain, self._candidate).launches > 0

    def _renew(self) -> None:
        """Start a new process of the candidate, so that one failure does not cause further ones."""
        self._processes.end(self._candidate)
        self._candidate = self._processes.fresh()

    def _explained(self, case: Case, trial: Trial) -> list[Mismatch]:
        """Return the problems of a case after it was run alone in a new process."""
        if trial.classes in ({"stale_state"}, {"nondeterministic"}):
            return trial.problems
        alone = case.alone
        again = self._anew(alone)
        if again.problems:
            problems = again.problems if case == alone else trial.problems
            if case.values == "permuted":
                # Permuted values may break a property that `inputs` guarantees, such as two equal
                # halves. Wrong values alone are therefore not a failure.
                problems = [problem for problem in problems if problem.failure != "wrong_values"]
            return [*problems, *self._undetermined(alone, again)]
        tries = _FEW_ALONE if "stale_state" in self._failed else _OFTEN_ALONE
        for _ in range(tries):
            again = self._anew(alone)
            if again.problems:
                detail = "of two equal calls in new processes, one is correct and one is not"
                return [again.problems[0].reclassified("nondeterministic", detail)]
        if trial.drew:
            detail = "equal calls, which draw random numbers, are not always correct"
            return [trial.problems[0].reclassified("nondeterministic", detail)]
        how = {
            False: "after other calls",
            True: "with new values in the same storage",
            "address": "with new tensors in memory that the tensors of an earlier call used",
        }[case.reuse]
        evidence = {}
        if case.late_grad:
            how, evidence = "when another call comes before its backward pass", {"late": True}
        elif case.passes == "twice":
            how = f"in {_PASSES[case.passes]}"
        first = trial.problems[0].reclassified(
            "stale_state", f"correct by itself, but wrong {how}", evidence
        )
        own = [
            problem
            for problem in trial.problems
            if problem.failure not in ("wrong_values", "unwritten")
        ]
        return [first, *own]

    def _undetermined(self, case: Case, trial: Trial) -> list[Mismatch]:
        """Return a failure if the same call has different results in a new process.

        Only the first case with wrong values is repeated.
        """
        if self._repeated or not trial.results or "wrong_values" not in trial.classes:
            return []
        self._repeated = True
        differs = difference(trial.results, self._anew(case).results)
        if not differs:
            return []
        return [Mismatch("nondeterministic", f"equal calls in new processes: {differs}")]

    def _anew(self, case: Case, **request: Any) -> Trial:
        self._report_progress()
        try:
            worker = self._processes.fresh()
        except (NotLoadedError, WorkerEndedError) as error:
            return Trial(problems=[Mismatch("exception", error.message)])
        try:
            return self._trials.run(case, worker, **request)
        finally:
            self._processes.end(worker)

    def _add(self, problem: Mismatch, case: Case) -> None:
        _keep_plainest(self._failed, problem.failure, problem, case, self._tried)

    # ---- other ways to run a case
    def _without_launches(self, plan: Plan) -> None:
        """Run the first cases of the plan again without their launches, in new processes.

        If the results are still correct, the kernels did not compute them. If all plans so far
        could be executed on new inputs, this is not needed: `Replays` has already made this check
        with several inputs.
        """
        is_decided = self._replays is not None and self._replays.is_verified
        for case in plan.begin():
            trial = self._anew(case, launches=False)
            self._covered["launches left out"] += 1
            wrong = {problem.failure for problem in trial.problems}
            for problem in trial.problems:
                if problem.failure == "nondeterministic":
                    self._failing += 1
                    self._add(problem, case)
            if (
                trial.skipped
                or trial.unsupported
                or wrong & {"wrong_values", "unwritten", "layout"}
            ):
                continue
            if is_decided or "exception" in wrong or not self._trials.is_telling:
                continue
            detail = "the results are correct although no kernel ran"
            self._failing += 1
            evidence = {"launches": False}
            self._add(Mismatch("not_computed_by_kernel", detail, evidence), case)
            return

    def _orders(self, plan: Plan, constants: list[int]) -> None:
        """Run programs in other orders, without checks; results must not depend on the order."""
        for case in plan.orders(constants):
            trial = self._anew(case)
            self._covered["other orders of programs"] += 1
            wrong = [e for e in trial.problems if e.failure in ("wrong_values", "unwritten")]
            if wrong and not self._anew(replace(case, order=None)).problems:
                detail = f"with programs in {case.order and case.order[0]} order"
                evidence = {"order": case.order}
                self._add(wrong[0].reclassified("nondeterministic", detail, evidence), case)

    def _try_all_sizes(self, plan: Plan) -> None:
        """Check accesses at all sizes of the domain, including sizes that do not fit in memory."""
        options = self._options
        seconds = options.all_sizes_seconds
        if seconds is None:
            seconds = usual_seconds(self._domain.sizes)
        late = late_text(seconds)
        if options.seconds is not None:
            left = options.seconds - (time.monotonic() - self._began)
            if left < seconds:
                seconds = left
                late = (
                    f"the time limit of {options.seconds:g} s for the run was reached (--seconds)"
                )
        tried = AllSizesTried(self._processes, self._domain.sizes, seconds, late)
        why = "the candidate has failed already" if self._failed else ""
        if options.all_sizes_seconds == 0:
            why = "the time limit is 0 (--all-sizes-seconds)"
        for failure in tried.run(plan.begin(), why):
            if failure.problem.failure in self._failed:
                continue
            if failure.fits:
                self._try("sizes that were found among all", failure.case)
            if failure.problem.failure not in self._failed:
                self._add(failure.problem, failure.case)
        replayed = 0 if self._replays is None else len(self._replays.sizes)
        self._all_sizes = tried.described(self._domain, replayed)

    def _ask_gpu(self) -> None:
        """Run the cases on the GPU; only the failed ones if there are any."""
        try:
            gpu = Gpu(self._processes, self._trials, self._anew)
            self._gpu = gpu.name
            if self._failed:
                for failed in self._failed.values():
                    detail = f"{failed.problem.detail}; {gpu.confirmed(failed.case)}"
                    failed.problem = replace(failed.problem, detail=detail)
                return
            for case in self._cases_tried:
                if self._is_late():
                    self._unfinished = True
                    return
                trial = gpu.run(case)
                self._covered["on the GPU"] += 1
                problems = gpu.explained(case, trial) if trial.problems else []
                for problem in problems:
                    self._add(problem, case)
                if problems:
                    return
            self._note("the calls on the GPU are not repeated without the candidate")
            if gpu.is_inexact:
                self._note(
                    f"on {gpu.name}, values were not compared, because the kernel requests matrix "
                    "products of a precision (such as tf32) that is lower than the tolerance"
                )
        except NotLoadedError as error:
            self._unsupported[f"on the GPU, the candidate {error.message}"] = None

    def _compare_with_tf32(self) -> None:
        """Note whether a result becomes wrong if the operands of products are rounded to tf32."""
        if self._failed or self._rounded is None:
            return
        case, places = self._rounded
        trial = self._anew(case, dot="as-written", plan=False)
        wrong = (problem for problem in trial.problems if problem.failure == "wrong_values")
        if (problem := next(wrong, None)) is not None:
            place = shown_path(places[0].rpartition(":")[0])  # without the column
            self._note(
                f"a GPU rounds the float32 operands of the matrix product in {place} to tf32, "
                f"which is less accurate than the tolerance: {problem.detail}; "
                '`input_precision="ieee"` computes in float32'
            )

    # ---- the result
    def _shrink(self) -> None:
        for number, (name, failed) in enumerate(self._failed.items(), 1):
            if name == "nondeterministic":
                continue
            self._activity = f"reducing the inputs of failure {number} of {len(self._failed)}"
            with contextlib.suppress(WorkerEndedError):
                failure_of = partial(self._problem_of, name, bool(failed.problem.where))
                most = self._options.shrink
                tries = min(most, _TRIES_OF_ENDLESS) if self._processes.is_endless else most
                plainer = shrunk(failed.case, self._domain, failure_of, tries)
                if plainer is not None:
                    failed.case, failed.problem = plainer

    def _explain_by_rounding(self) -> None:
        """Find out whether rounding errors make values wrong, and at which line they arise."""
        failed = self._failed.get("wrong_values")
        causes = {name for name, effects in CONSEQUENCES.items() if "wrong_values" in effects}
        if failed is None or self._processes.is_endless or causes & self._failed.keys():
            return

        def measured(how: str) -> Trial:
            return self._anew(failed.case, accuracy=how, plan=False)

        with contextlib.suppress(WorkerEndedError):
            failed.problem = explained_by_rounding(failed.problem, measured)

    def _describe_failing_inputs(self) -> None:
        """Find a condition on the inputs of one failure."""
        possible = _WITH_CONDITION & self._failed.keys()
        name = next((name for name in CLASSES if name in possible), None)
        if name is None or not self._options.shrink:
            return
        failed = self._failed[name]

        def fails(case: Case) -> bool | None:
            if self._processes.is_endless:
                return None
            trial = self._anew(case)
            is_decided = not (trial.skipped or trial.unsupported)
            return name in trial.classes if is_decided else None

        with contextlib.suppress(WorkerEndedError):
            if fails(failed.case):
                tries = _TRIES_OF_CONDITIONS
                failed.condition = failing_condition(failed.case, self._domain, fails, tries)

    def _problem_of(self, name: str, is_located: bool, case: Case) -> Mismatch | None:
        """Return the problem of a class that a case has in a new process; None if it has none.

        Args:
            name: Class of the problem.
            is_located: If True, only a problem with a source line is returned.
            case: Case to run in a new process.
        """
        problems = [e for e in self._problems_of(case) if e.failure == name]
        located = [problem for problem in problems if problem.where]
        return next(iter(located if is_located else problems), None)

    def _problems_of(self, case: Case) -> list[Mismatch]:
        trial = self._anew(case)
        if case != case.alone and trial.problems:
            return self._explained(case, trial)
        if self._replays is not None and not (trial.problems or trial.skipped or trial.unsupported):
            return [problem for problem, _ in self._replays.check(case, trial)]
        return trial.problems

    def _note(self, text: str) -> None:
        self._notes[text] = None

    def _verdict(self) -> Verification:
        notes = list(self._notes)
        verdict: Verdict = "fail" if self._failed else "pass"
        skipped = self._covered.get("outside of what the reference takes", 0)
        replay, reasons = self._replayed(), []
        if not replay.separate:
            notes.append(_NOT_SEPARATE)
        if not self._failed:
            if self._unsupported:
                verdict = "inconclusive"
                reasons.append("not all cases could be checked")
                notes += [f"not checked: {reason}" for reason in self._unsupported]
            elif self._tried and skipped == self._tried:
                verdict = "inconclusive"
                reasons.append("no case could be checked")
                notes.append(f"no case could be checked: {self._last_skipped}")
            elif self._constants.is_everywhere:
                verdict = "inconclusive"
                reasons.append("the reference is constant in all cases")
            notes += self._constants.notes()
            notes += self._independent.notes()
            if self._reductions.largest.operators:
                text = self._reductions.largest.text
                notes.append(f"torch finishes the results of the kernels: {text}")
            if not replay.verified:
                is_required = self._options.replay == "required"
                verdict = "inconclusive" if is_required else verdict
                reasons.append(_not_replayed(replay, is_required=is_required))
            if self._unfinished:
                verdict = "inconclusive"
                reasons.append("stopped before all cases of the plan were tried")
            if self._limited:
                cases = (
                    "case of the plan was"
                    if self._tried == 1
                    else f"{self._tried:,} cases of the plan were"
                )
                reasons.append(f"only the first {cases} tried")
        covered: dict[str, Any] = {"cases": self._tried, **self._covered}
        covered.update({key: sorted(names) for key, names in self._kinds.items()})
        if self._reductions.largest.operators:
            covered["finished by torch"] = self._reductions.largest.as_dict()
        if self._largest_errors:
            covered["largest errors"] = self._largest_errors
        if self._gpu:
            covered["gpu"] = self._gpu
        if self._options.gpu is not None:
            covered["emulated GPU"] = self._options.gpu
        if self._all_sizes:
            covered["all sizes"] = self._all_sizes
        return Verification(
            verdict=verdict,
            reason="; ".join(reasons),
            failures=ranked(map(self._with_test, self._failed.values())),
            warnings=tuple(
                self._failure(warned)
                for (name, _), warned in self._warned.items()
                if name not in self._failed
            ),
            covered=covered,
            notes=tuple(notes),
            replay=replay,
            seconds=time.monotonic() - self._began,
        )

    def _replayed(self) -> Replay:
        separate = not self._trials.has_candidate
        if self._replays is None:
            reasons: tuple[str, ...] = ("replay is off",)
            return Replay(reasons=reasons, separate=separate, seed=self._hidden_seed)
        replays = self._replays
        reasons = tuple(f"{why} ({count} cases)" for why, count in replays.reasons.most_common())
        return Replay(
            verified=replays.is_verified,
            cases=replays.cases,
            unseen=replays.unseen,
            reasons=reasons,
            separate=separate,
            seed=self._hidden_seed,
        )

    def _failure(self, failed: _Failed) -> Failure:
        case, problem = failed.case, failed.problem
        labels = self._domain.labels(case.choices)
        after = tuple(
            {"sizes": e.sizes, **self._domain.labels(e.choices), "seed": e.seed, "values": e.values}
            for e in case.after
        )
        failure = Failure(
            failure=problem.failure,
            detail=problem.detail,
            sizes=case.sizes,
            dtype=labels.pop("dtype", ""),
            choices=labels,
            seed=case.seed,
            values=case.values,
            values_of=case.values_of,
            views=case.views,
            shared=case.shared,
            only_grad=case.only_grad,
            only_output=case.only_output,
            passes=case.passes,
            config=case.config,
            after=after,
            where=problem.where,
            excerpt=self._processes.excerpt(problem.where),
            witness=problem.witness,
            condition=failed.condition,
            help=problem.help,
            rounding=problem.rounding,
            issue=problem.evidence.get("issue", ""),
        )
        if failure.issue:
            failure = replace(failure, issue=f"{failure.issue}\nInputs: {circumstances(failure)}\n")
        return failure

    def _with_test(self, failed: _Failed) -> Failure:
        """Return a failure after its test has been written, if a test is requested and possible."""
        case, failure = failed.case, self._failure(failed)
        if self._folder is None or "all_sizes" in failed.problem.evidence:
            return failure
        words = asdict(self._subject)
        evidence = failed.problem.evidence
        test = write_test(
            failure, evidence, self._calls(case), self._trials.inplace, words, self._folder
        )
        if test is None and failure.failure != "nondeterministic":
            limits = {"cases": failed.number, "seed": self._options.seed}
            limits |= {} if self._hidden_seed is None else {"replay_seed": self._hidden_seed}
            test = write_run(failure, limits, words, self._folder)
        return replace(failure, test=test)

    def _calls(self, case: Case) -> list[Call]:
        """Return the calls of a case, with the sources of inputs that any process can repeat."""
        worker: Worker | None = None
        if not self._processes.is_mapped:
            with contextlib.suppress(WorkerEndedError, UsageError):
                worker, _ = self._processes.reference()
        calls = []
        for step in (*case.after, case):
            drawn, source = self._trials.plain(step), None
            if worker is not None and self._trials.plain(step, worker) == drawn:
                source = self._domain.call(step.sizes, step.choices, step.seed)
            calls.append(
                Call(case=step, arguments=self._trials.drawn(step), drawn=drawn, source=source)
            )
        return calls


def _not_replayed(replay: Replay, *, is_required: bool) -> str:
    """Return the reason why a verdict has no replay; of several, return the most frequent one."""
    why = next(iter(replay.reasons), "no call could be repeated")
    if is_required:
        return f"not verified by replay, which was required: {why}"
    return f"weaker, because it is not verified by replay: {why}"


def _keep_plainest(
    kept: dict[K, _Failed], key: K, problem: Mismatch, case: Case, number: int = 0
) -> None:
    """Keep a failure unless an earlier one with the same key has a source line or simpler inputs.

    A failure with a source line is preferred to one without, whatever the inputs of the two are.
    """
    earlier = kept.get(key)
    rank = not problem.where, case.weight
    if earlier is None or rank < (not earlier.problem.where, earlier.case.weight):
        kept[key] = _Failed(problem, case, number)


def _named(kind: str, cases: Iterable[Case]) -> list[tuple[str, Case]]:
    return [(kind, case) for case in cases]


def _interleaved(*parts: list[tuple[str, Case]]) -> Iterator[tuple[str, Case]]:
    """Yield the first element of each part, then the second element of each part, and so on."""
    for index in range(max(map(len, parts))):
        for part in parts:
            if index < len(part):
                yield part[index]
