"""The check `accuracy`: outputs that are less accurate than their type, and the lines at fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite, prod
from typing import ClassVar

import numpy as np

from ttools.core.errors import TtoolsError
from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation
from ttools.core.reports.accuracy import ulps
from ttools.core.reports.report import counted
from ttools.core.spec import ArgumentSpec
from ttools.sanitizer.accuracy.decisions import Decision
from ttools.sanitizer.accuracy.follower import Follower, Mixed
from ttools.sanitizer.accuracy.gpu_range import GpuFollower, architecture_of, range_of
from ttools.sanitizer.accuracy.memory import StorageShadow
from ttools.sanitizer.accuracy.rules.table import TABLE
from ttools.sanitizer.accuracy.screening import Screening
from ttools.sanitizer.accuracy.shadow import EXTENDED, HAS_EXTENDED
from ttools.sanitizer.accuracy.sources import Source, operation_text
from ttools.sanitizer.accuracy.verdicts import OutputErrors, WrongElements, errors_of
from ttools.sanitizer.checks.check import Kind, Kinds
from ttools.sanitizer.checks.repeated import RepeatedCheck, has_floats
from ttools.sanitizer.passes import exact_values
from ttools.sanitizer.passes.rewrites import Pass

#: A result counts as underflowed if more than this share of it is lost.
_LOST = 2.0**-6
_NARROW = ("f16", "bf16")
#: Smallest normal numbers of the types for which it differs from that of float32.
_SMALLEST_NORMAL = {"f16": 2.0**-14, "f64": 2.0**-1022}
_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_FLOAT64_LIMIT = (
    f"exact values of float64 have {np.finfo(EXTENDED).nmant + 1} bits, so a loss that these hide, "
    "too, is not seen"
)
_IN_DOMAIN = "keep the operands in the range for which the operation is defined"


#: Number of programs that are followed although screening has found nothing, for the report's
#: figures on lines; once for each kernel.
_FEW_PROGRAMS = 8
#: Maximum number of programs of a launch that are all followed if screening has found something in
#: any of them, and if programs may load what others have stored.
_ALL_PROGRAMS = 256


def _defect(meaning: str, help: str) -> Kind:
    return Kind(severity="warning", meaning=meaning, help=help)


class Accuracy(RepeatedCheck):
    """Finds the lines at which a kernel loses digits; this check runs only on request."""

    name = "accuracy"
    page = "reference/findings.md#the-accuracy-check"
    seeks = "losses of accuracy"
    kinds: ClassVar[Kinds] = {
        "accuracy_loss": _defect(
            "The rounding errors of this line make an output less accurate than its type allows "
            "with a numerically stable algorithm.",
            "compute this line in float32",
        ),
        "cancellation": _defect(
            "A later difference of nearly equal numbers makes the rounding errors of this line "
            "large.",
            "rewrite the difference so that nearly equal numbers are not subtracted, for example "
            "with libdevice.expm1 or a variance of two passes",
        ),
        "overflow": _defect(
            "A result exceeds the range of its type, and makes an output wrong.",
            "compute in float32, scale first, or subtract the maximum before exp",
        ),
        "underflow": _defect(
            "A result is too small for its type, and the loss makes an output wrong.",
            "scale the value before it is rounded, or keep it in float32",
        ),
        "nan": _defect("The operation produces a NaN that reaches an output.", _IN_DOMAIN),
        "inf": _defect("The infinite result of this operation makes an output wrong.", _IN_DOMAIN),
        "padded_lanes": _defect(
            "A reduction counts lanes that the mask of a load leaves out, and its result is "
            "stored.",
            "set these lanes to the neutral element right before the reduction, for example with "
            "tl.where(mask, x, 0.0)",
        ),
        "decision": Kind(
            severity="note",
            meaning="A comparison or a choice of an index that the exact values decide "
            "differently, and on which a branch, a selection, a mask, a number or an order "
            "depends.",
        ),
        "within_rounding": Kind(
            severity="note",
            meaning="The largest error of an output without a defect.",
        ),
    }

    _screening: Screening | None = None

    def passes(self) -> Sequence[Pass]:
        """Return the pass that screens the launch, if no other check needs passes.

        Under other checks, which would examine the exact values, too, the launch is screened
        afterwards.
        """
        if list(self.checked.pending) != [self.name] or not self._begin_screening():
            return ()
        return self._pass(self.checked.kernel in self.checked.accuracy.sensitive)

    def hidden(self) -> Sequence[int]:
        """Return the addresses of the exact values in memory, and of the programs' flags."""
        return [] if self._screening is None else self._screening.hidden

    def _begin_screening(self) -> bool:
        """Prepare the exact values in memory; return whether the launch can be screened."""
        checked = self.checked
        launch, kernel, record = checked.launch, checked.kernel, checked.accuracy
        options = checked.options
        needs_rows = options.exact_results or options.accuracy_range or options.suggest_tolerance
        effects = launch.kernel.variants.effects
        if checked.is_trial or needs_rows or effects.unknown_writes:
            return False
        if not has_floats(launch.kernel.plan) or kernel.fact(exact_values.unsupported):
            return False
        with record.lock:
            record.memory.begin(self.extents(), checked.book.live)
            self._screening = Screening.begin(
                record.memory,
                {n: checked.regions[n] for n in launch.kernel.plan.pointers},
                kernel.fact(exact_values.float_parameters),
                prod(launch.grid),
                written=frozenset(effects.written),
                loaded=kernel.fact(exact_values.loaded_parameters),
            )
        return self._screening is not None

    def _pass(self, follows_inputs: bool) -> Sequence[Pass]:
        """Return the pass that screens the launch; the same object for equal launches."""
        assert self._screening is not None
        kernel, tracked = self.checked.kernel, self._screening.parameters
        follows = follows_inputs and not kernel.fact(exact_values.without_derivative)
        return kernel.remember((Accuracy, tracked, follows), lambda: _pass_for(tracked, follows))

    def findings(self) -> Iterator[Finding]:
        """Repeat the launch with shadow values, and compare what it has stored with them."""
        checked = self.checked
        if checked.hung or checked.is_trial:
            if self._screening is not None:
                self._screening.drop()
            return
        if self.lacks_source:
            yield self.finding("unsupported", "not followed: the launch has no Python source")
        if self._before is None:
            return
        record = checked.accuracy
        with record.lock:
            is_exact = checked.options.exact_results
            follower = Follower(
                table=TABLE,
                memory=record.memory,
                sources=record.sources,
                launch=record.begin(),
                settles=not is_exact,
            )
            record.memory.begin(self.extents(), checked.book.live)
            is_clean = self._is_clean(follower.launch)
            if is_clean and checked.kernel in record.followed:
                return
            is_recorded = is_clean and not self._is_followed_completely
            record.followed.add(checked.kernel)
            for storage in record.memory.storages():
                if not is_clean or not storage.is_stored_by(follower.launch):
                    storage.absorb()
            try:
                limited = self._repeat_some(follower, is_clean)
            except TtoolsError as error:
                text = str(error).splitlines()[0]
                yield self.finding("unsupported", f"not followed: {text}")
                return
            yield from self._compare(follower, limited, is_recorded=is_recorded)
            if checked.options.accuracy_range:
                self._add_ranges(follower.launch)
            if is_exact:
                for storage in record.memory.storages():
                    storage.replace_by_exact(follower.launch)
                yield from self._inexact(follower, limited)

    def _is_clean(self, launch: int) -> bool:
        """Return whether screening has found nothing; if so, record the errors of outputs."""
        checked = self.checked
        is_sensitive = checked.kernel in checked.accuracy.sensitive
        if self._screening is None:
            self._screen(is_sensitive)
        if self._screening is not None and self._screening.flags.any():
            self._screening.drop()
            if is_sensitive or checked.kernel.fact(exact_values.without_derivative):
                return False
            checked.accuracy.sensitive.add(checked.kernel)
            self._screen(True)
            if self._screening.flags.any():
                self._screening.drop()
                return False
        if self._screening is None:
            return False
        is_followed = self._is_followed_completely
        for storage, errors, step in self._screening.end(launch):
            if is_followed:
                continue
            limited = f"the figures are those of 1 in {step} elements" if step > 1 else ""
            self._record(storage, errors, limited)
        return True

    @property
    def _is_followed_completely(self) -> bool:
        """True if all programs are followed even if screening finds nothing."""
        screening, checked = self._screening, self.checked
        is_small = screening is None or len(screening.flags) <= _FEW_PROGRAMS
        return is_small and checked.kernel not in checked.accuracy.followed

    def _screen(self, follows_inputs: bool) -> None:
        """Run the launch natively once more to screen it, with the memory from before it."""
        with self.restored():
            if self._begin_screening():
                self.checked.rerun(self._pass(follows_inputs), self.hidden())

    def _repeat_some(self, follower: Follower, is_clean: bool) -> str:
        """Repeat the programs that must be followed; return a sentence on those left out."""
        screening = self._screening
        if screening is None:
            return self.repeat(follower)
        if is_clean:
            limited = self.repeat(follower, most=_FEW_PROGRAMS)
        elif len(screening.flags) <= _ALL_PROGRAMS and not screening.has_independent_programs:
            limited = self.repeat(follower)
        else:
            limited = self.repeat(follower, np.flatnonzero(screening.flags))
        return f"all programs were screened; {limited}" if limited else ""

    def _record(self, storage: StorageShadow, errors: OutputErrors, limited: str) -> None:
        argument = self._argument(storage)
        note = self.finding("within_rounding", "", argument=argument)
        index = partial(_index, argument=argument)
        record = self.checked.accuracy
        record.add(note, _name(argument), _type_name(storage.dtype), errors, index, limited)

    def _add_ranges(self, launch: int) -> None:
        """Repeat the launch once more to estimate what a GPU may compute."""
        record, gpu = self.checked.accuracy, self.checked.options.accuracy_range
        record.gpu_memory.begin(self.extents())
        follower = GpuFollower(
            table=TABLE,
            memory=record.gpu_memory,
            sources=record.sources,
            launch=launch,
            settles=False,
            follows_inputs=False,
            architecture=architecture_of(gpu),
        )
        self.repeat(follower)
        for storage in record.gpu_memory.storages():
            argument = self._argument(storage)
            gpu_range = range_of(storage, launch, gpu, partial(_index, argument=argument))
            if gpu_range is not None:
                kernel, name = self.checked.spec.kernel, _name(argument)
                record.add_range(kernel, name, _type_name(storage.dtype), gpu_range)

    def _inexact(self, follower: Follower, limited: str) -> Iterator[Finding]:
        """Yield findings for results that the launch leaves in memory although they are inexact."""
        decisions = follower.decisions.table
        is_other = any(use.lanes for decision in decisions for use in decision.uses.values())
        reasons = [limited]
        if follower.is_rounded:
            reasons.append("exact values restart after operations that round on purpose")
        if is_other:
            reasons.append("the exact values would make some decisions of the kernel differently")
        for reason in filter(None, reasons):
            text = f"not all results are exact: {reason}"
            yield self.finding("unsupported", text, severity="note")

    # ---- findings
    def _compare(self, follower: Follower, limited: str, *, is_recorded: bool) -> Iterator[Finding]:
        """Yield the findings of a launch that was followed.

        Args:
            limited: Sentence on programs that were not followed; empty if all were.
            is_recorded: True if screening has already recorded the errors of all outputs.
        """
        record = self.checked.accuracy
        for number, mixed in follower.mixed.items():
            if mixed.lanes:
                yield self._padded(record.sources.table[number], mixed)
        for number, count in follower.converted.items():
            yield self._converted(record.sources.table[number], count)
        for storage in record.memory.storages():
            errors = errors_of(storage, follower.launch, record.sources)
            if errors is None:
                yield from self._not_compared(storage, follower.launch)
                continue
            argument = self._argument(storage)
            for wrong in errors.wrong:
                yield self._wrong(wrong, storage, argument)
            if is_recorded:
                errors = replace(errors, elements=0, rounding=0, histogram=0 * errors.histogram)
            sentences = [limited, _FLOAT64_LIMIT if storage.dtype == np.float64 else ""]
            self._record(storage, errors, "; ".join(filter(None, sentences)))
            if storage.is_full:
                name = _name(argument)
                yield self.finding(
                    "unsupported", f"`{name}` has too many elements: not all are compared"
                )
        yield from filter(None, map(self._decision, follower.decisions.table))
        for number, operation in follower.unfollowed.items():
            place = record.sources.table[number].place
            text = f"`{operation}` is not followed: its results count as exact"
            yield self.finding("unsupported", text, location=place, severity="note")

    def _not_compared(self, storage: StorageShadow, launch: int) -> Iterator[Finding]:
        """Yield a finding which says that float64 outputs are not compared on this processor."""
        has_stored = (storage.launch[: storage.count] == launch).any()
        if storage.dtype == np.float64 and not HAS_EXTENDED and has_stored:
            yield self.finding(
                "unsupported",
                "outputs of float64 are not compared: this processor has no more precise type",
                argument=self._argument(storage),
                severity="note",
            )

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

    def _decision(self, decision: Decision) -> Finding | None:
        """Return the note about a decision, unless nothing depends on it."""
        uses = [use for use in decision.uses.values() if use.lanes]
        if not uses:
            return None
        line = _line(decision.place)
        chosen = "the exact values choose another element"
        if decision.what not in ("argmax", "argmin"):
            chosen = "the exact values give the opposite"
        lanes = counted(max(use.lanes for use in uses), "lane")
        depends = " and ".join(dict.fromkeys(_USES[use.what] for use in uses))
        exact = ", ".join(f"{name} = {_digits(value)}" for name, value in decision.exact)
        return self.finding(
            "decision",
            f"`{decision.what}`: {chosen} in {lanes}, and this {depends}",
            location=decision.place,
            variables=tuple((name, _digits(value)) for name, value in decision.actual),
            notes=(f"exact values: {exact}; the exact results follow the kernel's choice",),
            related=tuple(
                Related(message=f"here it {_USES[use.what]}", location=use.place)
                for use in uses
                if use.place is not None and _line(use.place) != line
            ),
            count=sum(use.lanes for use in uses),
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


def _pass_for(tracked: tuple[int, ...], follows_inputs: bool) -> Sequence[Pass]:
    apply = partial(exact_values.apply, tracked=tracked, follows_inputs=follows_inputs)
    name = "sensitive" if follows_inputs else "exact"
    return (Pass("accuracy", " ".join([name, *map(str, tracked)]), apply),)


_SPECIAL = {
    "overflow": "exceeds the range of its type",
    "nan": "gives NaN",
    "inf": "gives an infinity",
    "underflow": "is too small for its type",
    "cancellation": "has rounding errors that a difference makes large",
    "accuracy_loss": "has a large rounding error",
}


#: What depends on a decision, as the end of a sentence.
_USES = {
    "branch": "decides a branch",
    "where": "selects a value",
    "mask": "decides which elements are accessed",
    "number": "becomes a number",
    "sort": "orders elements",
    "index": "gives an index",
}


def _line(place: SourceLocation | None) -> tuple[str, int] | None:
    return None if place is None else (place.file, place.line)


def _digits(value: float) -> str:
    """Return a value with all digits of float64, because close values are compared."""
    return f"{value:.17g}"


def _name(argument: ArgumentSpec | None) -> str:
    return argument.name if argument else "an output"


def _type_name(dtype: np.dtype[np.generic]) -> str:
    return str(dtype)


def _operation(source: Source) -> str:
    return f"the {operation_text(source.operation)}"


def _index(element: int, argument: ArgumentSpec | None) -> str:
    """Return the index, in its tensor, of an element of a storage, as in `[3, 5]`."""
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
    tiny = _SMALLEST_NORMAL.get(source.type, 2.0**-126)
    if 0 < abs(source.exact) < tiny and source.relative > _LOST:
        return "underflow", source
    # The 16-bit type is the defect, whatever makes its errors large.
    is_cancelled = wrong.cancelled is not None and source.type not in _NARROW
    return ("cancellation" if is_cancelled else "accuracy_loss"), source


def _remedy(kind: str, source: Source, cancelled: Source | None) -> str | None:
    """Return advice for an operation, or None if the kind's own advice is best."""
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
