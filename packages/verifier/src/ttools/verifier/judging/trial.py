"""One case, run in the processes of reference and candidate, and what is wrong with it.

Owns the order of requests and what is compared. Must not know which cases there are.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.process.channel import WorkerEndedError, WorkerSlowError
from ttools.core.process.worker import Worker
from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import TensorImage, elements, image_of, laid_out, map_tensors
from ttools.verifier.cases.values import changed
from ttools.verifier.judging.arguments import changed_arguments
from ttools.verifier.judging.finding_classes import explained, of_findings
from ttools.verifier.judging.provenance import is_telling, work_of_torch
from ttools.verifier.oracle.comparison import Mismatch, compare
from ttools.verifier.workers.results import flat


@dataclass
class Trial:
    """What came of a case.

    Attributes:
        skipped: why the case says nothing; empty if it does.
        unsupported: what the engine cannot run; empty as a rule.
        constants: integers that kernels were compiled for.
        kernels: names of the kernels that ran.
        launches: how many there were.
        arguments: names of the arguments that are tensors.
        alike: pairs of them that could be one tensor.
        graded: names of arguments of which gradients were asked for.
        findings: what the checks found, also where it is no failure.
        results: those of the candidate, and arguments that it may change.
        drew: whether the candidate drew random numbers.
        log: by launch, what its operations have computed, if that was asked for.
        is_idle: whether a constant result was right without a launch, of inputs that have elements.
        is_endless: whether a launch or the call was ended because it took too long.
        is_gone: Whether the process has ended.
        sent: The arguments.
        right: What the reference's process says of the results.
        plan: What the call did, see `replay/plan.py`; empty if there is none.
        no_plan: Why there is none.
    """

    problems: list[Mismatch] = field(default_factory=list)
    skipped: str = ""
    unsupported: str = ""
    constants: list[int] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    launches: int = 0
    arguments: list[str] = field(default_factory=list)
    alike: list[tuple[str, str]] = field(default_factory=list)
    graded: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    drew: bool = False
    log: list[dict[str, Any]] = field(default_factory=list)
    is_idle: bool = False
    is_endless: bool = False
    is_gone: bool = False
    sent: dict[str, Any] = field(default_factory=dict)
    right: dict[str, Any] = field(default_factory=dict)
    plan: bytes = b""
    no_plan: str = ""

    @property
    def classes(self) -> set[str]:
        return {each.failure for each in self.problems}


class Trials:
    """Runs cases.

    Args:
        reference: its process, where the reference is loaded.
        inplace: arguments that the candidate may change.
        declared: what the files say of arguments: `inplace` ones may be changed, `finite` ones
            hold no NaN and no infinity, `contiguous` ones are no views, and pairs of `shared` may
            be one tensor though one is changed.
    """

    def __init__(self, reference: Worker, domain: Domain, declared: dict[str, Any]) -> None:
        self._reference, self._domain = reference, domain
        self.inplace: list[str] = declared["inplace"]
        self._finite, self._contiguous = declared["finite"], declared["contiguous"]
        self._shared: set[frozenset[str]] = {frozenset(each) for each in declared["shared"]}
        #: By process and call: the elements of results, None where others may change them.
        self.is_telling = False
        #: Whether plans of calls are wanted.
        self.wants_plans = False
        self._kept: dict[int, dict[int, list[bytes | None]]] = {}

    # ---- inputs
    @property
    def is_seeded(self) -> bool:
        """Whether there are other inputs of the same sizes."""
        return self._domain.seeded

    def drawn(self, case: Case) -> dict[str, Any]:
        """The inputs of a case, as images; the key `error` if they cannot be drawn.

        Raises:
            UsageError: the function returns something else than keyword arguments.
        """
        request: dict[str, Any] = {"sizes": case.sizes, "choices": case.choices}
        seed = case.seed if self._domain.seeded else None
        answer = self._reference.ask({"do": "draw", **request, "seed": seed})
        if "misuse" in answer:
            raise UsageError(
                f"inputs() returned {answer['misuse']}, not a dictionary of the reference's "
                "keyword arguments"
            )
        if "error" in answer:
            return {"error": answer["error"]}
        drawn = {key: self._changed(key, value, case) for key, value in answer["drawn"].items()}
        if case.shared is not None:
            one, other = case.shared
            drawn[other] = drawn[one]
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
            is_graded = image.requires_grad and case.only_grad in ("", key)
            return replace(laid_out(values, layout), requires_grad=is_graded)

        return map_tensors(change, value, TensorImage)

    # ---- running
    def run(
        self, case: Case, candidate: Worker, sent: dict[str, Any] | None = None, **request: Any
    ) -> Trial:
        """Runs a case, after those that come before it.

        Args:
            candidate: its process, where the candidate is loaded.
            sent: The arguments of the last call, if they are not those of the case.
            request: further options of the last call.

        Raises:
            WorkerGoneError: the reference's process has died.
        """
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
        request.setdefault("weights", case.views.get("*", "contiguous"))
        request.setdefault("plan", self.wants_plans)
        if case.order is not None:
            request["order"], request["seed"] = case.order
        if case.late_grad:
            between = self.drawn(replace(case, seed=case.seed + 300))
            request |= {} if "error" in between else {"between": between}
        right, answer, ended = self._called(candidate, sent, request)
        if ended is not None:
            return ended
        self.is_telling = is_telling(right)
        trial = self._judged(sent, right, answer)
        trial.plan, trial.no_plan = answer.get("plan", b""), answer.get("no_plan", "")
        self._remember(candidate, answer)
        if case.after and not trial.problems:
            trial.problems += self._changed_results(candidate)
        return trial

    def repeat(
        self, case: Case, replayer: Worker, sent: dict[str, Any], right: dict[str, Any] | None
    ) -> Trial:
        """Execute the plan that a process of ours holds, and compare its results.

        Args:
            right: What the reference's process says of these arguments; it is asked if None.
        """
        request = {"shared": case.shared, "weights": case.views.get("*", "contiguous")}
        right, answer, ended = self._called(replayer, sent, request, right)
        if ended is not None:
            return replace(ended, unsupported=ended.unsupported or _why(ended), problems=[])
        for each in answer.get("results", ()):
            each["grad"] = True  # a plan is executed without autograd
        trial = self._judged(sent, right, answer)
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
        """Make a call in a process while the reference's evaluates the same arguments.

        Returns:
            What is right, the answer of the process, and how the call ended if it gave none.
        """
        if right is None:
            plain = map_tensors(_plain, sent, TensorImage)
            asked = {key: request[key] for key in ("shared", "weights")}
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
        if "broken" in answer:
            return {}, {}, Trial(unsupported=answer["broken"])
        return right, answer, None

    def _made_earlier(
        self, case: Case, candidate: Worker
    ) -> tuple[dict[str, Any] | None, Trial | None]:
        """Makes the calls that come before a case: the last one's arguments, or how they ended."""
        earlier: dict[str, Any] | None = None
        for step in case.after:
            before, earlier = earlier, self.drawn(step)
            if "error" in earlier:
                return earlier, Trial(skipped=f"inputs() raises {_text(earlier['error'])}")
            is_same = before is not None and layouts(before) == layouts(earlier)
            reuse = is_same and step.reuse
            call = {"arguments": earlier, "reuse": reuse, "hold": True, "keep": True}
            try:
                answer = candidate.ask({"do": "call", **call})
            except WorkerEndedError as error:
                return earlier, Trial(problems=[_death(error)])
            if "broken" in answer:
                return earlier, Trial(unsupported=answer["broken"])
            self._remember(candidate, answer)
        return earlier, None

    # ---- comparing
    def _judged(self, sent: dict[str, Any], right: dict[str, Any], answer: dict[str, Any]) -> Trial:
        images = [
            (name, each)
            for key, value in sent.items()
            for name, each in flat(value, key)
            if isinstance(each, TensorImage)
        ]
        trial = Trial(
            sent=sent,
            right=right,
            constants=answer["constants"],
            kernels=answer["kernels"],
            launches=answer["launches"],
            arguments=[key for key, each in sent.items() if _has_tensor(each)],
            alike=self._alike(sent),
            graded=[key for key, each in sent.items() if _is_graded(each)],
            findings=answer["findings"],
            drew=answer.get("drew", False),
            log=answer.get("log", []),
        )
        if "unsupported" in answer:
            trial.unsupported = answer["unsupported"]
            return trial
        trial.problems += of_findings(answer["findings"])
        if answer.get("too_large"):
            trial.problems.append(Mismatch("exception", answer["too_large"]))
        if any(each["kind"] == "timeout" for each in answer["findings"]):
            # What such a launch left behind says nothing more.
            trial.is_endless = True
            return trial
        not_checked = [e["message"] for e in answer["findings"] if e["kind"] == "not_checked"]
        if not_checked:
            # The launch may not have been made, so that its results say nothing.
            trial.unsupported = "" if trial.problems else not_checked[0]
            return trial
        if "error" in answer:
            error = answer["error"]
            where = f" at {error['where']}" if error["where"] else ""
            detail = f"raises {_text(error)}{where}"
            if not trial.problems or error["kind"] != "KernelError":
                trial.problems.append(Mismatch("exception", detail))
            return trial
        trial.problems += changed_arguments(sent, answer, self.inplace)
        trial.results = self._found(sent, right, answer)
        wrong = compare(right, trial.results)
        trial.problems += wrong
        trial.problems += explained(wrong, answer["findings"])
        trial.problems += work_of_torch(
            answer, right, [each for _, each in images], is_right=not wrong
        )
        trial.is_idle = not (
            trial.launches
            or trial.problems
            or is_telling(right)
            or any(0 in e.shape for _, e in images)
        )
        trial.problems += [
            Mismatch("not_computed_by_kernel", f"replaces `{each}`", {"replaced": each})
            for each in answer["patched"]
        ]
        return trial

    def _found(
        self, sent: dict[str, Any], right: dict[str, Any], answer: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Results, and arguments after the call that the reference's results contain."""
        found = list(answer["results"])
        for each in right["given"][len(found) :]:
            image = self._after(each["name"], sent, answer["arguments"])
            if image is None:
                break
            found.append({**each, "image": image, "alias": None, "grad": each["grad"]})
        return found

    def _alike(self, sent: dict[str, Any]) -> list[tuple[str, str]]:
        """Arguments of one shape and type; of those that are changed only declared pairs."""
        plain = {key: each for key, each in sent.items() if isinstance(each, TensorImage)}
        return [
            (one, other)
            for one, other in itertools.combinations(plain, 2)
            if (plain[one].dtype, plain[one].shape) == (plain[other].dtype, plain[other].shape)
            and not (plain[one].requires_grad or plain[other].requires_grad)
            and (not {one, other} & set(self.inplace) or {one, other} in self._shared)
        ]

    def _after(self, name: str, sent: dict[str, Any], after: dict[str, Any]) -> Any:
        """The elements of an argument after the call."""
        for key, value in sent.items():
            images, stores = flat(value, key), flat(after[key], key)
            for (path, image), (_, data) in zip(images, stores, strict=True):
                if name == f"{path} after the call" and isinstance(image, TensorImage):
                    return image_of(elements(image, data))
        return None

    # ---- results that are kept
    def _remember(self, candidate: Worker, answer: dict[str, Any]) -> None:
        if "results" not in answer:
            return
        self._kept.setdefault(candidate.pid, {})[answer["call"]] = [
            None if each["alias"] else each["image"].data
            for each in answer["results"]
            if each["kind"] == "tensor"
        ]

    def _changed_results(self, candidate: Worker) -> list[Mismatch]:
        """Results of earlier calls that are no longer what they were."""
        try:
            kept = candidate.ask({"do": "kept"}).get("kept", [])
        except WorkerEndedError as error:
            return [_death(error)]
        known = self._kept.get(candidate.pid, {})
        for number, tensors in kept:
            before = known.get(number)
            if before is None:
                continue
            for one, other in zip(before, tensors, strict=True):
                if one is not None and one != other:
                    detail = "a result that was kept is changed by a later call"
                    return [Mismatch("stale_state", detail)]
        return []


def _text(error: dict[str, Any]) -> str:
    return f"{error['kind']}: {error['text'].splitlines()[0]}"


def _why(ended: Trial) -> str:
    """Why the execution of a plan says nothing; empty if its inputs are what says nothing."""
    return ended.problems[0].detail if ended.problems else ""


def _death(error: Exception) -> Mismatch:
    return Mismatch("exception", str(error))


def _plain(image: TensorImage) -> TensorImage:
    return replace(image_of(elements(image)), requires_grad=image.requires_grad)


def _has_tensor(value: Any) -> bool:
    return any(isinstance(each, TensorImage) for _, each in flat(value))


def _is_graded(value: Any) -> bool:
    return isinstance(value, TensorImage) and value.requires_grad


def layouts(arguments: dict[str, Any]) -> list[Any]:
    """Return what calls with equal plans agree on: names, types and layouts of the arguments."""
    return [
        (name, each.dtype, each.shape, each.strides, each.offset, len(each.data))
        if isinstance(each, TensorImage)
        else name
        for key, value in arguments.items()
        for name, each in flat(value, key)
    ]
