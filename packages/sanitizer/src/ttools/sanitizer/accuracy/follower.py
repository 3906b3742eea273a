"""Follows a launch operation by operation and gives each float value a shadow.

The launch runs eagerly, so each operation has been computed when `Follower.operation` is called
with its operands and its result. The rule of the operation computes the shadow of the result from
those of the operands. A value of an operation without a rule gets a shadow that restarts from the
value itself, and the operation is listed in `unfollowed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ttools.core.process.phases import tick
from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.eager.mlir import OpResults
from ttools.sanitizer.accuracy import functions
from ttools.sanitizer.accuracy.decisions import (
    LOGIC,
    Decisions,
    FloatBits,
    Truth,
    alternatives_differ,
    compare,
    comparison_text,
)
from ttools.sanitizer.accuracy.memory import ShadowMemory
from ttools.sanitizer.accuracy.shadow import (
    EXTENDED,
    NOTHING,
    Bools,
    Numbers,
    Shadow,
    as_exact,
    exact_type,
    joined_flags,
    joined_numbers,
    precision,
    random_changes,
    weighted,
    with_row,
)
from ttools.sanitizer.accuracy.sources import (
    FIXED,
    INPUTS,
    Array,
    Sources,
    in_random_numbers,
    in_sort,
)
from ttools.sanitizer.accuracy.verdicts import settled_error

Rule: TypeAlias = "Callable[[Follower, str, Sequence[Any], Any], None]"

_EPS32 = 2.0**-23
#: A sum is a cancellation if its result is smaller than an operand by the factor `_CANCELS`, and if
#: the errors of the operands are at least `_LARGE_ERROR` times the spacing at the result.
_CANCELS = 2.0**-6
_LARGE_ERROR = 2.0**6
#: An operand is wrong rather than inaccurate if this share of it is an error.
_MOST_OF = 0.5
#: Padded lanes are harmless if they change a reduction by less than this, relative to it.
_NEUTRAL = 2.0**4 * _EPS32
#: Largest error of a product of two operands that are rounded to tf32.
_TF32_ERROR = 2.0**-9
#: Names of operands in findings.
_NAMES = ("a", "b", "c")


@dataclass
class Mixed:
    """A reduction that counts lanes that a mask leaves out, and whose result is stored.

    Attributes:
        lanes: Number of stored elements.
        share: The largest share of these lanes in a result.
        result: The result with the largest share.
        without: The same result without these lanes.
    """

    lanes: int = 0
    share: float = 0.0
    result: float = 0.0
    without: float = 0.0


@dataclass(kw_only=True)
class Follower:
    """Follows one launch.

    Attributes:
        memory: Shadows of the elements in memory.
        sources: The table of sources.
        launch: Number of the launch in the run.
        mixed: Reductions that count padded lanes, by number of their source.
        converted: For each source of an overflow, the number of elements whose conversion to an
            integer is wrong because of this overflow.
        unfollowed: Operations without a rule, and the sources that describe where they are.
        operands: Number of the elements of operands of matrix products so far.
        settles: If True, a 16-bit tensor that an earlier launch has stored as accurately as its
            type allows counts as an input.
        follows_inputs: If True, the first rows contain random changes of the inputs.
        is_rounded: True if exact values restarted after an operation that rounds on purpose.
        decisions: Decisions that the exact values would make differently.
    """

    memory: ShadowMemory
    sources: Sources
    launch: int
    mixed: dict[int, Mixed] = field(default_factory=dict)
    converted: dict[int, int] = field(default_factory=dict)
    unfollowed: dict[int, str] = field(default_factory=dict)
    operands: int = 0
    settles: bool = True
    follows_inputs: bool = True
    is_rounded: bool = False
    decisions: Decisions = field(init=False)

    def __post_init__(self) -> None:
        """Create the table of decisions."""
        self.decisions = Decisions(self.sources.place)

    def operation(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        """Compute the shadows of the results of an operation."""
        tick()
        rule = RULES.get(name)
        if rule is not None:
            # An inner operation may have computed the shadow; few results have one but floats.
            is_done = isinstance(result, Handle) and (
                result.shadow is not None
                or not (is_float(result) or (name in _ON_TRUTHS and _has_truth(arguments)))
            )
            if is_done and name not in _NEEDED:
                return
            with np.errstate(all="ignore"):
                rule(self, name.removeprefix("create_"), arguments, result)
        elif name not in _SILENT:
            self.restart(name.removeprefix("create_"), result)

    def restart(self, operation: str, result: Any) -> None:
        """Note that an operation has no rule.

        Its results get no shadow, because a value without a shadow counts as exact.
        """
        for handle in result if isinstance(result, (list, tuple, OpResults)) else [result]:
            if isinstance(handle, Handle) and handle.shadow is None and is_float(handle):
                source = self.sources.at(operation, handle.element.text)
                self.unfollowed.setdefault(source, operation)

    # ---- the shadows of results
    def finish(
        self,
        operation: str,
        result: Handle,
        operands: Sequence[Handle],
        on_actual: Array,
        shadow: Shadow,
    ) -> None:
        """Add the error that an operation introduces, and follow infinities and NaN.

        Args:
            operation: Name of the operation.
            result: Result of the operation, which gets the shadow.
            operands: Operands of the operation.
            on_actual: The exact result of the operation on the operands that the kernel has.
            shadow: Shadow of the result, in which everything else is complete.
        """
        actual = as_exact(result.data)
        shadow.exact = shadow.exact.astype(exact_type(result.data.dtype), copy=False)
        error = _finite(actual - on_actual)
        if error.any():
            self._introduce(operation, result, operands, on_actual, error, shadow)
        carried = _finite(on_actual - shadow.exact)
        if error.any() or carried.any():
            parts = (float(np.abs(part).sum()) for part in (error, carried, _finite(actual)))
            self.sources.add_errors(operation, result.data.dtype, *parts)
        is_special = ~np.isfinite(actual)
        if shadow.origin is not None or is_special.any():
            self._follow_special(operation, result, operands, on_actual, is_special, shadow)
        result.shadow = shadow

    def _introduce(
        self,
        operation: str,
        result: Handle,
        operands: Sequence[Handle],
        on_actual: Array,
        error: Array,
        shadow: Shadow,
    ) -> None:
        number = self.sources.at(operation, result.element.text)
        shadow.rows = with_row(shadow.rows, number, error)
        source = self.sources.table[number]
        relative = np.abs(error) / np.maximum(np.abs(on_actual), 1e-300)
        lane = int(relative.argmax()) if relative.ndim else 0
        largest = float(relative.reshape(-1)[lane])
        if largest > source.relative:
            source.relative = largest
            source.values = _values_at(operands, result, lane)
            source.exact = float(on_actual.reshape(-1)[lane])
            source.rounded = float(result.data.reshape(-1)[lane])

    def _follow_special(
        self,
        operation: str,
        result: Handle,
        operands: Sequence[Handle],
        on_actual: Array,
        is_special: Bools,
        shadow: Shadow,
    ) -> None:
        actual = as_exact(result.data)
        origin = shadow.origin
        is_new = is_special if origin is None else is_special & (origin == NOTHING)
        if is_new.any():
            # Infinities that an operand brings along come from the arguments, and so does NaN.
            is_nan = np.isnan(actual)
            for operand in operands:
                data = _fitting(as_exact(operand.data), actual.shape)
                if data is not None:
                    is_new = is_new & np.where(is_nan, ~np.isnan(data), np.isfinite(data))
        if is_new.any():
            number = self._new_origin(operation, result, operands, on_actual, is_new, shadow)
            start = np.full(actual.shape, NOTHING, np.int32) if origin is None else origin
            origin = np.where(is_new, np.int32(number), start)
        if origin is not None:
            # An infinity that does no harm, as in 1 / (1 + exp(100)), is forgotten.
            spacing = precision(result.data.dtype)
            allowed = np.maximum(4 * spacing * np.abs(shadow.exact), 2.0**-126)
            harmless = ~is_special & (np.abs(actual - shadow.exact) <= allowed)
            origin = np.where(harmless, np.int32(NOTHING), origin)
            if (origin == NOTHING).all():
                origin = None
        shadow.origin = origin

    def _new_origin(
        self,
        operation: str,
        result: Handle,
        operands: Sequence[Handle],
        on_actual: Array,
        is_new: Bools,
        shadow: Shadow,
    ) -> int:
        """Return the number of the source that is the reason for new infinities or NaN."""
        lane = int(np.argmax(is_new)) if is_new.ndim else 0
        is_finite = bool(np.isfinite(on_actual.reshape(-1)[lane]))
        if not is_finite and bool(np.isfinite(shadow.exact.reshape(-1)[lane])):
            number = self._of_operands(operands, result, lane)
            if number is not None:
                return number
        number = self.sources.at(operation, result.element.text)
        source = self.sources.table[number]
        if not source.special:
            is_nan = bool(np.isnan(result.data.reshape(-1)[lane]))
            is_overflow = is_finite or (not is_nan and _grows(operation))
            source.special = "overflow" if is_overflow else "nan" if is_nan else "inf"
            source.special_values = _values_at(operands, result, lane)
        return number

    def _of_operands(self, operands: Sequence[Handle], result: Handle, lane: int) -> int | None:
        """Return the source of an operand's error if the exact operand gives a finite result.

        An example is 1 / x, where x has become zero by underflow, or the square root of a variance
        that has become negative by cancellation.
        """
        for operand in reversed(operands):
            own = operand.shadow
            if not isinstance(own, Shadow) or own.rows is None or len(own.rows) <= FIXED:
                continue
            if own.exact.shape != result.data.shape:
                continue
            actual, exact = (
                float(operand.data.reshape(-1)[lane]),
                float(own.exact.reshape(-1)[lane]),
            )
            if not abs(actual - exact) > _MOST_OF * abs(exact):
                continue
            number = int(
                np.abs(own.rows[FIXED:].reshape(len(own.rows) - FIXED, -1)[:, lane]).argmax()
            )
            source = self.sources.table[number]
            cancelled = own.cancelled is not None and own.cancelled.reshape(-1)[lane] != NOTHING
            source.special = source.special or (
                "cancellation" if cancelled else "underflow" if actual == 0 else "accuracy_loss"
            )
            source.special_values = source.special_values or source.values
            return number
        return None

    def note_cancellation(
        self, operation: str, result: Handle, operands: Sequence[Handle], shadow: Shadow
    ) -> None:
        """Mark the lanes in which a sum is much smaller than its operands, which have errors."""
        if shadow.rows is None or len(shadow.rows) <= INPUTS:
            return
        actual = as_exact(result.data)
        size = np.abs(actual)
        largest = np.maximum(*(np.abs(as_exact(handle.data)) for handle in operands[:2]))
        small = size < _CANCELS * largest
        if not small.any():
            return
        error = np.abs(actual - shadow.exact)
        small &= error > _LARGE_ERROR * precision(result.data.dtype) * size
        if small.any():
            number = self.sources.at(operation, result.element.text)
            old = shadow.cancelled if shadow.cancelled is not None else np.int32(NOTHING)
            shadow.cancelled = np.where(small, np.int32(number), old)


def is_float(handle: Handle) -> bool:
    """Return whether a value consists of floating-point numbers."""
    return handle.element.text[0] in "fb" and handle.element.pointee is None


def shadow_of(handle: Handle) -> Shadow:
    """Return the shadow of an operand; a value without one is exact."""
    own = handle.shadow
    return own if isinstance(own, Shadow) else Shadow(as_exact(handle.data))


def _finite(error: Array) -> Array:
    """Return errors in float64, in which infinities and NaN count as zero."""
    is_number = np.isfinite(error)
    numbers = error if is_number.all() else np.where(is_number, error, 0.0)
    return np.asarray(numbers, np.float64)


def _has_truth(arguments: Sequence[Any]) -> bool:
    """Return whether an operand has the shadow of a truth value, or of bits."""
    return any(isinstance(getattr(a, "shadow", None), (Truth, FloatBits)) for a in arguments)


def joined(shadows: Sequence[Shadow], exact: Any, rows: Array | None) -> Shadow:
    """Return a shadow with the marks of all operands."""
    shape = np.shape(exact)
    return Shadow(
        exact,
        rows,
        joined_numbers([s.origin for s in shadows], shape),
        joined_flags([s.padded for s in shadows], shape),
        joined_numbers([s.mixed for s in shadows], shape),
        joined_numbers([s.cancelled for s in shadows], shape),
    )


def _grows(operation: str) -> bool:
    """Return whether an infinite result of finite operands is an overflow in any precision."""
    return operation not in ("fdiv", "precise_divf", "approx_divf", "rsqrt", "log", "log2", "div")


def _fitting(array: Array, shape: tuple[int, ...]) -> Array | None:
    """Return an operand as an array of the result's shape, or None if lanes do not correspond."""
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        return None


