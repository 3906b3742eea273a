"""Decides which errors of a launch's outputs are defects, and names their sources.

An error is allowed if rounding the output to its type explains it, or if a sound algorithm could
make it because the problem itself is sensitive to its inputs. `docs/design/accuracy.md` gives the
formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.location import SourceLocation
from ttools.core.reports.accuracy import EDGES
from ttools.sanitizer.accuracy.memory import StorageShadow
from ttools.sanitizer.accuracy.shadow import (
    HAS_EXTENDED,
    NOTHING,
    Bools,
    precision,
    scale_of_changes,
)
from ttools.sanitizer.accuracy.sources import FIXED, Array, Source, Sources
from ttools.sanitizer.accuracy.tolerances import Envelope

#: Allowed error of outputs of at most 16 bits, in units in the last place.
_NARROW_ULPS = 6.0
#: Allowed error of all other outputs, whose type is usually the one in which the kernel computes.
_WIDE_ULPS = 16.0
#: Allowed multiple of the error that inputs with relative errors of one ulp cause.
_SENSITIVITY = 16.0
#: The relative change of inputs that explains an error of a value that is computed in float32.
ALLOWED_BY_SENSITIVITY = _SENSITIVITY * precision(np.dtype(np.float32))
#: Types whose smallest normal number is less than this: results below that number count as zero, as
#: on GPUs that flush them. The smallest normal number of float16 is larger.
_FLUSHED = 1e-30
#: Sources are listed only if they have at least this share of the error.
_LEAST_SHARE = 0.1
_MOST_LISTED = 3
#: A line is reported if it is the main source for at least this fraction of the elements that
#: rounding has made wrong; other lines may have the largest share for a few elements by chance.
_LEAST_PART = 0.2
#: Operations that convert to a shorter type.
_CONVERSIONS = ("fp_trunc", "fp_to_fp")


@dataclass(kw_only=True)
class Contribution:
    """The error of an output that one source line introduced.

    Attributes:
        source: The operation of the line that introduced the largest error.
        number: Number of this source.
        share: The line's share of the absolute contributions of all lines.
        error: The contribution with its sign.
    """

    source: Source
    number: int
    share: float
    error: float


@dataclass(kw_only=True)
class WrongElements:
    """Elements of an output whose errors have the same source.

    Attributes:
        element: Index of the worst element in the storage.
        count: Number of these elements.
        stored: Value of the worst element in memory.
        exact: The exact value of this element.
        ulps: Its error in units in the last place of its type.
        allowed: The allowed error in the same units.
        contributions: The sources of its error, largest first; empty if only an infinity or NaN
            explains it.
        origin: The operation that produced the infinity or NaN behind the error, if there is one.
        cancelled: The sum or difference that made relative errors grow, if there is one.
        store: The operation that stored the element.
    """

    element: int
    count: int
    stored: float
    exact: float
    ulps: float
    allowed: float
    contributions: tuple[Contribution, ...]
    origin: Source | None
    cancelled: Source | None
    store: Source


@dataclass(kw_only=True)
class LargestError:
    """The largest error of an output, and its parts, in units in the last place.

    Attributes:
        ulps: The error; infinite if the element is not finite and should be.
        element: Index of the element in the storage.
        stored: The value of the element.
        exact: Exact value of the element.
        by_rounding: The part that results from rounding the exact value to the type of the output.
        by_conditioning: The part that the sensitivity to the inputs explains.
        by_kernel: The part that neither of these explains.
    """

    ulps: float
    element: int
    stored: float
    exact: float
    by_rounding: float
    by_conditioning: float
    by_kernel: float


@dataclass(kw_only=True)
class OutputErrors:
    """The errors of the elements that a launch stored to an output.

    Attributes:
        ulps: The largest error that is allowed, in units in the last place.
        rounding: Number of elements whose error does not exceed the error of rounding once.
        elements: Number of elements that were compared.
        wrong: The elements with larger errors, by source; sources of few elements are left out.
        is_sensitive: True if `ulps` is only allowed because of the sensitivity to the inputs.
        largest: The largest error, whether it is allowed or not.
        histogram: Numbers of elements by error; see `core.reports.accuracy`.
        needed: The errors that a comparison of the output with a reference must allow.
        lines: For each line, the sum of the absolute errors that it causes, in units in the last
            place.
    """

    ulps: float
    rounding: int
    elements: int
    wrong: tuple[WrongElements, ...]
    is_sensitive: bool
    largest: LargestError
    histogram: NDArray[np.int64]
    needed: Envelope
    lines: dict[SourceLocation, float]


def limits(dtype: np.dtype[Any]) -> tuple[float, float] | None:
    """Return the relative spacing and the smallest normal number of a type.

    Returns:
        None for integers, and for float64 on a processor without a more precise type.
    """
    import ml_dtypes

    if dtype.kind in "iub" or (dtype == np.float64 and not HAS_EXTENDED):
        return None
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.eps), float(info.smallest_normal)


def settled_error(dtype: np.dtype[Any]) -> float:
    """Return the relative error up to which a tensor from an earlier launch counts as an input.

    A program that stores activations in 16 bits accepts this error. Only larger errors, such as
    those of underflow, are passed on to the launches that load the tensor.
    """
    type_limits = limits(dtype)
    return 0.0 if type_limits is None else _NARROW_ULPS * type_limits[0]


def allowed_by_rounding(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the relative and the absolute error that rounding an output to its type explains.

    An error is allowed up to the larger one. float64 has no such limit, because it depends on the
    type in which the kernel computes.
    """
    type_limits = limits(dtype)
    assert type_limits is not None
    assert dtype.itemsize <= 4
    eps, tiny = type_limits
    relative = (_NARROW_ULPS if dtype.itemsize <= 2 else _WIDE_ULPS) * eps
    return relative, tiny if tiny < _FLUSHED else relative * tiny


