"""Provides `reproduce()`, which determines whether the results of a function are bitwise equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import torch

import ttools.verifier.reproducibility.report  # noqa: F401 - registers the formats of answers
from ttools.core.device_map.memory import on_host
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.gpus.targets import Target, read_target
from ttools.core.location import SourceLocation, shown_line, shown_place
from ttools.core.process.user_module import describe
from ttools.core.reports.report import counted
from ttools.core.spec import storage_extent
from ttools.interpreter.api import device_map as mapped_devices
from ttools.interpreter.api import interpret
from ttools.interpreter.run.tuned_launch import TunedCall, run_first
from ttools.interpreter.runtime.snapshot import Snapshot, memory
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.reproducibility.differences import (
    Comparison,
    Difference,
    DifferentInputs,
    StoredComparison,
    compare,
    compare_launches,
    compare_runs,
    first_difference,
    fusion_differs,
)
from ttools.sanitizer.reproducibility.follower import Step
from ttools.sanitizer.reproducibility.hashes import UNKNOWN, Hashed, of_words
from ttools.sanitizer.reproducibility.host_choices import derived_constants, more_programs
from ttools.sanitizer.reproducibility.run import HashedKernelRun, HashingObserver
from ttools.verifier.cases.tensors import map_tensors
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
    batch: str | Sequence[str] | Mapping[str, int] | None = None,
    devices: Sequence[str] = (),
    device_map: str | None = None,
    seed: int = 0,
) -> Reproducibility:
    """Determine whether a function's results are bitwise equal on a GPU; no GPU is required.

    The kernels run on the CPU, and each result is hashed together with the order in which the GPU
    evaluates it. An answer holds for the launches that ran, with the sizes that they had.

    Args:
        function: Calls Triton kernels and returns tensors, or stores to its arguments.
        arguments: The arguments by name; tensors are copied for each call.
        gpu: Architecture for which the kernels are compiled, such as `sm_90`.
        questions: `runs` asks whether a different order of programs gives the same bits; `configs`
            asks whether all configurations of autotuned kernels give the same bits.
        batch: The arguments that contain the batch: their axes by name, or texts of the form `NAME`
            and `NAME:AXIS`. The rows of the results are compared with those of smaller batches.
        devices: Architectures whose results are compared with those of `gpu`.
        device_map: Mapping of CUDA devices to the CPU, such as `cuda=cpu`.
        seed: Seed of torch's random numbers in each call.

    Raises:
        UsageError: The target is unknown, an argument has no such axis, or a tensor is in the
            memory of a GPU.
    """
    target, others = _target(gpu), [_target(device) for device in devices]
    axes = axes_of(batch)
    _refuse_device_memory(arguments)
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
        if axes:
            answers += call.batches(axes)
            if call.is_tuned:
                notes.append(_FIRST_CONFIG)
        for other in others:
            answers += call.devices(other)
    return Reproducibility(
        function=getattr(function, "__name__", "the function"),
        target=target.name,
        answers=tuple(answers),
        notes=tuple(notes),
    )


def axes_of(batch: str | Sequence[str] | Mapping[str, int] | None) -> dict[str, int]:
    """Return the axis of each argument that contains the batch.

    Args:
        batch: Axes by name, or texts of the form `NAME` (axis 0) and `NAME:AXIS`.

    Raises:
        UsageError: A text has a different form.
    """
    if isinstance(batch, Mapping):
        return dict(batch)
    axes = {}
    for word in [batch] if isinstance(batch, str) else batch or ():
        name, colon, axis = word.partition(":")
        if not name or (colon and not axis.isdigit()):
            raise UsageError(f"batch {word}: must be NAME or NAME:AXIS, such as x:0")
        axes[name] = int(axis or 0)
    return axes


def parts_of_batch(size: int) -> list[tuple[int, int]]:
    """Return the smaller batches to compare with the whole one: first row and number of rows."""
    parts = {(0, 1), (0, size - 1), (0, size // 2), (size // 2, 1), (size - 1, 1)}
    return sorted(part for part in parts if part[1])


def _target(gpu: str) -> Target:
    target = read_target(gpu)
    if target.backend != "cuda":
        raise UsageError(f"orders of evaluation are known for NVIDIA GPUs, not for {target.name}")
    return target


def _refuse_device_memory(arguments: Mapping[str, Any]) -> None:
    """Raise an error if an argument is not in host memory, where the kernels run."""
    for name, value in arguments.items():
        for tensor in tensors_among([value]):
            if hasattr(tensor, "device") and not on_host(tensor):
                raise UsageError(
                    f"`{name}` is on `{tensor.device}`, but the kernels run on the CPU: create it "
                    "there, or map the device with device_map='cuda=cpu'"
                )


def _copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copied tensors; a tensor that is passed twice is copied only once."""
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
        target: Target | None = None,
    ) -> _Execution:
        """Call the function on copies of its arguments.

        Args:
            arguments: The arguments by name.
            recorded: The launch and the program whose operations are recorded.
            tune: Launches autotuned kernels; by default, they run in their first configuration.
            target: The GPU to use when GPUs are compared; None for the GPU to which all other
                questions refer.
        """
        import torch

        copies = _copied(arguments)
        tensors = list(tensors_among(copies.values()))
        extents = [extent for t in tensors if (extent := storage_extent(t)) is not None]
        observer = HashingObserver(
            target or self.target,
            None if tune else extents,
            recorded,
            portable=target is not None,
        )
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
            _keep_worst(answers, launch.kernel, answer)
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
            stored = compare_launches(pair[0], pair[1])
            self._answers.append(_compared("configs", names, stored, pair[0], again))
        if others and first is not None:
            _, result = run(call.configs[0])  # so that these results and hashes remain
        return result

    # ---- devices
    def devices(self, other: Target) -> list[Answer]:
        """Answer whether another GPU computes equal bits."""
        executions = [self.call(self.arguments, target=gpu) for gpu in (self.target, other)]
        pairs = zip(*(one.observer.launches for one in executions), strict=False)
        answers: dict[str, Answer] = {}
        for number, (first, second) in enumerate(pairs, 1):
            subject = f"{first.kernel}: {self.target.name} and {other.name}"
            comparison = compare_launches(first, second)

            def again(
                program: int, gpu: Target, number: int = number
            ) -> tuple[HashedKernelRun | None, Any]:
                execution = self.call(self.arguments, (number, program), target=gpu)
                return execution.observer.launches[number - 1], None

            repeated = [partial(again, gpu=gpu) for gpu in (self.target, other)]
            answer = _compared("devices", subject, comparison, first, repeated)
            _keep_worst(answers, first.kernel, answer)
        return list(answers.values())

    # ---- batches
    def batches(self, batch: Mapping[str, int]) -> list[Answer]:
        """Answer whether rows of the results depend on other rows and on the number of rows."""
        size = self._batch_size(batch)
        whole = self.call(self.arguments)
        return [
            self._batch(batch, size, start, count, whole) for start, count in parts_of_batch(size)
        ]

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
                _element(whole, self.arguments, makers[at][index], hashes[at][index]),
                _element(part, arguments, own_makers[index], own[index]),
            )
            witness = f"{name}[{', '.join(map(str, index))}] of the smaller batch"
            answer = self._explained(subject, comparison, witness, pair, (size, count))
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
        self,
        subject: str,
        comparison: Comparison,
        witness: str,
        pair: tuple[_Element, _Element],
        sizes: tuple[int, int],
    ) -> Answer:
        """Return the answer about a difference, with the operation that causes it.

        If the launches that computed the two elements differ only in their inputs, the cause is in
        the earlier launches that stored these inputs.
        """
        if min(element.number for element in pair) < 1:
            return _answer("batch", subject, comparison, "", _BY_TORCH, witness)
        if comparison.verdict == "unknown":
            launches = [element.launch for element in pair]
            return _unknown("batch", subject, comparison, launches, witness)
        difference: Difference | DifferentInputs | None = None
        while min(element.program for element in pair) >= 0:
            first, second = (self._steps(element) for element in pair)
            difference = first_difference(first, pair[0].value, second, pair[1].value)
            if not isinstance(difference, DifferentInputs):
                break
            sources = pair[0].source(difference.first), pair[1].source(difference.second)
            if sources[0] is None or sources[1] is None:
                break
            pair = sources[0], sources[1]
        launches = [element.launch for element in pair]
        if min(element.program for element in pair) < 0:
            answer = _ordered("batch", subject, comparison, launches, witness)
        else:
            answer = _different("batch", subject, comparison, difference, witness)
        return _with_host_choices(answer, launches, sizes)

    def _steps(self, element: _Element) -> Sequence[Step]:
        """Call the function again to record the steps of the program that stored an element."""
        again = self.call(element.arguments, recorded=(element.number, element.program))
        return again.observer.launches[element.number - 1].steps