def _values_at(
    operands: Sequence[Handle], result: Handle, lane: int
) -> tuple[tuple[str, float], ...]:
    """Return the values of elementwise operands in a lane, counted row by row."""
    names = _NAMES if len(operands) > 1 else ("value",)
    values: list[tuple[str, float]] = []
    for name, operand in zip(names, operands, strict=False):
        data = operand.data
        if data.size == 1:
            values.append((name, float(data.reshape(-1)[0])))
        elif data.shape == result.data.shape:
            values.append((name, float(data.reshape(-1)[lane])))
    return tuple(values)


# ---- rules of operations that work lane by lane


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
    """Give the result of an operation that rounds on purpose a new shadow; padded lanes remain."""
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


def chosen(condition: Any, first: Shadow, second: Shadow, shape: tuple[int, ...]) -> Shadow:
    """Return the shadow of a value that is chosen lane by lane."""
    condition = np.broadcast_to(condition, shape)

    def pick(a: Any, b: Any, missing: Any) -> Any:
        if a is None and b is None:
            return None
        return np.where(condition, missing if a is None else a, missing if b is None else b)

    rows = None
    if first.rows is not None or second.rows is not None:
        masks = (condition.astype(np.float64), (~condition).astype(np.float64))
        rows = weighted([(first.rows, masks[0]), (second.rows, masks[1])], shape)
    none = np.int32(NOTHING)
    return Shadow(
        np.where(condition, first.exact, second.exact),
        rows,
        pick(first.origin, second.origin, none),
        pick(first.padded, second.padded, False),
        pick(first.mixed, second.mixed, none),
        pick(first.cancelled, second.cancelled, none),
    )