def errors_of(shadow: StorageShadow, launch: int, sources: Sources) -> OutputErrors | None:
    """Compare what a launch has stored with the exact values; None if it has stored nothing.

    Args:
        shadow: Shadow of the storage to which the launch has stored.
        launch: Number of the launch.
        sources: The table of sources.
    """
    type_limits = limits(shadow.dtype)
    own = np.flatnonzero(shadow.launch[: shadow.count] == launch)
    if type_limits is None or not own.size:
        return None
    elements = _elements(shadow, own, type_limits, sources)
    actual, exact, origin = elements.actual, elements.exact, shadow.origin[own]
    limit, allowed = _allowed(elements)
    with np.errstate(all="ignore"):
        ulps, explained = elements.error / elements.unit, allowed / elements.unit
        wrong = np.isfinite(exact) & ~(elements.error <= allowed)
    # Without an origin, an infinity or NaN comes from the arguments.
    wrong &= np.isfinite(actual) | (origin != NOTHING)
    special = ~np.isfinite(exact) & ~np.isfinite(actual) & (origin != NOTHING)
    special &= _matters(actual, origin, sources)
    right = ~wrong & np.isfinite(ulps)
    best = np.where(right, ulps, 0.0)
    most = int(best.argmax())
    counted = np.where(wrong | special, np.where(np.isfinite(ulps), ulps, np.inf), best)
    return OutputErrors(
        ulps=float(best[most]),
        rounding=int((right & (ulps <= 0.5 + 1e-6)).sum()),
        elements=len(own),
        wrong=tuple(_wrong(shadow, own, wrong | special, ulps, explained, elements.rows, sources)),
        is_sensitive=bool(elements.error[most] > limit[most]),
        largest=_largest(elements, shadow.elements[own], counted),
        histogram=_histogram(counted),
        needed=_needed(elements, right),
        lines=_lines(elements.rows, elements.unit, sources),
    )


