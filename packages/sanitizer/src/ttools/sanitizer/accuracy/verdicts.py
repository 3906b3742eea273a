"""Decides which errors of a launch's outputs are defects, and names their sources.

An error is allowed if rounding the output to its type explains it, or if a sound algorithm could
make it because the problem itself is sensitive to its inputs. `docs/design/accuracy.md` gives the
formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.sanitizer.accuracy.memory import StorageShadow
from ttools.sanitizer.accuracy.shadow import NOTHING, scale_of_changes
from ttools.sanitizer.accuracy.sources import FIXED, Array, Source, Sources

_EPS32 = 2.0**-23
#: Allowed error of outputs of at most 16 bits, in units in the last place.
_NARROW_ULPS = 6.0
#: The same for other outputs, whose type usually is the one in which the kernel computes.
_WIDE_ULPS = 16.0
#: Allowed multiple of the error that inputs with relative errors of one ulp cause.
_SENSITIVITY = 16.0
#: If the smallest normal number of a type is less than this, smaller results are as good as zero,
#: as on GPUs that flush them. That of float16 is larger.
_FLUSHED = 1e-30
#: Sources are listed down to this share of the error.
_LEAST_SHARE = 0.1
_MOST_LISTED = 3
#: A line is reported if it is the main source of this part of the elements that rounding has made
#: wrong; other lines may have the largest share of a few elements by chance.
_LEAST_PART = 0.2


@dataclass(kw_only=True)
class Contribution:
    """The error of an output that one source line introduced.

    Attributes:
        source: The operation of the line that introduced the most.
        number: Number of this source.
        share: Its share of the absolute contributions of all lines.
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
        element: Index of the worst one in the storage.
        count: Number of the elements.
        stored: The value in memory of the worst one.
        exact: What it should be.
        ulps: Its error in units in the last place of its type.
        allowed: The allowed error in the same units.
        contributions: Where its error comes from, largest first; empty if only an infinity or NaN
            explains it.
        origin: The operation that produced the infinity or NaN behind it, if there was one.
        cancelled: The sum or difference that made relative errors grow, if there is one.
        store: The operation that stored it.
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
class OutputErrors:
    """The errors of the elements that a launch stored to an output.

    Attributes:
        ulps: The largest error that is allowed, in units in the last place.
        rounding: The number of elements whose error does not exceed that of rounding once.
        elements: Number of the elements.
        wrong: The elements with larger errors, by source; sources of few elements are left out.
        is_sensitive: True if `ulps` is only allowed because of the sensitivity to the inputs.
    """

    ulps: float
    rounding: int
    elements: int
    wrong: tuple[WrongElements, ...]
    is_sensitive: bool


def limits(dtype: np.dtype[Any]) -> tuple[float, float] | None:
    """Return the relative spacing and the smallest normal number of a type.

    Returns:
        None for integers, and for float64, in which the shadows are computed.
    """
    import ml_dtypes

    if dtype.kind in "iub" or dtype.itemsize > 4:
        return None
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.eps), float(info.smallest_normal)


def settled_error(dtype: np.dtype[Any]) -> float:
    """Return the relative error up to which a tensor between launches counts as an input.

    A program that stores activations in 16 bits chooses this error; only what is worse, such as
    underflow, is carried to the launches that load them.
    """
    type_limits = limits(dtype)
    return 0.0 if type_limits is None else _NARROW_ULPS * type_limits[0]


def errors_of(shadow: StorageShadow, launch: int, sources: Sources) -> OutputErrors | None:
    """Compare what a launch has stored with the exact values; None if it has stored nothing.

    Args:
        shadow: Shadow of a storage.
        launch: Number of the launch.
        sources: The table of sources.
    """
    type_limits = limits(shadow.dtype)
    own = np.flatnonzero(shadow.launch[: shadow.count] == launch)
    if type_limits is None or not own.size:
        return None
    eps, tiny = type_limits
    actual = shadow.actual()[own].astype(np.float64)
    exact = shadow.exact[own]
    rows = shadow.rows[:, own] if len(shadow.rows) else None
    is_narrow = shadow.dtype.itemsize <= 2
    scale = np.maximum(np.abs(exact), tiny)
    with np.errstate(all="ignore"):
        error = np.abs(actual - exact)
        limit = (_NARROW_ULPS if is_narrow else _WIDE_ULPS) * eps * scale
        if tiny < _FLUSHED:
            limit = np.maximum(limit, tiny)
        sensitivity = _SENSITIVITY * _EPS32 * scale_of_changes(rows, narrow=False)
        if is_narrow:
            sensitivity = sensitivity + _NARROW_ULPS * eps * scale_of_changes(rows, narrow=True)
        allowed = np.maximum(limit, sensitivity)
        ulps = error / (eps * scale)
    origin = shadow.origin[own]
    if np.isscalar(allowed) or allowed.ndim == 0:
        allowed = np.full(error.shape, float(allowed))
    wrong = np.isfinite(exact) & ~(error <= allowed)
    # Without an origin, an infinity or NaN comes from the arguments.
    wrong &= np.isfinite(actual) | (origin != NOTHING)
    special = ~np.isfinite(exact) & ~np.isfinite(actual) & (origin != NOTHING)
    special &= _matters(actual, origin, sources)
    right = ~wrong & np.isfinite(ulps)
    best = np.where(right, ulps, 0.0)
    most = int(best.argmax())
    return OutputErrors(
        ulps=float(best[most]),
        rounding=int((right & (ulps <= 0.5 + 1e-6)).sum()),
        elements=len(own),
        wrong=tuple(_wrong(shadow, own, wrong | special, error, ulps, allowed / (eps * scale),
                           rows, sources)),
        is_sensitive=bool(error[most] > limit[most]),
    )  # fmt: skip


def _matters(actual: Array, origin: NDArray[np.int32], sources: Sources) -> NDArray[np.bool_]:
    """Return which infinities and NaN are defects although the exact value is not finite, either.

    These are NaN and overflows.

    An infinity of a division or a logarithm may be the result that the program wants.
    """
    kinds = np.array([source.special == "overflow" for source in sources.table] or [False])
    matters: NDArray[np.bool_] = np.isnan(actual) | kinds[np.maximum(origin, 0)]
    return matters


def _wrong(
    shadow: StorageShadow,
    own: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    error: Array,
    ulps: Array,
    allowed: Array,
    rows: Array | None,
    sources: Sources,
) -> Iterator[WrongElements]:
    """Yield the wrong elements, grouped by the line that explains them."""
    lanes = np.flatnonzero(wrong)
    if not lanes.size:
        return
    actual = shadow.actual()[own].astype(np.float64)
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
    count = 0 if rows is None else max(len(rows) - FIXED, 0)
    lines: dict[tuple[str, int], list[int]] = {}
    for number in range(count):
        lines.setdefault(sources.table[number].line, []).append(number)
    table = np.zeros((len(lines), len(lanes)))
    for row, numbers in enumerate(lines.values()):
        assert rows is not None
        table[row] = rows[FIXED + np.array(numbers)][:, lanes].sum(axis=0)
    return table, list(lines.values())


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
