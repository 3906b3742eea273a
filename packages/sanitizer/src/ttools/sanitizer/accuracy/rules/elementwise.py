"""Rules of operations that work lane by lane: arithmetic, functions and conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.accuracy import functions
from ttools.sanitizer.accuracy.decisions import Truth
from ttools.sanitizer.accuracy.follower import Follower, Rule, shadow_of
from ttools.sanitizer.accuracy.shadow import (
    EXTENDED,
    NOTHING,
    Shadow,
    as_exact,
    chosen,
    exact_type,
    joined,
    weighted,
)
from ttools.sanitizer.accuracy.sources import in_random_numbers


def _smooth(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    operands = [a for a in arguments if isinstance(a, Handle)]
    if operation in functions.UNARY:
        function, derivative = functions.UNARY[operation]
        _compute(f, operation, operands, result, function, functions.one_partial(derivative))
    else:
        _compute(f, operation, operands, result, *functions.SEVERAL[operation])


def _compute(
    f: Follower,
    operation: str,
    operands: Sequence[Handle],
    result: Handle,
    function: Callable[..., Any],
    partials: Callable[..., Sequence[Any]],
) -> None:
    if in_random_numbers():
        return  # random numbers have no exact values from which they could differ
    actual = [as_exact(handle.data) for handle in operands]
    on_actual = np.asarray(function(*actual))
    if all(handle.shadow is None for handle in operands):
        f.finish(operation, result, operands, on_actual, Shadow(on_actual))
        return
    shadows = [shadow_of(handle) for handle in operands]
    exact = np.asarray(function(*(shadow.exact for shadow in shadows)))
    rows = None
    if any(shadow.rows is not None for shadow in shadows):
        numbers = (array.astype(np.float64, copy=False) for array in actual)
        terms = zip((s.rows for s in shadows), partials(*numbers), strict=True)
        rows = weighted(list(terms), on_actual.shape)
    shadow = joined(shadows, exact, rows)
    f.finish(operation, result, operands, on_actual, shadow)
    if operation in ("fadd", "fsub", "fma"):
        compared = operands if operation != "fma" else [operands[2], operands[2]]
        f.note_cancellation(operation, result, compared, shadow)


def _library(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    name = functions.library_name(str(arguments[2]))
    operands = [a for a in arguments[3] if isinstance(a, Handle)]
    if functions.is_rounding(name):
        _forget(f, name, operands, result)
        return
    is_extended = exact_type(result.data.dtype) == EXTENDED
    function = functions.library_function(name, extended=is_extended)
    if function is None:
        f.restart(str(arguments[2]), result)
    else:
        _compute(f, name, operands, result, *function)


def _forget(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    """Restart from the result of an operation that rounds on purpose; keep the padded lanes."""
    operand = shadow_of(arguments[0])
    shadow = joined([operand], as_exact(result.data), None)
    shadow.cancelled = None
    result.shadow = shadow
    f.is_rounded = True


def _remainder(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b = arguments[:2]
    first, second = shadow_of(a), shadow_of(b)
    x, y = as_exact(a.data), as_exact(b.data)
    quotient = np.trunc(x / y)  # that of the kernel
    exact = first.exact - quotient * second.exact
    terms = [(first.rows, 1.0), (second.rows, -quotient.astype(np.float64))]
    rows = weighted(terms, result.data.shape)
    f.finish(operation, result, (a, b), np.fmod(x, y), joined([first, second], exact, rows))


def _cast(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    operand = arguments[0]
    if in_random_numbers():
        return
    shadow, actual = shadow_of(operand), as_exact(operand.data)
    if result.element.size == 1:
        # A conversion to eight bits is a quantisation, which loses digits on purpose.
        rounded = as_exact(result.data)
        copy = joined([shadow], np.where(np.isfinite(rounded), rounded, actual), None)
        f.is_rounded = True
        f.finish(operation, result, (operand,), copy.exact, copy)
        return
    rows = None if shadow.rows is None else shadow.rows.copy()
    f.finish(operation, result, (operand,), actual, joined([shadow], shadow.exact, rows))


def _from_integer(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    operand = arguments[0]
    if in_random_numbers():
        return
    data = operand.data
    if isinstance(operand.shadow, Truth):
        f.decisions.use("number", operand.shadow, np.ones(data.shape, bool))
    if operation == "ui_to_fp" and data.dtype != np.bool_:
        data = data.view(np.dtype(f"u{data.dtype.itemsize}"))
    exact = data.astype(exact_type(result.data.dtype))
    f.finish(operation, result, (operand,), exact, Shadow(exact))


def _to_integer(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    operand = arguments[0]
    shadow = shadow_of(operand)
    actual = as_exact(operand.data)
    if not f.is_rounded and not in_random_numbers():
        is_kept = (actual == np.trunc(actual)) & (actual == shadow.exact)
        f.is_rounded = not is_kept.all()
    if shadow.origin is None:
        return
    wrong = np.isnan(actual) | np.isfinite(shadow.exact)
    wrong &= ~(np.abs(np.trunc(actual) - np.trunc(shadow.exact)) < 2)
    wrong &= shadow.origin != NOTHING
    for number in np.unique(shadow.origin[wrong]).tolist():
        count = int((shadow.origin[wrong] == number).sum())
        f.converted[number] = f.converted.get(number, 0) + count


def _extremum(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b = arguments[:2]
    x, y = as_exact(a.data), as_exact(b.data)
    takes_first = (x >= y) if operation.startswith("max") else (x <= y)
    takes_first |= np.isnan(y) if "num" in operation else np.isnan(x)
    result.shadow = chosen(takes_first, shadow_of(a), shadow_of(b), result.data.shape)


def _clamp(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    value, low, high = (shadow_of(a) for a in arguments[:3])
    x, lower, upper = (as_exact(a.data) for a in arguments[:3])
    shape = result.data.shape
    result.shadow = chosen(x < lower, low, chosen(x > upper, high, value, shape), shape)


_SMOOTH = ("fadd", "fsub", "fmul", "fdiv", "precise_divf", "approx_divf", "fma", *functions.UNARY)

#: The rule of each operation, by builder method.
RULES: dict[str, Rule] = {
    **{f"create_{name}": _smooth for name in _SMOOTH},
    "create_extern_elementwise": _library,
    "create_floor": _forget,
    "create_ceil": _forget,
    "create_frem": _remainder,
    "create_fp_trunc": _cast,
    "create_fp_ext": _cast,
    "create_fp_to_fp": _cast,
    "create_si_to_fp": _from_integer,
    "create_ui_to_fp": _from_integer,
    "create_fp_to_si": _to_integer,
    "create_fp_to_ui": _to_integer,
    **{f"create_{name}": _extremum for name in ("maximumf", "maxnumf", "minimumf", "minnumf")},
    "create_clampf": _clamp,
}