def errors_without_sources(
    actual: Array, exact: Array, elements: NDArray[np.int64]
) -> OutputErrors:
    """Return the errors of elements that a launch without defects has stored.

    Their sensitivity is not known: it explains an error that rounding does not explain, and the
    kernel all others.

    Args:
        actual: Values of the elements in the type of the output.
        exact: Exact values of the same elements.
        elements: Their indices in the storage.
    """
    type_limits = limits(actual.dtype)
    assert type_limits is not None
    own = _compared(actual, exact, None, type_limits, np.full(len(exact), precision(actual.dtype)))
    is_sensitive = own.error > _allowed(own)[0]
    own = replace(own, changes=np.where(is_sensitive, 2 * own.error / own.spacing, 0.0))
    with np.errstate(all="ignore"):
        ulps = own.error / own.unit
    return OutputErrors(
        ulps=float(ulps.max()),
        rounding=int((ulps <= 0.5 + 1e-6).sum()),
        elements=len(exact),
        wrong=(),
        is_sensitive=bool(is_sensitive[ulps.argmax()]),
        largest=_largest(own, elements, ulps),
        histogram=_histogram(ulps),
        needed=Envelope(),
        lines={},
    )


def _histogram(ulps: Array) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(EDGES, ulps), minlength=len(EDGES) + 1)


@dataclass(kw_only=True)
class _Elements:
    """The elements of an output that a launch has stored, as arrays.

    Attributes:
        actual: Values that the launch has stored.
        exact: Exact values of the elements.
        error: Absolute differences between stored and exact values.
        unit: One unit in the last place at each exact value.
        once: The absolute error of rounding each exact value to the type of the output.
        spacing: Relative spacing of the type in which the kernel has computed each element.
        changes: Sums of the absolute changes of the result for relative changes of 1 in each input.
        narrow_changes: The same sums for the inputs of at most 16 bits; zero if the output has more
            bits.
        rows: Rows of the shadows.
        is_narrow: True if the type has at most 16 bits.
        eps: Relative spacing of the type.
        tiny: Smallest normal number of the type.
    """

    actual: Array
    exact: Array
    error: Array
    unit: Array
    once: Array
    spacing: Array
    changes: Array
    narrow_changes: Array
    rows: Array | None
    is_narrow: bool
    eps: float
    tiny: float


def _elements(
    shadow: StorageShadow,
    own: NDArray[np.int64],
    type_limits: tuple[float, float],
    sources: Sources,
) -> _Elements:
    """Return the elements of a storage that are in the given slots of its shadow."""
    actual, exact = shadow.actual()[own], shadow.exact[own]
    rows = shadow.rows[:, own] if len(shadow.rows) else None
    spacing = np.full(len(own), precision(shadow.dtype))
    if shadow.dtype == np.float64:
        spacing[_in_float32(rows, len(own), sources)] = precision(np.dtype(np.float32))
    return _compared(actual, exact, rows, type_limits, spacing)


def _compared(
    stored: Array,
    exact: Array,
    rows: Array | None,
    type_limits: tuple[float, float],
    spacing: Array,
) -> _Elements:
    """Return elements with the given values, exact values, rows and spacings."""
    eps, tiny = type_limits
    actual, is_narrow = stored.astype(exact.dtype), stored.dtype.itemsize <= 2
    narrow = scale_of_changes(rows, narrow=True) if is_narrow else 0.0
    with np.errstate(all="ignore"):
        return _Elements(
            actual=actual,
            exact=exact,
            error=np.abs(actual - exact),
            unit=eps * np.maximum(np.abs(exact), tiny),
            once=np.abs(exact.astype(stored.dtype).astype(exact.dtype) - exact),
            spacing=spacing,
            changes=np.broadcast_to(scale_of_changes(rows, narrow=False), exact.shape),
            narrow_changes=np.broadcast_to(narrow, exact.shape),
            rows=rows,
            is_narrow=is_narrow,
            eps=eps,
            tiny=tiny,
        )


