"""Provides `reproduce()`, which determines whether the results of a function have equal bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.gpus.targets import Target, read_target
from ttools.core.location import SourceLocation, shown_place
from ttools.core.process.user_module import describe
from ttools.core.reports.report import counted
from ttools.core.spec import storage_extent
from ttools.interpreter.api import device_map as mapped_devices
from ttools.interpreter.api import interpret
from ttools.interpreter.run.tuned_launch import TunedCall, run_first
from ttools.interpreter.runtime.snapshot import Snapshot, memory
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.reproducibility.hashes import UNKNOWN, Hashed, of_words
from ttools.sanitizer.reproducibility.run import HashedKernelRun, HashingObserver, StoredTensor
from ttools.verifier.cases.tensors import map_tensors
from ttools.verifier.reproducibility.differences import (
    Comparison,
    compare,
    compare_runs,
    first_difference,
    fusion_differs,
)
from ttools.verifier.reproducibility.result import Answer, Question, Reproducibility

_BY_TORCH = "torch has computed this element"
_FIRST_CONFIG = (
    "batches were compared in the first configuration of each autotuner, which may choose others "
    "for other sizes"
)


def reproduce(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    gpu: str = "sm_90",
    questions: Sequence[Question] = ("runs", "configs"),
    batch: Mapping[str, int] | None = None,
    device_map: str | None = None,
    seed: int = 0,
) -> Reproducibility:
    """Determine whether a function's results are bitwise equal on a GPU; no GPU is required.

    The kernels run on the CPU, and each result is hashed with the order in which the GPU evaluates
    it. An answer holds for the launches that ran, with these sizes.

    Args:
        function: Calls Triton kernels and returns tensors, or stores to its arguments.
        arguments: The arguments by name; tensors are copied for each call.
        gpu: Architecture for which the kernels are compiled, such as `sm_90`.
        questions: `runs` asks whether another order of programs gives the same bits; `configs` asks
            whether all configurations of autotuned kernels give the same bits.
        batch: The axis of each argument that is the batch; the rows of the results are compared
            with those of smaller batches.
        device_map: Mapping of CUDA devices to the CPU, such as `cuda=cpu`.
        seed: Seed of torch's random numbers in each call.

    Raises:
        UsageError: The target is unknown or an argument has no such axis.
    """
    target = read_target(gpu)
    if target.backend != "cuda":
        raise UsageError(f"orders of evaluation are known for NVIDIA GPUs, not for {target.name}")
    call = _Calls(function, dict(arguments), target, seed)
    answers: list[Answer] = []
    notes: list[str] = []
    with nullcontext() if device_map is None else mapped_devices(device_map):
        if "runs" in questions:
            answers += call.runs()
        if "configs" in questions:
            pairs = call.configs()
            answers += pairs
            if not pairs:
                notes.append("no kernel is autotuned, so there are no configurations to compare")
        if batch:
            answers += call.batches(batch)
            if call.is_tuned:
                notes.append(_FIRST_CONFIG)
    return Reproducibility(
        function=getattr(function, "__name__", "the function"),
        target=target.name,
        answers=tuple(answers),
        notes=tuple(notes),
    )


def _copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copied tensors; a tensor that is passed twice stays one tensor."""
    copies: dict[int, torch.Tensor] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return copies[id(tensor)]

    result: dict[str, Any] = map_tensors(copy, dict(arguments), torch.Tensor)
    return result