@dataclass(frozen=True, kw_only=True)
class _Element:
    """An element that a program has stored in a call of the function.

    Attributes:
        execution: The call of the function.
        arguments: The arguments of the call.
        number: Number of the launch that has stored the element, from 1; smaller if none has stored
            it.
        program: Number of the program; negative if several programs have computed the element.
        value: Hash of the element.
    """

    execution: _Execution
    arguments: Mapping[str, Any]
    number: int
    program: int
    value: int

    @property
    def launch(self) -> HashedKernelRun:
        """The launch that has stored the element."""
        return self.execution.observer.launches[self.number - 1]

    def source(self, value: int) -> _Element | None:
        """Return the element with a given hash that an earlier launch stored; None for an input."""
        for number in range(self.number - 1, 0, -1):
            for stored in self.execution.observer.launches[number - 1].stored:
                index = np.flatnonzero(stored.hashes == np.uint64(value))
                if len(index):
                    program = int(stored.programs[index[0]])
                    return replace(self, number=number, program=program, value=value)
        return None


_RANK = {"equal": 0, "unknown": 1, "differs": 2}


def _with_host_choices(
    answer: Answer, launches: Sequence[HashedKernelRun], sizes: tuple[int, int]
) -> Answer:
    """Add to an answer the choices of host code that depend on the number of rows.

    Args:
        answer: The answer about a row that differs.
        launches: The launches that computed the row: in the whole batch, and in the smaller one.
        sizes: Numbers of rows of the two batches.
    """
    whole, part = launches
    if whole.kernel != part.kernel:
        return answer
    ratio = Fraction(sizes[1], sizes[0])
    chosen = {
        f"`{name}`": (whole.constants[name], part.constants.get(name))
        for name in derived_constants(whole.constants, part.constants, ratio)
    }
    chosen.update(more_programs(whole.grid, part.grid, ratio))
    if not chosen:
        return answer
    rows = counted(sizes[0], "row"), counted(sizes[1], "row")
    texts = (
        f"{name} is {before} for {rows[0]} and {after} for {rows[1]}"
        for name, (before, after) in chosen.items()
    )
    where = answer.where or (shown_line(part.line) if part.line else "")
    return replace(answer, where=where, reason=f"{answer.reason}; {', '.join(texts)}")