def _allowed(elements: _Elements) -> tuple[Array, Array]:
    """Return the errors that rounding the output explains, and the largest allowed errors."""
    with np.errstate(all="ignore"):
        if elements.is_narrow:
            limit = _NARROW_ULPS * elements.unit
        else:
            limit = _WIDE_ULPS * elements.spacing / elements.eps * elements.unit
        if elements.tiny < _FLUSHED:
            limit = np.maximum(limit, elements.tiny)
        sensitivity = _SENSITIVITY * elements.spacing * elements.changes
        if elements.is_narrow:
            sensitivity += _NARROW_ULPS * elements.eps * elements.narrow_changes
        return limit, np.maximum(limit, sensitivity)


def _needed(elements: _Elements, right: Bools) -> Envelope:
    """Return the errors that comparisons of correct elements with a reference must allow.

    The reference is also rounded to the output's type, and its own errors are at least as large as
    those that result from rounding each input once.
    """
    with np.errstate(all="ignore"):
        needs = elements.error + elements.unit / 2 + elements.spacing / 2 * elements.changes
        if elements.tiny < _FLUSHED:
            needs = np.where(needs <= elements.tiny, 0.0, needs)
    needed, is_compared = Envelope(), right & np.isfinite(needs)
    needed.add(np.abs(elements.exact[is_compared]), needs[is_compared])
    return needed


def _largest(elements: _Elements, own: NDArray[np.int64], ulps: Array) -> LargestError:
    """Return the largest error with its parts.

    Args:
        elements: The elements of the output that the launch has stored.
        own: Indices of these elements in the storage.
        ulps: Their errors in units in the last place; infinite for an infinity or NaN that is a
            defect, and zero for one that comes from the arguments.
    """
    lane = int(ulps.argmax())
    error, unit = float(ulps[lane]), float(elements.unit[lane])
    inputs = float(elements.spacing[lane] / 2 * elements.changes[lane]) / unit
    once = float(elements.once[lane]) / unit
    by_rounding = min(error, once) if np.isfinite(once) else 0.0
    by_conditioning = min(error - by_rounding, inputs) if np.isfinite(inputs) else 0.0
    return LargestError(
        ulps=error,
        element=int(own[lane]),
        stored=float(elements.actual[lane]),
        exact=float(elements.exact[lane]),
        by_rounding=by_rounding,
        by_conditioning=by_conditioning,
        by_kernel=error - by_rounding - by_conditioning,
    )


def _in_float32(rows: Array | None, count: int, sources: Sources) -> Bools:
    """Return the elements of a float64 output that the kernel has computed in float32 on purpose.

    An operation in a shorter type has introduced errors of such an element, but none of these
    errors results from a conversion to a shorter type: the inputs were not in float64.
    """
    is_short, is_cut = np.zeros(count, bool), np.zeros(count, bool)
    for number in range(0 if rows is None else max(len(rows) - FIXED, 0)):
        source = sources.table[number]
        if source.type != "f64":
            assert rows is not None
            has_error = rows[FIXED + number] != 0
            is_short |= has_error
            if source.operation in _CONVERSIONS:
                is_cut |= has_error
    return np.asarray(is_short & ~is_cut)


def _lines(rows: Array | None, units: Array, sources: Sources) -> dict[SourceLocation, float]:
    """Return for each line the sum of the absolute errors that it causes."""
    sums: dict[SourceLocation, float] = {}
    for numbers in _numbers_by_line(rows, sources):
        place = sources.table[numbers[0]].place
        if place is not None:
            assert rows is not None
            own = np.abs(rows[FIXED + np.array(numbers)].sum(axis=0)) / units
            total = float(own[np.isfinite(own)].sum())
            if total:
                sums[SourceLocation(place.file, place.line, 0)] = total
    return sums


