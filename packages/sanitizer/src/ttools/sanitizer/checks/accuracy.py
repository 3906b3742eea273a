"""The check `accuracy`: outputs that are less accurate than their type, and the lines at fault."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from math import isfinite, prod
from typing import ClassVar

import numpy as np

from ttools.core.errors import TtoolsError
from ttools.core.findings.findings import Finding, Related
from ttools.core.spec import ArgumentSpec, storage_extent
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.eager.observation import observing_operations
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.sanitizer.accuracy.follower import Follower, Mixed
from ttools.sanitizer.accuracy.memory import StorageShadow
from ttools.sanitizer.accuracy.record import ulps
from ttools.sanitizer.accuracy.sources import Source
from ttools.sanitizer.accuracy.verdicts import WrongElements, errors_of, limits
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.memory.launch_state import SavedMemory

#: Maximum number of programs of a launch that are followed.
_MOST_PROGRAMS = 256
#: Number of programs that are followed before the elapsed time is checked again.
_AT_ONCE = 32
#: Seconds after which no further programs of a launch are started.
_SECONDS = 60.0
#: A result counts as underflowed if this share of it is lost.
_LOST = 2.0**-6
_NARROW = ("f16", "bf16")
#: A floating-point type in a type of Triton, such as `*fp16` or `tensordesc<bf16[16, 16]>`.
_FLOAT = re.compile(r"\b(fp|bf|f)\d")
_WORDS = {
    "fadd": "addition",
    "fsub": "subtraction",
    "fmul": "multiplication",
    "fma": "multiplication with addition",
    "fdiv": "division",
    "precise_divf": "division",
    "fp_trunc": "conversion",
    "fp_to_fp": "conversion",
    "si_to_fp": "conversion of an integer",
    "ui_to_fp": "conversion of an integer",
    "reduce": "reduction",
    "scan": "scan",
    "dot": "matrix product",
    "atomic_rmw": "atomic addition",
}
_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


class Accuracy(Check):
    """Finds the lines at which a kernel loses digits; this check runs only on request."""

    name = "accuracy"
    page = "reference/findings.md#the-accuracy-check"
    seeks = "losses of accuracy"
    is_default = False
    is_slow = True
    kinds: ClassVar[Kinds] = {
        "accuracy_loss": Kind(
            severity="warning",
            meaning="The rounding errors of this line make an output less accurate than its type "
            "and a sound algorithm explain.",
            help="compute this line in float32",
        ),
        "cancellation": Kind(
            severity="warning",
            meaning="A later difference of nearly equal numbers makes the rounding errors of this "
            "line large.",
            help="rewrite the difference so that nearly equal numbers are not subtracted, for "
            "example with libdevice.expm1 or a variance of two passes",
        ),
        "overflow": Kind(
            severity="warning",
            meaning="A result exceeds the range of its type, and makes an output wrong.",
            help="compute in float32, scale first, or subtract the maximum before exp",
        ),
        "underflow": Kind(
            severity="warning",
            meaning="A result is too small for its type, and the loss makes an output wrong.",
            help="scale the value before it is rounded, or keep it in float32",
        ),
        "nan": Kind(
            severity="warning",
            meaning="The operation that produces a NaN which an output receives.",
            help="keep the operands in the range for which the operation is defined",
        ),
        "inf": Kind(
            severity="warning",
            meaning="The operation whose infinite result makes an output wrong.",
            help="keep the operands in the range for which the operation is defined",
        ),
        "padded_lanes": Kind(
            severity="warning",
            meaning="A reduction counts lanes that the mask of a load leaves out, and its result "
            "is stored.",
            help="set these lanes to the neutral element right before the reduction, for example "
            "with tl.where(mask, x, 0.0)",
        ),
        "within_rounding": Kind(
            severity="note",
            meaning="The largest error of an output without a defect.",
        ),
    }

    _before: SavedMemory | None = None

    def prepare(self, options: LaunchOptions) -> LaunchOptions:
        """Save the memory of a launch with floating-point numbers, so that it can be repeated."""
        launch = self.checked.launch
        if self.checked.is_trial or launch.eagerly is None or not _has_floats(launch.kernel.plan):
            return options
        self._before = SavedMemory(launch.values, self.checked.memory)
        if launch.written_storages is None:
            self._before.add(self.checked.book.on_host())
        return options

    def findings(self) -> Iterator[Finding]:
        """Repeat the launch with shadow values, and compare what it has stored with them."""
        checked = self.checked
        if checked.hung or checked.is_trial:
            return
        if checked.launch.eagerly is None and _has_floats(checked.launch.kernel.plan):
            yield self.finding("unsupported", "not followed: the launch has no Python source")
        if self._before is None:
            return
        record = checked.accuracy
        with record.lock:
            follower = Follower(memory=record.memory, sources=record.sources, launch=record.begin())
            extents = (storage_extent(value) for value in checked.launch.values)
            record.memory.begin(e for e in extents if e is not None and e[0] < e[1])
            try:
                limited = self._follow(follower)
            except TtoolsError as error:
                text = str(error).splitlines()[0]
                yield self.finding("unsupported", f"not followed: {text}")
                return
            yield from self._compare(follower, limited)

    def _follow(self, follower: Follower) -> str:
        """Repeat the launch; return a sentence if some programs were left out."""
        checked, before = self.checked, self._before
        launch = checked.launch
        run = launch.eagerly
        assert before is not None
        assert run is not None
        total = prod(checked.spec.grid)
        chosen = np.arange(total)
        if total > _MOST_PROGRAMS and not checked.kernel.waits:
            chosen = np.unique(np.linspace(0, total - 1, _MOST_PROGRAMS).astype(np.int64))
        step = len(chosen) if checked.kernel.waits else _AT_ONCE
        after, monitor, began, done = before.again(), launch.monitor, time.monotonic(), 0
        before.restore()
        try:
            with observing_operations(follower):
                while done < len(chosen) and (not done or time.monotonic() - began < _SECONDS):
                    run(",".join(map(str, chosen[done : done + step].tolist())))
                    done += step
        finally:
            launch.monitor = monitor
            after.restore()
        followed = min(done, len(chosen))
        return f"{followed:,} of {total:,} programs were followed" if followed < total else ""

    # ---- findings
    def _compare(self, follower: Follower, limited: str) -> Iterator[Finding]:
        record = self.checked.accuracy
        for number, mixed in follower.mixed.items():
            if mixed.lanes:
                yield self._padded(record.sources.table[number], mixed)
        for number, count in follower.converted.items():
            yield self._converted(record.sources.table[number], count)
        for storage in record.memory.storages():
            errors = errors_of(storage, follower.launch, record.sources)
            if errors is None:
                continue
            argument = self._argument(storage)
            for wrong in errors.wrong:
                yield self._wrong(wrong, storage, argument)
            name = argument.name if argument else "an output"
            note = self.finding("within_rounding", "", argument=argument)
            record.add(note, name, _type_name(storage.dtype), errors, limited)
            if storage.is_full:
                yield self.finding(
                    "unsupported", f"`{name}` has too many elements: not all are compared"
                )
        for number, operation in follower.unfollowed.items():
            place = record.sources.table[number].place
            text = f"`{operation}` is not followed: its results count as exact"
            yield self.finding("unsupported", text, location=place, severity="note")

    def _argument(self, storage: StorageShadow) -> ArgumentSpec | None:
        launch = self.checked.launch
        for index in sorted(launch.kernel.plan.pointers):
            memory = launch.memory(index)
            if memory is not None and memory.storage == storage.start:
                return self.checked.spec.argument(index)
        return None

    def _wrong(
        self, wrong: WrongElements, storage: StorageShadow, argument: ArgumentSpec | None
    ) -> Finding:
        name = f"`{argument.name}`" if argument else "an output"
        kind, source = _kind(wrong)
        where = _index(wrong.element, argument)
        relative = abs(wrong.stored - wrong.exact) / max(abs(wrong.exact), 1e-300)
        dtype = _type_name(storage.dtype)
        stored = f"{name}{where} is {wrong.stored:g}"
        if isfinite(wrong.exact):
            stored += f" and should be {wrong.exact:g}"
        if isfinite(wrong.ulps):
            stored += f": {ulps(wrong.ulps)} of {dtype}; {ulps(wrong.allowed)} are allowed"
        notes = [stored]
        values = source.values
        related = []
        if wrong.origin is not None:
            values = source.special_values
            message = f"{_operation(source)} {_SPECIAL[kind]}, which makes {name} wrong"
        else:
            first = wrong.contributions[0] if wrong.contributions else None
            share = f" and causes {first.share:.0%} of it" if first else ""
            message = (
                f"{name} has an error of {ulps(wrong.ulps)} of {dtype} (relative {relative:.2g}); "
                f"{_operation(source)} rounds to {_TYPES.get(source.type, source.type)}{share}"
            )
            if values:
                notes.append(
                    f"largest relative rounding error here: {source.exact:g} becomes "
                    f"{source.rounded:g}"
                )
            for other in wrong.contributions[1:]:
                text = f"{other.share:.0%} of the error: {_operation(other.source)}"
                related.append(Related(message=text, location=other.source.place))
            if kind == "cancellation" and wrong.cancelled is not None:
                text = "the difference here makes the relative error large"
                related.append(Related(message=text, location=wrong.cancelled.place))
        return self.finding(
            kind,
            message,
            argument=argument,
            location=source.place or wrong.store.place,
            variables=tuple((n, f"{value:g}") for n, value in values),
            notes=tuple(notes),
            related=tuple(related),
            count=wrong.count,
            help=_remedy(kind, source, wrong.cancelled) or self.kinds[kind].help,
        )

    def _padded(self, source: Source, mixed: Mixed) -> Finding:
        return self.finding(
            "padded_lanes",
            "this reduction counts lanes that the mask of a load leaves out",
            location=source.place,
            count=mixed.lanes,
            notes=(
                f"with these lanes the result is {mixed.result:g}, without them {mixed.without:g}",
            ),
        )

    def _converted(self, source: Source, count: int) -> Finding:
        kind = source.special or "overflow"
        return self.finding(
            kind,
            f"{_operation(source)} {_SPECIAL[kind]}, which makes an integer wrong",
            location=source.place,
            variables=tuple((n, f"{value:g}") for n, value in source.special_values),
            count=count,
            help=_remedy(kind, source, None) or self.kinds[kind].help,
        )


_SPECIAL = {
    "overflow": "exceeds the range of its type",
    "nan": "gives NaN",
    "inf": "gives an infinity",
    "underflow": "is too small for its type",
    "cancellation": "has rounding errors that a difference makes large",
    "accuracy_loss": "has a large rounding error",
}


def _has_floats(plan: ArgumentPlan) -> bool:
    return any(_FLOAT.search(name) for name in plan.types)


def _type_name(dtype: np.dtype[np.generic]) -> str:
    return str(dtype)


def _operation(source: Source) -> str:
    return f"the {_WORDS.get(source.operation, f'`{source.operation}`')}"


def _index(element: int, argument: ArgumentSpec | None) -> str:
    """Return the index of an element of a storage in its tensor, as in `[3, 5]`."""
    tensor = None if argument is None else argument.tensor
    if tensor is None:
        return f" (element {element})"
    number = element - tensor.element_offset
    if not tensor.is_dense or not 0 <= number < prod(tensor.shape):
        return f" (element {element} of the storage)"
    order = sorted(range(len(tensor.shape)), key=lambda axis: -tensor.strides[axis])
    index = [0] * len(order)
    for axis in order:
        stride = tensor.strides[axis]
        if stride and tensor.shape[axis] > 1:
            index[axis], number = divmod(number, stride)
    return f"[{', '.join(map(str, index))}]" if index else ""


def _kind(wrong: WrongElements) -> tuple[str, Source]:
    """Return the kind of a finding, and the operation at fault."""
    if wrong.origin is not None:
        return wrong.origin.special or "nan", wrong.origin
    if not wrong.contributions:
        return "accuracy_loss", wrong.store
    source = wrong.contributions[0].source
    type_limits = limits(np.dtype(np.float32)) if source.type == "f32" else None
    tiny = type_limits[1] if type_limits else 2.0**-14 if source.type == "f16" else 2.0**-126
    if 0 < abs(source.exact) < tiny and source.relative > _LOST:
        return "underflow", source
    # A type of 16 bits is the defect, whatever makes its errors large.
    is_cancelled = wrong.cancelled is not None and source.type not in _NARROW
    return ("cancellation" if is_cancelled else "accuracy_loss"), source


def _remedy(kind: str, source: Source, cancelled: Source | None) -> str | None:
    """Return advice for an operation, or None if that of the kind is best."""
    operation, is_narrow = source.operation, source.type in _NARROW
    sums = operation in ("fadd", "fsub", "reduce", "scan", "atomic_rmw", "fma")
    if kind == "overflow" and operation.startswith("exp"):
        return "subtract the row maximum before exp"
    if kind == "overflow" and is_narrow:
        return "keep the value in float32, or scale it before it is rounded"
    if kind == "accuracy_loss" and is_narrow and operation == "dot":
        return "accumulate in float32: tl.dot(…, out_dtype=tl.float32)"
    if kind == "accuracy_loss" and is_narrow and sums:
        return "accumulate in float32, for example acc += x.to(tl.float32)"
    if kind in ("accuracy_loss", "cancellation") and operation in ("fp_trunc", "fp_to_fp"):
        return "keep the value in float32 here, and round only the result"
    if operation in ("si_to_fp", "ui_to_fp"):
        return "compute with integers before the conversion"
    if kind == "accuracy_loss" and operation == "dot":
        return "accumulate in float32, with input_precision='ieee'"
    if kind == "accuracy_loss" and operation in ("fadd", "fma", "fsub"):
        return (
            "multiply instead of adding repeatedly, add in blocks, or carry the rounding error "
            "along (Kahan); near 1 use libdevice.log1p or libdevice.expm1"
        )
    if kind == "cancellation" and operation.startswith("exp") and cancelled is not None:
        return "use libdevice.expm1 for exp(x) - 1"
    return None