@dataclass
class _Execution:
    """One call of the function.

    Attributes:
        observer: The launches, with hashes.
        outputs: Tensors that the function returned, and those of its arguments, by name.
        inputs: Storages of the arguments, as start and end.
    """

    observer: HashingObserver
    outputs: dict[str, Any]
    inputs: Sequence[tuple[int, int]]

    def hashes(self, tensor: Any) -> tuple[Hashed, Any]:
        """Return the hashes of a tensor's elements, and the launch and program that stored each."""
        size, start = tensor.element_size(), int(tensor.data_ptr())
        offsets = np.zeros(tuple(tensor.shape), np.int64)
        for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            shape = [1] * offsets.ndim
            shape[axis] = extent
            offsets += np.arange(extent).reshape(shape) * stride * size
        end = start + int(offsets.max(initial=0)) + size
        words = memory(start, end).view(f"u{size}")[offsets // size]
        is_input = any(low <= start and end <= high for low, high in self.inputs)
        values = of_words(words) | (np.uint64(0) if is_input else UNKNOWN)
        makers = np.full((*offsets.shape, 2), -1, np.int64)
        stored = self.observer.memory.covering(start, end, size)
        if stored is not None:
            index = stored.index(start + offsets)
            has_hash = stored.is_stored(index)
            values = np.where(has_hash, stored.values[index], values)
            makers[has_hash, 0] = stored.launch[index][has_hash]
            makers[has_hash, 1] = stored.program[index][has_hash]
        return np.asarray(values, np.uint64), makers

    def has_stored(self, tensor: Any) -> bool:
        """Return whether a kernel has stored elements of a tensor."""
        _, makers = self.hashes(tensor)
        return bool((makers[..., 0] > 0).any())


@dataclass
class _Calls:
    """Calls of the function with different observers."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    target: Target
    seed: int
    is_tuned: bool = False
    _answers: list[Answer] = field(default_factory=list)

    def call(
        self,
        arguments: Mapping[str, Any],
        recorded: tuple[int, int] | None = None,
        tune: Callable[[HashingObserver, TunedCall], Any] | None = None,
    ) -> _Execution:
        """Call the function on copies of its arguments."""
        import torch

        copies = _copied(arguments)
        tensors = list(tensors_among(copies.values()))
        extents = [extent for t in tensors if (extent := storage_extent(t)) is not None]
        observer = HashingObserver(self.target, None if tune else extents, recorded)
        torch.manual_seed(self.seed)

        def choose(launch: TunedCall) -> Any:
            self.is_tuned = True
            return run_first(launch) if tune is None else tune(observer, launch)

        with interpret(observer=observer, tune=choose):
            result = self._result(copies)
        outputs = dict(_named("result", result))
        outputs.update((n, t) for name, value in copies.items() for n, t in _named(name, value))
        return _Execution(observer, outputs, extents)

    def _result(self, arguments: Mapping[str, Any]) -> Any:
        try:
            return self.function(**arguments)
        except TtoolsError:
            raise
        except Exception as error:
            shapes = ", ".join(
                f"{name}: {list(value.shape)}"
                for name, value in arguments.items()
                if hasattr(value, "shape")
            )
            raise UsageError(f"the function fails for {shapes}: {describe(error)}") from error

    # ---- runs
    def runs(self) -> list[Answer]:
        """Answer whether the order of programs matters."""
        from ttools.sanitizer import sanitize

        with sanitize(checks="racecheck") as report:
            self._result(_copied(self.arguments))
        races = {f.kernel: f for f in report.findings if f.severity in ("error", "warning")}
        answers: dict[str, Answer] = {}
        for launch in self.call(self.arguments).observer.launches:
            answer = _runs_of(launch)
            race = races.get(launch.kernel)
            if race is not None and answer.verdict == "equal":
                place = shown_place(race.location.file, race.location.line) if race.location else ""
                answer = _answer(
                    "runs", answer.subject, Comparison("unknown", answer.elements), place,
                    f"programs race: {race.message}",
                )  # fmt: skip
            before = answers.get(launch.kernel)
            if before is None or _RANK[answer.verdict] > _RANK[before.verdict]:
                answers[launch.kernel] = answer
        return list(answers.values())

    # ---- configurations
    def configs(self) -> list[Answer]:
        """Answer whether the configurations of autotuned kernels give equal bits."""
        self._answers = []
        self.call(self.arguments, tune=self._tune)
        return self._answers

    def _tune(self, observer: HashingObserver, call: TunedCall) -> Any:
        """Run all configurations, the first one last, so that its results remain."""
        tensors = list(tensors_among(call.arguments.values()))
        extents = {e for t in tensors if (e := storage_extent(t)) is not None and e[0] < e[1]}
        before = Snapshot(sorted(extents))

        def run(config: Any, program: int | None = None) -> tuple[HashedKernelRun | None, Any]:
            before.restore()
            count = len(observer.launches)
            if program is not None:
                observer.record_next(program)
            result = call.run(config)
            launches = observer.launches[count:]
            return (launches[0] if len(launches) == 1 else None), result

        others = [(config, run(config)[0]) for config in call.configs[1:]]
        first, result = run(call.configs[0])
        for config, launch in others:
            pair = first, launch
            names = f"{call.kernel}: {_pair_text(call.configs[0], config)}"
            if pair[0] is None or pair[1] is None:
                comparison = Comparison("unknown", 0)
                self._answers.append(
                    _answer("configs", names, comparison, "", "a configuration makes no launch")
                )
                continue
            again = [partial(run, call.configs[0]), partial(run, config)]
            self._answers.append(_configs_of(names, pair[0], pair[1], again))
        if others and first is not None:
            _, result = run(call.configs[0])  # the results and hashes of the first configuration
        return result

    # ---- batches
    def batches(self, batch: Mapping[str, int]) -> list[Answer]:
        """Answer whether rows depend on other rows and on their number."""
        size = self._batch_size(batch)
        whole = self.call(self.arguments)
        parts = {(0, 1), (0, size - 1), (0, size // 2), (size // 2, 1), (size - 1, 1)}
        answers = []
        for start, count in sorted(parts):
            if count:
                answers.append(self._batch(batch, size, start, count, whole))
        return answers

    def _batch_size(self, batch: Mapping[str, int]) -> int:
        sizes = set()
        for name, axis in batch.items():
            value: Any = self.arguments.get(name)
            if not hasattr(value, "narrow"):
                listed = ", ".join(self.arguments)
                raise UsageError(f"the batch `{name}` is not a tensor argument; there are {listed}")
            if not 0 <= axis < value.dim():
                raise UsageError(f"`{name}` has {counted(value.dim(), 'axis', 'axes')}, not {axis}")
            sizes.add(int(value.shape[axis]))
        if len(sizes) != 1:
            raise UsageError(f"the batch axes have different extents: {sorted(sizes)}")
        size = sizes.pop()
        if size < 2:
            raise UsageError("the batch has one row, so there is no smaller one to compare with")
        return size

    def _batch(
        self, batch: Mapping[str, int], size: int, start: int, count: int, whole: _Execution
    ) -> Answer:
        arguments = dict(self.arguments)
        for name, axis in batch.items():
            arguments[name] = arguments[name].narrow(axis, start, count)
        part = self.call(arguments)
        rows = f"row {start}" if count == 1 else f"rows {start} to {start + count - 1}"
        subject = f"{rows} in a batch of {size} and alone"
        pairs = []
        for name, tensor in whole.outputs.items():
            other = part.outputs.get(name)
            own_axis = None if other is None else _batch_axis(tensor, other, size, count)
            if own_axis is not None and (
                name.startswith("result") or part.has_stored(other)  # arguments may be results
            ):
                pairs.append((name, own_axis, tensor, other))
        elements = 0
        unknown: Answer | None = None
        for name, axis, one, other in pairs:
            hashes, makers = whole.hashes(one)
            rows_of: list[Any] = [slice(None)] * hashes.ndim
            rows_of[axis] = slice(start, start + count)
            at = tuple(rows_of)
            own, own_makers = part.hashes(other)
            comparison = compare(hashes[at].reshape(-1), own.reshape(-1))
            elements += comparison.elements
            if comparison.verdict == "equal":
                continue
            assert comparison.witness is not None
            index = np.unravel_index(comparison.witness, own.shape)
            pair = (
                (whole, makers[at][index], int(hashes[at][index]), self.arguments),
                (part, own_makers[index], int(own[index]), arguments),
            )
            witness = f"{name}[{', '.join(map(str, index))}] of the smaller batch"
            answer = self._explained(subject, comparison, witness, pair)
            if comparison.verdict == "differs":
                return answer
            unknown = unknown or answer
        if unknown is not None:
            return unknown
        if not pairs:
            reason = "no result has an axis with as many elements as the batch"
            return _answer("batch", subject, Comparison("unknown", 0), "", reason)
        reason = _unfollowed(whole.observer.launches, part.observer.launches)
        verdict = Comparison("unknown" if reason else "equal", elements)
        return _answer("batch", subject, verdict, "", reason)

    def _explained(
        self, subject: str, comparison: Comparison, witness: str, pair: Sequence[Any]
    ) -> Answer:
        """Return the answer about a difference, with the operation that causes it."""
        steps, launches = [], []
        for execution, maker, _, arguments in pair:
            number, program = int(maker[0]), int(maker[1])
            if number < 1:
                return _answer("batch", subject, comparison, "", _BY_TORCH, witness)
            launches.append(execution.observer.launches[number - 1])
            if comparison.verdict == "differs" and program >= 0:
                again = self.call(arguments, recorded=(number, program))
                steps.append(again.observer.launches[number - 1].steps)
        if comparison.verdict == "unknown":
            return _unknown("batch", subject, comparison, launches, witness)
        if len(steps) == 2:
            return _different(
                "batch", subject, comparison, steps, (pair[0][2], pair[1][2]), witness
            )
        return _ordered("batch", subject, comparison, launches, witness)


_RANK = {"equal": 0, "unknown": 1, "differs": 2}


def _named(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    """Yield the tensors in a value, with names."""
    if hasattr(value, "data_ptr") and hasattr(value, "stride"):
        yield name, value.detach()
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _named(f"{name}[{number}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _named(f"{name}[{key!r}]", item)


def _batch_axis(whole: Any, part: Any, size: int, count: int) -> int | None:
    """Return the axis of a result along which it has the extent of the batch."""
    if whole.dim() != part.dim():
        return None
    axes = [n for n in range(whole.dim()) if whole.shape[n] != part.shape[n]]
    if len(axes) != 1 or (whole.shape[axes[0]], part.shape[axes[0]]) != (size, count):
        return None
    return axes[0]


def _unfollowed(first: Sequence[HashedKernelRun], second: Sequence[HashedKernelRun]) -> str:
    """Return why equal hashes of two executions do not prove equal bits; empty if they do."""
    for launch in (*first, *second):
        if launch.failure:
            return f"`{launch.kernel}` was not followed: {launch.failure}"
    kernels = {(id(a.compilation), id(b.compilation)): (a, b) for a in first for b in second}
    reasons = (fusion_differs(a, b) for a, b in kernels.values() if a.kernel == b.kernel)
    return next(filter(None, reasons), "")


def _pair_text(first: Any, second: Any) -> str:
    """Return the settings in which two configurations differ: `BLOCK=64 and BLOCK=128`."""
    one, other = first.all_kwargs(), second.all_kwargs()
    names = [n for n in {**one, **other} if one.get(n) != other.get(n)] or list(one)
    texts = (", ".join(f"{n}={config[n]}" for n in names if n in config) for config in (one, other))
    return " and ".join(texts)


def _place(location: SourceLocation | None) -> str:
    return "" if location is None else shown_place(location.file, location.line)


def _answer(
    question: Question,
    subject: str,
    comparison: Comparison,
    where: str = "",
    reason: str = "",
    witness: str = "",
) -> Answer:
    return Answer(
        question=question,
        subject=subject,
        verdict=comparison.verdict,
        elements=comparison.elements,
        reason=reason,
        where=where,
        witness=witness,
    )


def _unknown(
    question: Question,
    subject: str,
    comparison: Comparison,
    launches: Sequence[HashedKernelRun],
    witness: str = "",
) -> Answer:
    """Return the answer about elements whose order of evaluation is unknown."""
    for launch in launches:
        if launch.failure:
            return _answer(question, subject, comparison, "", launch.failure, witness)
        for reason, place in launch.reasons.items():
            return _answer(question, subject, comparison, _place(place), reason, witness)
    return _answer(question, subject, comparison, "", _BY_TORCH, witness)


def _ordered(
    question: Question,
    subject: str,
    comparison: Comparison,
    launches: Sequence[HashedKernelRun],
    witness: str,
) -> Answer:
    """Return the answer about elements that atomics have computed."""
    for launch in launches:
        for line, count in launch.atomics.items():
            reason = f"the order of atomic additions decides {counted(count, 'element')}"
            return _answer(question, subject, comparison, shown_place(*line), reason, witness)
    reason = "atomics of the two executions have different operands"
    return _answer(question, subject, comparison, "", reason, witness)


def _different(
    question: Question,
    subject: str,
    comparison: Comparison,
    steps: Sequence[Any],
    hashes: tuple[int, int],
    witness: str,
) -> Answer:
    """Return the answer with the operation at which two trees differ."""
    difference = first_difference(steps[0], hashes[0], steps[1], hashes[1])
    if difference is None:
        reason = "the operands are combined in another order, or are different inputs"
        return _answer(question, subject, comparison, "", reason, witness)
    reason = f"{difference.first} in the first, {difference.second} in the second"
    return _answer(question, subject, comparison, _place(difference.place), reason, witness)


def _runs_of(launch: HashedKernelRun) -> Answer:
    subject = f"{launch.kernel}, {counted(int(np.prod(launch.grid)), 'program')}"
    if launch.failure:
        return _answer("runs", subject, Comparison("unknown", 0), "", launch.failure)
    elements = 0
    for stored in launch.stored:
        comparison = compare_runs(stored.hashes)
        elements += comparison.elements
        if comparison.witness is None:
            continue
        witness = f"element {stored.elements[comparison.witness]} of `{stored.name}`"
        if comparison.verdict == "differs":
            return _ordered("runs", subject, comparison, [launch], witness)
        return _unknown("runs", subject, comparison, [launch], witness)
    return _answer("runs", subject, Comparison("equal", elements))


def _configs_of(
    subject: str,
    first: HashedKernelRun,
    second: HashedKernelRun,
    again: Sequence[Callable[..., Any]],
) -> Answer:
    """Compare what two launches with the same arguments have stored."""
    for launch in (first, second):
        if launch.failure:
            return _answer("configs", subject, Comparison("unknown", 0), "", launch.failure)
    elements = 0
    others = {(stored.start, stored.size): stored for stored in second.stored}
    unknown: Answer | None = None
    for stored in first.stored:
        other = others.get((stored.start, stored.size))
        if other is None or not np.array_equal(stored.elements, other.elements):
            reason = f"they store to different elements of `{stored.name}`"
            return _answer("configs", subject, Comparison("differs", elements), "", reason)
        comparison = compare(stored.hashes, other.hashes)
        elements += comparison.elements
        if comparison.witness is None:
            continue
        n = comparison.witness
        witness = f"element {stored.elements[n]} of `{stored.name}`"
        if comparison.verdict == "unknown":
            answer = _unknown("configs", subject, comparison, [first, second], witness)
            unknown = unknown or answer
            continue
        return _config_difference(subject, comparison, (stored, other), n, witness, again, first)
    if unknown is not None:
        return unknown
    if len(first.stored) != len(second.stored):
        reason = "they store to different arguments"
        return _answer("configs", subject, Comparison("differs", elements), "", reason)
    reason = fusion_differs(first, second)
    verdict = Comparison("unknown" if reason else "equal", elements)
    return _answer("configs", subject, verdict, "", reason)


def _config_difference(
    subject: str,
    comparison: Comparison,
    pair: tuple[StoredTensor, StoredTensor],
    number: int,
    witness: str,
    again: Sequence[Callable[..., Any]],
    first: HashedKernelRun,
) -> Answer:
    programs = [int(stored.programs[number]) for stored in pair]
    if min(programs) < 0:
        return _ordered("configs", subject, comparison, [first], witness)
    steps = []
    for run, program in zip(again, programs, strict=True):
        launch, _ = run(program)
        steps.append([] if launch is None else launch.steps)
    hashes = int(pair[0].hashes[number]), int(pair[1].hashes[number])
    return _different("configs", subject, comparison, steps, hashes, witness)