def _select(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    condition, a, b = arguments
    if isinstance(condition.shadow, Truth):
        if in_sort():
            f.decisions.use("sort", condition.shadow, np.ones(result.data.shape, bool))
        elif is_float(result):
            matters = alternatives_differ(a, b, precision(result.data.dtype))
            lanes = np.broadcast_to(matters, result.data.shape)
            f.decisions.use("where", condition.shadow, lanes)
        else:
            f.decisions.use("where", condition.shadow, np.asarray(a.data != b.data))
    if is_float(result):
        result.shadow = chosen(condition.data, shadow_of(a), shadow_of(b), result.data.shape)


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


# ---- rules of comparisons and of what depends on them


def _comparison(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    """Note the lanes in which the exact values compare differently."""
    a, b = arguments[:2]
    if not (isinstance(a.shadow, Shadow) or isinstance(b.shadow, Shadow)) or in_random_numbers():
        return
    first, second = shadow_of(a).exact, shadow_of(b).exact
    exact = compare(operation, first, second)
    differs = exact != result.data
    if differs.any():
        actual = as_exact(a.data), as_exact(b.data)
        text = comparison_text(operation)
        number = f.decisions.add(text, ("a", "b"), actual, (first, second), differs)
        result.shadow = Truth(exact, np.where(differs, np.int32(number), np.int32(NOTHING)))


def _logic(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    """Combine truth values, or the bits of two lanes of a float."""
    a, b = arguments[:2]
    if operation == "xor":
        bits = next((h.shadow for h in (a, b) if isinstance(h.shadow, FloatBits)), None)
        if bits is not None:
            result.shadow = bits.after_xor()
            return
    shadows = [h.shadow if isinstance(h.shadow, Truth) else None for h in (a, b)]
    if all(shadow is None for shadow in shadows) or a.element.text != "i1":
        return
    truths = [h.data if s is None else s.exact for h, s in zip((a, b), shadows, strict=True)]
    exact = np.asarray(LOGIC[operation](*truths))
    differs = exact != result.data
    if differs.any():
        decision = joined_numbers(
            [None if s is None else s.decision for s in shadows], result.data.shape
        )
        assert decision is not None
        result.shadow = Truth(exact, np.where(differs, decision, np.int32(NOTHING)))


def _bitcast(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    operand = arguments[0]
    if not is_float(result):
        if is_float(operand) and result.element.is_integer:
            result.shadow = FloatBits(operand)
        return
    bits = operand.shadow
    shadow = bits.shadow_of(result) if isinstance(bits, FloatBits) else None
    if shadow is None:
        f.restart(operation, result)
    result.shadow = shadow


def _number(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    """Record that a boolean is converted to a number."""
    if isinstance(arguments[0].shadow, Truth):
        f.decisions.use("number", arguments[0].shadow, np.ones(result.data.shape, bool))


def _branch(f: Follower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    if isinstance(arguments[0].shadow, Truth):
        f.decisions.use("branch", arguments[0].shadow, np.ones(arguments[0].data.shape, bool))


def _masking(f: Follower, mask: Handle | None) -> None:
    """Note that an access depends on a mask."""
    if mask is not None and isinstance(mask.shadow, Truth):
        f.decisions.use("mask", mask.shadow, np.ones(mask.data.shape, bool))


# ---- rules of operations that move elements


def _moving(
    move: Callable[..., Callable[[Any], Any]], on_rows: Callable[..., Callable[[Any], Any]]
) -> Rule:
    def rule(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
        handle = next(a for a in arguments if isinstance(a, Handle))
        if isinstance(handle.shadow, (Shadow, Truth)):
            moved = handle.shadow.moved(move(result, *arguments), on_rows(result, *arguments))
            result.shadow = moved

    return rule


def _splat_rows(result: Handle, *_: Any) -> Callable[[Any], Any]:
    def move(rows: Any) -> Any:
        shape = result.data.shape
        wide = rows.reshape(len(rows), *([1] * (len(shape) - rows.ndim + 1)), *rows.shape[1:])
        return np.broadcast_to(wide, (len(rows), *shape))

    return move


_broadcast = _moving(lambda r, *_: lambda x: np.broadcast_to(x, r.data.shape), _splat_rows)
_reshape = _moving(
    lambda r, *_: lambda x: x.reshape(r.data.shape),
    lambda r, *_: lambda x: x.reshape(len(x), *r.data.shape),
)
_transpose = _moving(
    lambda r, value, order: lambda x: np.transpose(x, order),
    lambda r, value, order: lambda x: np.transpose(x, (0, *(n + 1 for n in order))),
)


def _stack(first: Shadow, second: Shadow, join: Callable[[Any, Any], Any]) -> Shadow:
    """Return the shadow of a value made of two values; `join` works on the last axes."""

    def both(a: Any, b: Any, shapes: tuple[Any, Any], missing: Any) -> Any:
        if a is None and b is None:
            return None
        a = np.full(shapes[0], missing) if a is None else a
        b = np.full(shapes[1], missing) if b is None else b
        return join(a, b)

    shapes = first.exact.shape, second.exact.shape
    rows = None
    if first.rows is not None or second.rows is not None:
        count = max(len(s.rows) for s in (first, second) if s.rows is not None)
        wide = [np.zeros((count, *shape)) for shape in shapes]
        for array, shadow in zip(wide, (first, second), strict=True):
            if shadow.rows is not None:
                array[: len(shadow.rows)] = shadow.rows
        rows = np.stack([join(a, b) for a, b in zip(*wide, strict=True)])
    none = np.int32(NOTHING)
    return Shadow(
        join(first.exact, second.exact),
        rows,
        both(first.origin, second.origin, shapes, none),
        both(first.padded, second.padded, shapes, False),
        both(first.mixed, second.mixed, shapes, none),
        both(first.cancelled, second.cancelled, shapes, none),
    )


def _concatenate(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b = (shadow_of(x) for x in arguments[:2])
    result.shadow = _stack(a, b, lambda x, y: np.concatenate((x, y)))


def _join(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b = (shadow_of(x) for x in arguments[:2])
    result.shadow = _stack(a, b, lambda x, y: np.stack((x, y), axis=-1))


def _split(f: Follower, operation: str, arguments: Sequence[Any], result: Sequence[Handle]) -> None:
    own = arguments[0].shadow
    if isinstance(own, Shadow):
        for n, handle in enumerate(result):
            handle.shadow = own.at((..., n))


def _gather(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    value, index, axis = arguments[:3]
    if not isinstance(value.shadow, Shadow):
        return
    inside = np.clip(index.data.astype(np.int64), 0, value.data.shape[axis] - 1)
    result.shadow = value.shadow.moved(
        lambda x: np.take_along_axis(x, inside, axis),
        lambda rows: np.take_along_axis(
            rows, np.broadcast_to(inside, (len(rows), *inside.shape)), axis + 1
        ),
    )


# ---- reductions and products of matrices


def _reduce(f: Follower, operation: str, arguments: Sequence[Any], results: Any) -> None:
    handles, axis, function = arguments[:3]
    name = getattr(function, "__name__", "")
    results = list(results)
    value, result = handles[0], results[0]
    if isinstance(value.shadow, FloatBits):
        value.shadow.reduced = axis
    if not is_float(value):
        return
    if name == "_sum_combine":
        _sum(f, operation, value, axis, result)
    elif name in ("_elementwise_max", "_elementwise_min") or name.startswith("_arg"):
        _pick(f, operation, value, axis, result, is_max="max" in name)
        if name.startswith("_arg"):
            _note_choice(f, value, axis, is_max="max" in name)
    else:
        f.restart(f"{operation} with `{name}`", results)


def _sum(f: Follower, operation: str, value: Handle, axis: int, result: Handle) -> None:
    own, actual = shadow_of(value), as_exact(value.data)
    on_actual = np.asarray(actual.sum(axis))
    shadow = _along(own, axis, np.asarray(own.exact.sum(axis)), lambda rows: rows.sum(axis + 1))
    if own.padded is not None:
        finite = np.where(np.isfinite(actual), actual, 0.0)
        padding = (finite * own.padded).sum(axis)
        shadow.mixed = _mixed(
            f, operation, result, own.padded.all(axis), padding, on_actual, shadow.mixed
        )
    f.finish(operation, result, (value,), on_actual, shadow)


def _mixed(
    f: Follower,
    operation: str,
    result: Handle,
    is_padding: Any,
    padding: Any,
    total: Any,
    mixed: Numbers | None,
) -> Numbers | None:
    """Return the marks of a reduction's results that count padded lanes with others."""
    counts = np.asarray(~is_padding & (np.abs(padding) > _NEUTRAL * np.abs(total)))
    if not counts.any():
        return mixed
    number = f.sources.at(operation, result.element.text)
    entry = f.mixed.setdefault(number, Mixed())
    share = np.where(counts, np.abs(padding) / np.maximum(np.abs(total), 1e-300), 0.0)
    lane = int(share.argmax()) if share.ndim else 0
    if float(share.reshape(-1)[lane]) > entry.share:
        entry.share = float(share.reshape(-1)[lane])
        entry.result = float(np.asarray(total).reshape(-1)[lane])
        entry.without = entry.result - float(np.asarray(padding).reshape(-1)[lane])
    old = np.int32(NOTHING) if mixed is None else mixed
    return np.where(counts, np.int32(number), old)


def _along(own: Shadow, axis: int, exact: Array, on_rows: Callable[[Any], Any]) -> Shadow:
    """Return the shadow of a reduction, with the marks of all elements along an axis."""
    return Shadow(
        exact,
        None if own.rows is None else np.array(on_rows(own.rows)),
        None if own.origin is None else np.asarray(own.origin.max(axis)),
        None if own.padded is None else np.asarray(own.padded.all(axis)),
        None if own.mixed is None else np.asarray(own.mixed.max(axis)),
        None if own.cancelled is None else np.asarray(own.cancelled.max(axis)),
    )


def _pick(
    f: Follower, operation: str, value: Handle, axis: int, result: Handle, *, is_max: bool
) -> None:
    """Give a maximum or minimum the shadow of the element that the kernel chose."""
    filled, index = _best(as_exact(value.data), axis, is_max=is_max)
    own = shadow_of(value)
    shadow = own.moved(
        lambda x: np.take_along_axis(x, index, axis).squeeze(axis),
        lambda rows: np.take_along_axis(
            rows, np.broadcast_to(index, (len(rows), *index.shape)), axis + 1
        ).squeeze(axis + 1),
    )
    if own.padded is not None:
        others = np.where(own.padded, -np.inf if is_max else np.inf, filled)
        best = others.max(axis) if is_max else others.min(axis)
        actual = as_exact(result.data)
        padding = np.where(np.isfinite(best), actual - best, 0.0)
        total = np.maximum(np.abs(actual), np.abs(best))
        is_padding = own.padded.all(axis)
        shadow.padded = np.asarray(is_padding)
        shadow.mixed = _mixed(f, operation, result, is_padding, padding, total, shadow.mixed)
    result.shadow = shadow


def _best(values: Array, axis: int, *, is_max: bool) -> tuple[Array, Any]:
    """Return values without NaN, and the index of the first largest or smallest along an axis."""
    filled = np.where(np.isnan(values), -np.inf if is_max else np.inf, values)
    return filled, np.expand_dims(filled.argmax(axis) if is_max else filled.argmin(axis), axis)


def _note_choice(f: Follower, value: Handle, axis: int, *, is_max: bool) -> None:
    """Note the rows in which the exact values have another largest or smallest element."""
    own = value.shadow
    if not isinstance(own, Shadow) or in_random_numbers():
        return
    filled, index = _best(as_exact(value.data), axis, is_max=is_max)
    exact, other = _best(own.exact, axis, is_max=is_max)
    pairs = [
        (np.take_along_axis(array, index, axis), np.take_along_axis(array, other, axis))
        for array in (filled, exact)
    ]
    differs = np.asarray(pairs[1][0] != pairs[1][1])
    if differs.any():
        name, names = "argmax" if is_max else "argmin", ("chosen", "other")
        number = f.decisions.add(name, names, pairs[0], pairs[1], differs)
        truth = Truth(differs, np.where(differs, np.int32(number), np.int32(NOTHING)))
        f.decisions.use("index", truth, differs)


def _scan(f: Follower, operation: str, arguments: Sequence[Any], results: Any) -> None:
    handles, axis, function, reverse = arguments[:4]
    name = getattr(function, "__name__", "")
    results = list(results)
    value, result = handles[0], results[0]
    if not is_float(value):
        return
    if name not in ("_sum_combine", "_prod_combine"):
        f.restart(f"{operation} with `{name}`", results)
        return
    own, actual = shadow_of(value), as_exact(value.data)
    if reverse:
        actual = np.flip(actual, axis)
        own = own.moved(lambda x: np.flip(x, axis), lambda rows: np.flip(rows, axis + 1))
    accumulate = np.cumsum if name == "_sum_combine" else np.cumprod
    on_actual, exact = accumulate(actual, axis), accumulate(own.exact, axis)
    rows = own.rows
    if rows is not None and name == "_sum_combine":
        rows = np.cumsum(rows, axis + 1)
    elif rows is not None:
        # d(x1 ... xn) / d xi = x1 ... xn / xi, where no factor is zero.
        numbers = actual.astype(np.float64, copy=False)
        shares = np.cumsum(np.where(numbers != 0, rows / numbers, 0.0), axis + 1)
        rows = weighted([(shares, on_actual.astype(np.float64, copy=False))], actual.shape)
    marks = [own.origin, own.mixed, own.cancelled]
    origin, mixed, cancelled = (
        None if mark is None else np.maximum.accumulate(mark, axis) for mark in marks
    )
    shadow = Shadow(exact, rows, origin, own.padded, mixed, cancelled)
    if reverse:
        shadow = shadow.moved(lambda x: np.flip(x, axis), lambda rows: np.flip(rows, axis + 1))
        on_actual = np.flip(on_actual, axis)
    f.finish(operation, result, (value,), on_actual, shadow)


def _dot(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b, c = arguments[:3]
    first, second, third = (shadow_of(handle) for handle in (a, b, c))
    x, y, z = (as_exact(handle.data) for handle in (a, b, c))
    shape = result.data.shape
    exact, on_actual = first.exact @ second.exact + third.exact, x @ y + z
    if _rounds_operands(a, b, arguments):
        # The rounding of the operands to tf32 is requested, so the exact value includes it.
        intended = as_exact(result.data) - on_actual
        is_small = np.abs(intended) <= _TF32_ERROR * (np.abs(x) @ np.abs(y))
        intended = np.where(is_small, intended, 0.0)
        exact, on_actual = exact + intended, on_actual + intended
    left, right = (array.astype(np.float64, copy=False) for array in (x, y))
    rows = weighted(
        [
            (None if first.rows is None else first.rows @ right, 1.0),
            (None if second.rows is None else left @ second.rows, 1.0),
            (third.rows, 1.0),
        ],
        shape,
    )
    if f.follows_inputs and (a.element.size <= 2 or b.element.size <= 2):
        # Operands of 16 bits count as inputs of 16 bits: hardware leaves no other choice.
        rows = _with_narrow_operands(f, rows, x, y, shape)
    marks = [
        _of_product(getattr(first, name), getattr(second, name), getattr(third, name), shape)
        for name in ("origin", "mixed", "cancelled")
    ]
    shadow = Shadow(exact, rows, marks[0], None, marks[1], marks[2])
    _note_padding(f, operation, result, (first, second, third), (x, y, z), shadow)
    f.finish(operation, result, (a, b, c), on_actual, shadow)


def _rounds_operands(a: Handle, b: Handle, arguments: Sequence[Any]) -> bool:
    """Return whether a product rounds its operands of float32, according to `input_precision`."""
    precision = str(arguments[3]) if len(arguments) > 3 else ""
    return "IEEE" not in precision.upper() and {a.element.text, b.element.text} == {"f32"}


def _with_narrow_operands(
    f: Follower, rows: Array | None, x: Array, y: Array, shape: tuple[int, ...]
) -> Array:
    f.operands += x.size
    elements = f.operands - 1 - np.arange(x.size).reshape(x.shape)  # different ones in each product
    changes = random_changes(x, elements, narrow=True)
    product = np.zeros((len(changes), *shape))
    product[INPUTS:] = changes[INPUTS:] @ y
    total = weighted([(rows, 1.0), (product, 1.0)], shape)
    assert total is not None
    return total


def _of_product(a: Any, b: Any, c: Any, shape: tuple[int, ...]) -> Numbers | None:
    parts = [
        None if a is None else a.max(-1)[..., :, None],
        None if b is None else b.max(-2)[..., None, :],
        c,
    ]
    return joined_numbers(parts, shape)


def _note_padding(
    f: Follower,
    operation: str,
    result: Handle,
    shadows: tuple[Shadow, Shadow, Shadow],
    data: tuple[Array, Array, Array],
    shadow: Shadow,
) -> None:
    """Mark the results of a product whose sum counts padded lanes together with others."""
    first, second, third = shadows
    if first.padded is None and second.padded is None and third.padded is None:
        return
    x, y, z = (np.where(np.isfinite(array), array, 0.0) for array in data)
    left = np.zeros(x.shape, bool) if first.padded is None else first.padded
    right = np.zeros(y.shape, bool) if second.padded is None else second.padded
    own = x @ y
    others = np.where(left, 0.0, x) @ np.where(right, 0.0, y)
    rows, columns = np.asarray(left.all(-1)), np.asarray(right.all(-2))
    is_padding = rows[..., :, None] | columns[..., None, :]
    padding = own - others
    padding = np.where(np.abs(padding) > _NEUTRAL * (np.abs(x) @ np.abs(y)), padding, 0.0)
    shadow.mixed = _mixed(f, operation, result, is_padding, padding, own + z, shadow.mixed)
    shadow.padded = joined_flags([is_padding, third.padded], result.data.shape)


# ---- rules of accesses to memory


def _load(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    pointer, mask, other = arguments[0], None, None
    if operation == "masked_load":
        mask, other = arguments[1], arguments[2]
    _masking(f, mask)
    if not is_float(result):
        return
    actual = as_exact(result.data)
    addresses, element = pointer.data, result.element
    is_narrow = element.size <= 2
    active = (
        np.ones(actual.shape, bool) if mask is None else np.broadcast_to(mask.data, actual.shape)
    )
    numbers = actual.astype(np.float64, copy=False)
    rows = None
    if f.follows_inputs:
        rows = random_changes(numbers, addresses, narrow=is_narrow)
        rows *= active
    shadow = Shadow(actual, rows)
    if active.any():
        kept = f.memory.find(addresses[active], element.dtype)
        loaded = None if kept is None else kept.load(np.where(active, addresses, kept.start))
        if kept is not None and loaded is not None:
            has_shadow, stored = loaded
            has_shadow = np.asarray(has_shadow & active)
            if is_narrow:  # a tensor of 16 bits counts as an input of 16 bits, whoever wrote it
                if f.settles:
                    allowed = settled_error(element.dtype)
                    own = addresses[has_shadow]
                    has_shadow[has_shadow] &= ~kept.settled(own, f.launch, allowed)
                if rows is not None:
                    changes = rows.copy()
                    changes[:INPUTS] = 0.0
                    stored.rows = weighted([(stored.rows, 1.0), (changes, 1.0)], actual.shape)
            shadow = chosen(has_shadow, stored, shadow, actual.shape)
    if not active.all():
        own = other.shadow if isinstance(other, Handle) else None
        if isinstance(own, Shadow) and own.rows is not None:
            shadow = chosen(active, shadow, own, actual.shape)
        else:
            shadow.padded = ~active
    result.shadow = shadow


def _store(f: Follower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    pointer, value = arguments[:2]
    mask = arguments[2] if operation == "masked_store" else None
    _masking(f, mask)
    if isinstance(value.shadow, Truth):
        f.decisions.use("number", value.shadow, np.ones(value.data.shape, bool))
    if is_float(value):
        _record(f, operation, pointer, value, None if mask is None else mask.data)


def _record(f: Follower, operation: str, pointer: Handle, value: Handle, mask: Any) -> None:
    """Store the shadow of a value in memory."""
    shape = pointer.data.shape
    active = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    if not active.any():
        return
    addresses = pointer.data[active]
    shadow = shadow_of(value)
    if shadow.exact.shape != shape:
        shadow = Shadow(np.broadcast_to(shadow.exact, shape))
    if shadow.mixed is not None:
        stored = active if shadow.padded is None else active & ~shadow.padded
        for number in np.unique(shadow.mixed[stored]).tolist():
            if number != NOTHING:
                f.mixed[number].lanes += int((shadow.mixed[stored] == number).sum())
    kept = f.memory.find(addresses, value.element.dtype)
    if kept is not None:
        source = f.sources.at(operation, value.element.text)
        kept.store_lanes(addresses, shadow.at(active), f.launch, source)


def _atomic(f: Follower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    kind, pointer, value, mask = arguments[:4]
    _masking(f, mask)
    if not is_float(value):
        return
    shape = pointer.data.shape
    active = np.ones(shape, bool) if mask is None else np.broadcast_to(mask.data, shape)
    if not active.any():
        return
    addresses = pointer.data[active]
    kept = f.memory.find(addresses, value.element.dtype)
    if kept is None:
        return
    places, first = np.unique(addresses, return_index=True)
    old_values = result.data[active][first]
    before = as_exact(old_values)
    after = _read(f, places, value)
    source = f.sources.at(operation, value.element.text)
    if "FADD" not in str(kind).upper() and not str(kind).upper().endswith(".ADD"):
        kept.store_lanes(places, Shadow(as_exact(after.data)), f.launch, source)
        return
    added = shadow_of(value).at(active)
    where = np.searchsorted(places, addresses)
    total, exact = np.zeros_like(before), np.zeros_like(before)
    np.add.at(total, where, as_exact(value.data[active]))
    np.add.at(exact, where, added.exact)
    old = Shadow(before)
    loaded = kept.load(places, old_values)
    if loaded is not None:
        old = chosen(loaded[0], loaded[1], old, before.shape)
    rows = old.rows
    if added.rows is not None:
        sums = np.zeros((len(added.rows), len(places)))
        np.add.at(sums.T, where, added.rows.T)
        rows = weighted([(rows, 1.0), (sums, 1.0)], (len(places),))
    origin = old.origin
    if added.origin is not None:
        new = np.full(len(places), NOTHING, np.int32)
        np.maximum.at(new, where, added.origin)
        origin = joined_numbers([origin, new], (len(places),))
    shadow = Shadow(old.exact + exact, rows, origin, None, None, old.cancelled)
    f.finish(operation, after, (Handle(old_values, after.element),), before + total, shadow)
    kept.store_lanes(places, shadow, f.launch, source)


def _read(f: Follower, places: Any, like: Handle) -> Handle:
    """Return the elements of memory at some addresses, in the type of a value."""
    from ttools.interpreter.runtime.snapshot import memory

    start = int(places.min())
    words = memory(start, int(places.max()) + like.element.size).view(np.uint8)
    index = (places - start)[:, None] + np.arange(like.element.size)
    return Handle(words[index].view(like.element.dtype).reshape(-1), like.element)


_COMPARISONS = tuple(
    order + name for order in "OU" for name in ("EQ", "NE", "LT", "LE", "GT", "GE")
)
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
    "create_select": _select,
    **{f"create_fcmp{name}": _comparison for name in _COMPARISONS},
    **{f"create_{name}": _logic for name in LOGIC},
    "create_bitcast": _bitcast,
    "create_int_cast": _number,
    "branch": _branch,
    **{f"create_{name}": _extremum for name in ("maximumf", "maxnumf", "minimumf", "minnumf")},
    "create_clampf": _clamp,
    "create_splat": _broadcast,
    "create_broadcast": _broadcast,
    "create_expand_dims": _reshape,
    "create_reshape": _reshape,
    "create_unsplat": _reshape,
    "create_trans": _transpose,
    "create_cat": _concatenate,
    "create_join": _join,
    "create_split": _split,
    "create_gather": _gather,
    "create_reduce": _reduce,
    "create_scan": _scan,
    "create_dot": _dot,
    "create_load": _load,
    "create_masked_load": _load,
    "create_store": _store,
    "create_masked_store": _store,
    "create_atomic_rmw": _atomic,
}
#: Rules that are applied although the result is not a float.
_NEEDED = frozenset(
    (
        "create_fp_to_si",
        "create_fp_to_ui",
        "create_atomic_rmw",
        "create_bitcast",
        *(f"create_fcmp{name}" for name in _COMPARISONS),
    )
)
#: Rules that are applied to truth values, and to bits of floats.
_ON_TRUTHS = frozenset(
    (
        "create_select",
        "create_int_cast",
        "create_load",
        "create_masked_load",
        *(f"create_{name}" for name in (*LOGIC, "splat", "broadcast", "expand_dims", "reshape")),
        *(f"create_{name}" for name in ("unsplat", "trans")),
    )
)
#: Operations that need no rule: their results are constants, or an inner operation computed them.
_SILENT = frozenset(
    (
        "create_atomic_poll",
        "create_poison",
        "create_descriptor_load",
        "create_python_reduction",
        "create_descriptor_gather",
        "create_tensor_pointer_load",
    )
)
