"""Runs one case in the processes of the reference and the candidate, and compares the results."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.findings.findings import Severity
from ttools.core.process.channel import WorkerEndedError, WorkerSlowError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import TensorImage, elements, image_of, laid_out, map_tensors
from ttools.verifier.cases.values import changed
from ttools.verifier.oracle.comparison import Mismatch, compare
from ttools.verifier.run.answers import (
    MalformedAnswerError,
    kept_results,
    require_answer,
    require_dictionary,
)
from ttools.verifier.run.arguments import changed_arguments, changed_seeds
from ttools.verifier.run.finding_classes import explained, of_findings, warnings_of
from ttools.verifier.run.provenance import (
    FinishingWork,
    Reduction,
    finishing_work,
    is_telling,
    reductions_of,
    work_of_torch,
)
from ttools.verifier.workers.results import GRADIENT, PHASE, BackwardPass, flat

#: Maximum length of a text of a candidate in a report.
_LONGEST_TEXT = 300


@dataclass
class Trial:
    """Outcome of a case.

    Attributes:
        problems: Failures of the candidate.
        warnings: Warnings of the checks, in the form of failures.
        skipped: Reason why the case has no verdict, such as an exception of the reference; empty if
            it has a verdict.
        unsupported: Reason why the candidate could not be run or checked; empty if it could.
        constants: Integers that kernels were compiled for.
        kernels: Names of the kernels that ran.
        rounded_products: Places of the matrix products whose operands a GPU rounds to tf32.
        configs: For each configuration of the autotuners, by its number, the integers that it
            passes to kernels.
        launches: Number of launches of the call.
        arguments: Names of the arguments that are tensors.
        alike: Pairs of arguments that could be one tensor.
        differentiable: Names of arguments that require gradients.
        outputs: Names of the results of the reference that require gradients.
        findings: Findings of the checks, including those that are not failures.
        results: Results of the candidate, and arguments that it may change.
        drew: If True, the candidate drew random numbers.
        log: Values that each launch computed, if the request asked for a log.
        accuracy: What the check `accuracy` has found, if the request asked for it: `findings`,
            `limits` (what the check could not follow), and `outputs` with their largest errors.
        declined: Exception of a backward pass that the reference supports, but that few programs
            need, see `results.BackwardPass.passes`; the results are not compared. Empty if there is
            none.
        strided: Names of the results that are not contiguous, although those of the reference are
            and all arguments are, too.
        is_idle: If True, a constant result was correct without a launch, although no input is
            empty.
        is_endless: If True, a launch or the call was terminated because it exceeded its time limit.
        is_gone: If True, the process has ended.
        sent: Arguments of the call.
        right: Answer of the reference's process.
        largest_errors: Largest errors of the results, as multiples of the tolerance; see `compare`.
        seconds: Duration of the call in seconds.
        replaced: Library functions that the candidate has replaced in its process.
        plan: Recorded plan of the call, see `replay/plan.py`; empty if there is none.
        no_plan: Reason why there is no plan.
        tables: Results of a repeated call that are copies of constants: name and description.
        moved: Results of a repeated call that torch made from arguments by moving elements: name,
            operator, whether a kernel has copied them, and the share of the elements that were
            moved.
        finishing: The work by which torch finishes the results of kernels.
        reductions: The reductions by which torch finishes parts of the result.
    """

    problems: list[Mismatch] = field(default_factory=list)
    warnings: list[Mismatch] = field(default_factory=list)
    skipped: str = ""
    unsupported: str = ""
    constants: list[int] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    rounded_products: list[str] = field(default_factory=list)
    configs: list[list[int]] = field(default_factory=list)
    launches: int = 0
    arguments: list[str] = field(default_factory=list)
    alike: list[tuple[str, str]] = field(default_factory=list)
    differentiable: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    drew: bool = False
    log: list[dict[str, Any]] = field(default_factory=list)
    accuracy: dict[str, Any] = field(default_factory=dict)
    declined: str = ""
    strided: list[str] = field(default_factory=list)
    is_idle: bool = False
    is_endless: bool = False
    is_gone: bool = False
    sent: dict[str, Any] = field(default_factory=dict)
    right: dict[str, Any] = field(default_factory=dict)
    largest_errors: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    replaced: list[str] = field(default_factory=list)
    plan: bytes = b""
    no_plan: str = ""
    tables: list[list[str]] = field(default_factory=list)
    moved: list[list[Any]] = field(default_factory=list)
    finishing: FinishingWork = field(default_factory=FinishingWork)
    reductions: list[Reduction] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        return {problem.failure for problem in self.problems}


class Trials:
    """Runs cases in a process of the candidate, and compares the results with the reference's.

    Args:
        reference: Process that has loaded the reference.
        domain: Domain of the inputs.
        declared: Declarations about arguments in the files: `inplace` arguments may be changed,
            `finite` arguments contain no NaN and no infinity, `contiguous` arguments are not views,
            and two arguments that form a `shared` pair may be one tensor even if one of them is
            changed.

    Attributes:
        fail_on: Lowest severity of findings that are failures.
        fail_on_torch: If True, a candidate fails if torch finishes what its kernels have computed.
        inplace: Names of the arguments that the candidate may change.
        is_telling: If True, the last result of the reference was not a constant.
        wants_plans: If True, the candidate's process records plans of calls.
        has_candidate: If True, the reference's process has loaded the candidate's file.
    """

    def __init__(self, reference: Worker, domain: Domain, declared: dict[str, Any]) -> None:
        self._reference, self._domain = reference, domain
        self.fail_on: Severity = "error"
        self.fail_on_torch = False
        self.inplace: list[str] = declared["inplace"]
        self._finite, self._contiguous = declared["finite"], declared["contiguous"]
        self._shared: set[frozenset[str]] = {frozenset(names) for names in declared["shared"]}
        self.is_telling = False
        self.wants_plans = False
        self.has_candidate: bool = declared.get("has_candidate", False)
        #: Bytes of each result, by process and call; None for results that alias an argument.
        self._kept: dict[int, dict[int, list[bytes | None]]] = {}
        #: Ids of the worker processes that have been called; and, for each layout of arguments, the
        #: structure of the plan of the first call.
        self._called_pids: set[int] = set()
        self._structures: dict[str, bytes] = {}

    # ---- inputs
    @property
    def is_seeded(self) -> bool:
        """True if `inputs` takes a seed, so that there are other inputs of the same sizes."""
        return self._domain.seeded

    def is_of_one(self, case: Case) -> bool:
        """Return whether a size of a case is less than two, although the domain has larger ones."""
        ranges = self._domain.sizes
        return any(size < 2 <= ranges[name][1] for name, size in case.sizes.items())

    def drawn(self, case: Case) -> dict[str, Any]:
        """Return the inputs of a case as images; if they cannot be drawn, the key `error` says why.

        Raises:
            UsageError: The function that draws inputs does not return keyword arguments.
        """
        plain = self.plain(case)
        if "error" in plain:
            return plain
        drawn = {key: self._changed(key, value, case) for key, value in plain.items()}
        if case.shared is not None:
            one, other = case.shared
            drawn[other] = drawn[one]
        return drawn

    def plain(self, case: Case, reference: Worker | None = None) -> dict[str, Any]:
        """Return the inputs of a case without special values and views; see `drawn`.

        Args:
            case: Case with sizes, choices and a seed.
            reference: Another process that has loaded the reference, which draws the inputs.
        """
        request: dict[str, Any] = {"sizes": case.sizes, "choices": case.choices}
        request |= {"seed": case.seed, "is_seeded": self._domain.seeded}
        worker = reference or self._reference
        answer = worker.ask({"do": "draw", **request})
        if "misuse" in answer:
            raise UsageError(
                f"inputs() returned {answer['misuse']}, not a dictionary of the reference's "
                f"keyword arguments for one case; for example, {answer['example']}"
            )
        if "error" in answer:
            return {"error": answer["error"]}
        drawn: dict[str, Any] = answer["drawn"]
        return drawn

    def _changed(self, key: str, value: Any, case: Case) -> Any:
        view = case.views.get(key, case.views.get("*", "contiguous"))
        if key in self._contiguous:
            view = "contiguous"
        kind = case.values_of.get(key, case.values)

        def change(image: TensorImage) -> TensorImage:
            tensor = elements(image)
            is_finite = key in self._finite
            values = changed(tensor, kind, is_finite=is_finite)
            layout = view
            if view == "expanded" and (key in self.inplace or not values.is_floating_point()):
                layout = "contiguous"
            requires_grad = image.requires_grad and case.only_grad in ("", key)
            return replace(laid_out(values, layout), requires_grad=requires_grad)

        return map_tensors(change, value, TensorImage)

    # ---- running
    def run(
        self, case: Case, candidate: Worker, sent: dict[str, Any] | None = None, **request: Any
    ) -> Trial:
        """Run a case after the calls that precede it.

        Args:
            case: Case to run, with its earlier calls.
            candidate: Process that has loaded the candidate.
            sent: Arguments of the last call; None for those of the case.
            request: Further options of the last call.

        Raises:
            WorkerGoneError: The reference's process has ended.
        """
        is_first = candidate.pid not in self._called_pids and not case.after
        self._called_pids.add(candidate.pid)
        earlier, ended = self._made_earlier(case, candidate)
        if ended is not None:
            return ended
        sent = self.drawn(case) if sent is None else sent
        if "error" in sent:
            return Trial(skipped=f"inputs() raises {_text(sent['error'])}")
        is_same = earlier is not None and layouts(earlier) == layouts(sent)
        request.setdefault("reuse", is_same and case.reuse)
        request.setdefault("shared", case.shared)
        request.setdefault("hold", bool(case.after))
        request.setdefault("keep", True)
        request.setdefault("config", case.config)
        request.setdefault("backward", _backward_pass(case, PHASE))
        request.setdefault("plan", self.wants_plans)
        if case.order is not None:
            request["order"], request["seed"] = case.order
        if case.late_grad:
            between = self.drawn(replace(case, seed=case.seed + 300))
            request |= {} if "error" in between else {"between": between}
        start = time.monotonic()
        right, answer, ended = self._called(candidate, sent, request)
        if ended is not None:
            return ended
        seconds = time.monotonic() - start
        self.is_telling = is_telling(right)
        try:
            answer = require_answer(answer, sent)
        except MalformedAnswerError as error:
            return Trial(problems=[_death(error)])
        trial = self._trial_of(case, sent, right, answer)
        trial.seconds = seconds
        trial.plan, trial.no_plan = answer.get("plan", b""), _in_one_line(answer.get("no_plan", ""))
        if is_first and not case.late_grad:
            trial.problems += self._changed_structure(case, sent, answer)
        self._remember(candidate, answer)
        if case.after and not trial.problems:
            trial.problems += self._changed_results(candidate)
        return trial

    def repeat(
        self,
        case: Case,
        replayer: Worker,
        sent: dict[str, Any],
        right: dict[str, Any] | None,
        *,
        launches: bool = True,
        fill: int | None = None,
        phase: float = PHASE,
    ) -> Trial:
        """Execute the plan that the trusted process has read, and compare its results.

        Args:
            case: Case of the plan.
            replayer: Trusted process that has read the plan.
            sent: Arguments of the call.
            right: Answer of the reference's process for these arguments; None to request it.
            launches: If False, the launches of the plan are left out.
            fill: Byte that new memory contains; None for the pattern that the checks recognise.
            phase: Phase of the weights of results, see `results.BackwardPass`.
        """
        request: dict[str, Any] = {"shared": case.shared, "backward": _backward_pass(case, phase)}
        request |= {"launches": launches, "fill": fill, "is_special": case.is_special}
        right, answer, ended = self._called(replayer, sent, request, right)
        if ended is not None:
            why = "the call took too long when it was repeated" if ended.is_endless else _why(ended)
            return replace(ended, unsupported=why or ended.unsupported, problems=[])
        for part in answer.get("results", ()):
            part["grad"] = True  # a plan is executed without autograd
        trial = self._trial_of(case, sent, right, answer)
        if trial.is_endless:
            return replace(trial, unsupported="a launch took too long when it was repeated")
        return trial

    def _called(
        self,
        worker: Worker,
        sent: dict[str, Any],
        request: dict[str, Any],
        right: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any], Trial | None]:
        """Make a call in a process while the reference's process evaluates the same arguments.

        Returns:
            The reference's answer, the answer of the other process, and the outcome of the case if
            one of the two answers is missing.
        """
        if right is None:
            plain = map_tensors(_plain, sent, TensorImage)
            asked = {key: request[key] for key in ("shared", "backward")}
            asked |= {"do": "evaluate", "arguments": plain, "inplace": self.inplace}
            self._reference.send(asked)
        gone: WorkerEndedError | None = None
        answer: dict[str, Any] = {}
        try:
            worker.send({"do": "call", "arguments": sent, **request})
        except WorkerEndedError as error:
            gone = error
        if right is None:
            right = self._reference.receive()
        if gone is None:
            try:
                answer = worker.receive()
            except WorkerEndedError as error:
                gone = error
        if "error" in right:
            return {}, {}, Trial(skipped=f"the reference raises {_text(right['error'])}")
        if isinstance(gone, WorkerSlowError):
            why = f"the candidate gave {gone}"
            return {}, {}, Trial(unsupported=why, is_endless=True, is_gone=True)
        if gone is not None:
            return {}, {}, Trial(problems=[_death(gone)], is_gone=True)
        try:
            answer = require_dictionary(answer)
        except MalformedAnswerError as error:
            return {}, {}, Trial(problems=[_death(error)])
        if "broken" in answer:
            return {}, {}, Trial(unsupported=answer["broken"])
        return right, answer, None

    def _made_earlier(
        self, case: Case, candidate: Worker
    ) -> tuple[dict[str, Any] | None, Trial | None]:
        """Make the calls that precede a case.

        Returns:
            The arguments of the last of these calls, or None if there are no calls; and the outcome
            of the case if one of the calls failed, or otherwise None.
        """
        earlier: dict[str, Any] | None = None
        for step in case.after:
            before, earlier = earlier, self.drawn(step)
            if "error" in earlier:
                return earlier, Trial(skipped=f"inputs() raises {_text(earlier['error'])}")
            is_same = before is not None and layouts(before) == layouts(earlier)
            reuse = is_same and step.reuse
            call = {"arguments": earlier, "reuse": reuse, "hold": True, "keep": True}
            try:
                answer = require_answer(candidate.ask({"do": "call", **call}), earlier)
            except (WorkerEndedError, MalformedAnswerError) as error:
                return earlier, Trial(problems=[_death(error)])
            if "broken" in answer:
                return earlier, Trial(unsupported=answer["broken"])
            self._remember(candidate, answer)
        return earlier, None

    # ---- comparing
    def _trial_of(
        self, case: Case, sent: dict[str, Any], right: dict[str, Any], answer: dict[str, Any]
    ) -> Trial:
        images = {name: part for name, part in _flat(sent) if isinstance(part, TensorImage)}
        trial = Trial(
            sent=sent,
            right=right,
            constants=answer["constants"],
            kernels=answer["kernels"],
            rounded_products=list(map(_in_one_line, answer.get("rounded_products", []))),
            configs=answer.get("configs", []),
            launches=answer["launches"],
            arguments=[key for key, value in sent.items() if _has_tensor(value)],
            alike=self._alike(sent),
            differentiable=[key for key, value in sent.items() if _requires_gradient(value)],
            outputs=[part["name"] for part in right["given"] if _is_differentiable(part)],
            findings=answer["findings"],
            drew=answer.get("drew", False),
            log=answer.get("log", []),
            accuracy=answer.get("accuracy") or {},
            replaced=list(map(_in_one_line, answer.get("replaced", []))),
            tables=answer.get("tables", []),
            moved=answer.get("moved", []),
        )
        if "unsupported" in answer:
            trial.unsupported = answer["unsupported"]
            return trial
        trial.problems += of_findings(answer["findings"], self.fail_on)
        trial.warnings = warnings_of(answer["findings"])
        if answer.get("too_large"):
            trial.problems.append(Mismatch("exception", answer["too_large"]))
        if any(finding["kind"] == "timeout" for finding in answer["findings"]):
            # The results of a launch that was stopped early are not compared.
            trial.is_endless = True
            trial.unsupported = "" if trial.problems else "a launch exceeded its time limit"
            return trial
        not_checked = [e["message"] for e in answer["findings"] if e["kind"] == "not_checked"]
        if not_checked:
            # The launch may not have been made, so its results are not compared.
            trial.unsupported = "" if trial.problems else not_checked[0] or "a launch was not made"
            return trial
        if "error" in answer:
            error = answer["error"]
            detail = f"raises {_text(error)}"
            if not trial.problems or error["kind"] != "KernelError":
                trial.problems.append(Mismatch("exception", detail, where=error["where"]))
            return trial
        trial.problems += changed_arguments(sent, answer, self.inplace)
        trial.problems += changed_seeds(answer, right)
        if case.passes != "once" and answer.get("declined"):
            trial.declined = _in_one_line(answer["declined"])
            return trial
        trial.results = self._found(sent, right, answer)
        wrong = compare(right, trial.results, trial.largest_errors)
        if not case.views:
            trial.strided = _strided(right, trial.results)
        trial.problems += wrong
        trial.problems += explained(wrong, answer["findings"])
        trial.problems += work_of_torch(
            answer,
            right,
            images,
            is_right=not wrong,
            may_finish=not self.fail_on_torch,
            passes=2 if case.passes == "twice" else 1,
        )
        trial.finishing = finishing_work(answer, right)
        trial.reductions = reductions_of(answer, right, images)
        trial.is_idle = not (
            trial.launches
            or trial.problems
            or is_telling(right)
            or any(0 in e.shape for e in images.values())
        )
        return trial

    def _found(
        self, sent: dict[str, Any], right: dict[str, Any], answer: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the results, and the changed arguments that the reference's results contain."""
        results = list(answer["results"])
        for part in right["given"][len(results) :]:
            image = self._after(part["name"], sent, answer["arguments"])
            if image is None:
                break
            results.append({**part, "image": image, "alias": None, "grad": part["grad"]})
        return results

    def _alike(self, sent: dict[str, Any]) -> list[tuple[str, str]]:
        """Return pairs of arguments that have the same shape and type and may be one tensor.

        A pair with an argument that the call changes is included only if the pair is declared.
        """
        plain = {key: value for key, value in sent.items() if isinstance(value, TensorImage)}
        return [
            (one, other)
            for one, other in itertools.combinations(plain, 2)
            if (plain[one].dtype, plain[one].shape) == (plain[other].dtype, plain[other].shape)
            and not (plain[one].requires_grad or plain[other].requires_grad)
            and (not {one, other} & set(self.inplace) or {one, other} in self._shared)
        ]

    def _after(self, name: str, sent: dict[str, Any], after: dict[str, Any]) -> Any:
        """Return the elements of an argument after the call; None if there is no such argument."""
        for key, value in sent.items():
            images, stores = flat(value, key), flat(after[key], key)
            for (path, image), (_, data) in zip(images, stores, strict=True):
                if name == f"{path} after the call" and isinstance(image, TensorImage):
                    return image_of(elements(image, data))
        return None

    def _changed_structure(
        self, case: Case, sent: dict[str, Any], answer: dict[str, Any]
    ) -> list[Mismatch]:
        """Return a failure if the plans of the first calls of two processes differ.

        Both calls have arguments with the same layout, and the program reads no elements on the
        host, so nothing justifies a difference.
        """
        device, structure = answer.get("structure", ["", b""])
        if not structure or "results" not in answer:
            return []
        numbers = [part for _, part in _flat(sent) if not isinstance(part, TensorImage)]
        kind = replace(case, seed=0, values="", values_of={}, after=(), order=None)
        key = repr((layouts(sent), numbers, kind, device))
        if self._structures.setdefault(key, structure) == structure:
            return []
        detail = (
            "equal first calls in two processes use different kernels, grids or operators, "
            "although the candidate reads no elements on the host"
        )
        return [Mismatch("nondeterministic", detail)]

    # ---- results that are kept
    def _remember(self, candidate: Worker, answer: dict[str, Any]) -> None:
        if "results" not in answer:
            return
        self._kept.setdefault(candidate.pid, {})[answer["call"]] = [
            None if part["alias"] else part["image"].data
            for part in answer["results"]
            if part["kind"] == "tensor"
        ]

    def _changed_results(self, candidate: Worker) -> list[Mismatch]:
        """Return a failure if a result of an earlier call has changed."""
        try:
            kept = kept_results(candidate.ask({"do": "kept"}))
        except (WorkerEndedError, MalformedAnswerError) as error:
            return [_death(error)]
        elements_before = self._kept.get(candidate.pid, {})
        for number, tensors in kept:
            before = elements_before.get(number)
            if before is None:
                continue
            for one, other in itertools.zip_longest(before, tensors):
                if one is not None and one != other:
                    detail = "a later call changes the result of an earlier call"
                    return [Mismatch("stale_state", detail)]
        return []