def _element(
    execution: _Execution, arguments: Mapping[str, Any], maker: Any, value: Any
) -> _Element:
    return _Element(
        execution=execution,
        arguments=arguments,
        number=int(maker[0]),
        program=int(maker[1]),
        value=int(value),
    )


def _keep_worst(answers: dict[str, Answer], kernel: str, answer: Answer) -> None:
    """Keep the worst of the answers about the launches of a kernel."""
    before = answers.get(kernel)
    if before is None or _RANK[answer.verdict] > _RANK[before.verdict]:
        answers[kernel] = answer


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
    """Return the axis of a result whose extent is the size of the batch; None if there is none."""
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
    """Return the answer about elements that are computed by atomic operations."""
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
    difference: Difference | DifferentInputs | None,
    witness: str,
) -> Answer:
    """Return the answer with the operation at which two trees differ."""
    if not isinstance(difference, Difference):
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


def _compared(
    question: Question,
    subject: str,
    stored: StoredComparison,
    first: HashedKernelRun,
    again: Sequence[Callable[[int], tuple[HashedKernelRun | None, Any]]],
) -> Answer:
    """Return the answer about two launches with the same arguments.

    Args:
        question: The question that is answered.
        subject: Description of the two launches.
        stored: The comparison of what the launches have stored.
        first: The first of the two launches.
        again: One function for each launch, which repeats it and records the operations of a
            program.
    """
    comparison = Comparison(stored.verdict, stored.elements)
    if stored.verdict != "differs" or stored.stored is None:
        reason = stored.reason or ("" if stored.verdict == "equal" else _BY_TORCH)
        return _answer(question, subject, comparison, _place(stored.place), reason, stored.witness)
    programs = [int(tensor.programs[stored.number]) for tensor in stored.stored]
    if min(programs) < 0:
        return _ordered(question, subject, comparison, [first], stored.witness)
    steps = []
    for run, program in zip(again, programs, strict=True):
        launch, _ = run(program)
        steps.append([] if launch is None else launch.steps)
    hashes = [int(tensor.hashes[stored.number]) for tensor in stored.stored]
    difference = first_difference(steps[0], hashes[0], steps[1], hashes[1])
    return _different(question, subject, comparison, difference, stored.witness)