def _numbers_by_line(rows: Array | None, sources: Sources) -> list[list[int]]:
    """Return, for each line that has rows, the numbers of its sources."""
    count = 0 if rows is None else max(len(rows) - FIXED, 0)
    lines: dict[tuple[str, int], list[int]] = {}
    for number in range(count):
        lines.setdefault(sources.table[number].line, []).append(number)
    return list(lines.values())


def _matters(actual: Array, origin: NDArray[np.int32], sources: Sources) -> NDArray[np.bool_]:
    """Return which infinities and NaN are defects although the exact value is not finite either.

    These are NaN and overflows. An infinity that a division or a logarithm produces is not a
    defect, because the program may want this result.
    """
    kinds = np.array([source.special == "overflow" for source in sources.table] or [False])
    matters: NDArray[np.bool_] = np.isnan(actual) | kinds[np.maximum(origin, 0)]
    return matters


def _wrong(
    shadow: StorageShadow,
    own: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    ulps: Array,
    allowed: Array,
    rows: Array | None,
    sources: Sources,
) -> Iterator[WrongElements]:
    """Yield the wrong elements, grouped by the line that explains them."""
    lanes = np.flatnonzero(wrong)
    if not lanes.size:
        return
    actual = shadow.actual()[own].astype(shadow.exact.dtype)
    by_line, lines = _by_line(rows, lanes, sources)
    culprit = np.abs(by_line).argmax(axis=0) if len(by_line) else np.zeros(len(lanes), np.int64)
    origin = shadow.origin[own][lanes]
    # An infinity or NaN in an element's history explains the element better than rounding errors.
    key = np.where(origin != NOTHING, -1 - origin, culprit)
    severity = np.where(np.isfinite(ulps[lanes]), ulps[lanes], np.inf)
    keys, counts = np.unique(key, return_counts=True)
    by_rounding = counts[keys >= 0]
    least = min(_LEAST_PART * by_rounding.sum(), by_rounding.max(initial=0))
    for one in keys[(keys < 0) | (counts >= least)].tolist():
        members = np.flatnonzero(key == one)
        worst = int(members[severity[members].argmax()])
        lane = int(lanes[worst])
        slot = int(own[lane])
        cancelled = int(shadow.cancelled[slot])
        yield WrongElements(
            element=int(shadow.elements[slot]),
            count=len(members),
            stored=float(actual[lane]),
            exact=float(shadow.exact[slot]),
            ulps=float(ulps[lane]),
            allowed=float(allowed[lane]),
            contributions=tuple(_contributions(by_line[:, worst], rows, lane, lines, sources)),
            origin=None if one >= 0 else sources.table[-1 - one],
            cancelled=None if cancelled == NOTHING else sources.table[cancelled],
            store=sources.table[int(shadow.store[slot])],
        )


def _by_line(
    rows: Array | None, lanes: NDArray[np.int64], sources: Sources
) -> tuple[Array, list[list[int]]]:
    """Return the errors that each line has introduced, and the sources of each line."""
    lines = _numbers_by_line(rows, sources)
    table = np.zeros((len(lines), len(lanes)))
    for row, numbers in enumerate(lines):
        assert rows is not None
        table[row] = rows[FIXED + np.array(numbers)][:, lanes].sum(axis=0)
    return table, lines


def _contributions(
    by_line: Array,
    rows: Array | None,
    lane: int,
    lines: Iterable[list[int]],
    sources: Sources,
) -> Iterator[Contribution]:
    total = float(np.abs(by_line).sum())
    if not total or rows is None:
        return
    entries = sorted(zip(by_line.tolist(), lines, strict=True), key=lambda entry: -abs(entry[0]))
    for error, numbers in entries[:_MOST_LISTED]:
        share = abs(error) / total
        if share >= _LEAST_SHARE:
            number = max(numbers, key=lambda n: abs(float(rows[FIXED + n, lane])))
            yield Contribution(
                source=sources.table[number], number=number, share=share, error=error
            )