def _in_one_line(text: str) -> str:
    """Return a text from a candidate in one line, so that it cannot imitate lines of the report."""
    return " ".join(text.split())[:_LONGEST_TEXT]


def _text(error: dict[str, Any]) -> str:
    first = next(iter(error["text"].splitlines()), "")
    return f"{error['kind']}: {first}"


def _why(ended: Trial) -> str:
    """Return why the execution of a plan has no verdict; empty if its inputs were skipped."""
    return ended.problems[0].detail if ended.problems else ""


def _death(error: Exception) -> Mismatch:
    return Mismatch("exception", str(error))


def _plain(image: TensorImage) -> TensorImage:
    return replace(image_of(elements(image)), requires_grad=image.requires_grad)


def _backward_pass(case: Case, phase: float) -> dict[str, Any]:
    """Return the backward pass of a case as data of a request."""
    view = case.views.get("*", "contiguous")
    only = case.only_output
    return asdict(BackwardPass(view=view, phase=phase, only_output=only, passes=case.passes))


def _has_tensor(value: Any) -> bool:
    return any(isinstance(part, TensorImage) for _, part in flat(value))


def _requires_gradient(value: Any) -> bool:
    return isinstance(value, TensorImage) and value.requires_grad


def _strided(right: dict[str, Any], found: list[dict[str, Any]]) -> list[str]:
    """Return the names of results that are not contiguous although the reference's are."""
    return [
        wanted["name"]
        for wanted, part in zip(right["given"], found, strict=False)
        if wanted["kind"] == part["kind"] == "tensor"
        and wanted["name"] == part["name"]
        and not wanted["name"].startswith(GRADIENT)
        and wanted.get("contiguous", True)
        and not part.get("contiguous", True)
    ]


def _is_differentiable(part: dict[str, Any]) -> bool:
    """Return whether a part of the reference's results requires a gradient."""
    return bool(part.get("grad")) and not part["name"].startswith(GRADIENT)


def _flat(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    return [part for key, value in arguments.items() for part in flat(value, key)]


def layouts(arguments: dict[str, Any]) -> list[Any]:
    """Return the names, types and layouts of arguments.

    The plan of a call can be repeated only with arguments for which these are the same.
    """
    return [
        (name, part.spec, len(part.data)) if isinstance(part, TensorImage) else name
        for name, part in _flat(arguments)
    ]
