"""Follows a launch operation by operation and gives each float value a shadow.

The launch runs eagerly, so each operation has been computed when `Follower.operation` is called
with its operands and its result. The rule of the operation computes the shadow of the result from
the shadows of the operands. A value of an operation without a rule gets a shadow that restarts from
the value itself, and the operation is listed in `unfollowed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ttools.core.process.phases import tick
from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.eager.mlir import OpResults
from ttools.sanitizer.accuracy.decisions import Decisions, FloatBits, Truth
from ttools.sanitizer.accuracy.memory import ShadowMemory
from ttools.sanitizer.accuracy.shadow import (
    NOTHING,
    Bools,
    Shadow,
    as_exact,
    exact_type,
    precision,
    with_row,
)
from ttools.sanitizer.accuracy.sources import FIXED, INPUTS, Array, Sources

Rule: TypeAlias = "Callable[[Follower, str, Sequence[Any], Any], None]"

#: A sum is a cancellation if its result is smaller than its largest operand by the factor
#: `_CANCELS`, and if the error of the result exceeds `_LARGE_ERROR` times its spacing.
_CANCELS = 2.0**-6
_LARGE_ERROR = 2.0**6
#: An operand counts as wrong, and not only as inaccurate, if its error exceeds this share of its
#: exact value.
_MOST_OF = 0.5
#: Names of operands in findings.
_NAMES = ("a", "b", "c")


@dataclass(frozen=True, kw_only=True)
class RuleTable:
    """The rules of operations, by builder method.

    Attributes:
        rules: The rule of each operation.
        needed: Operations whose rules are applied although the result is not a float.
        on_truths: Operations whose rules are applied to truth values, and to bits of floats.
        silent: Operations that need no rule: their results are constants, or an inner operation
            computed them.
    """

    rules: Mapping[str, Rule]
    needed: frozenset[str]
    on_truths: frozenset[str]
    silent: frozenset[str]


@dataclass
class Mixed:
    """A reduction whose stored result includes lanes that a mask leaves out.

    Attributes:
        lanes: Number of stored elements.
        share: The largest share of a result that comes from the lanes left out by the mask.
        result: The result with the largest share.
        without: The value that this result would have without these lanes.
    """

    lanes: int = 0
    share: float = 0.0
    result: float = 0.0
    without: float = 0.0


@dataclass(kw_only=True)
class Follower:
    """Follows one launch.

    Attributes:
        table: The rules of all operations.
        memory: Shadows of the elements in memory.
        sources: The table of sources.
        launch: Number of the launch in the run.
        mixed: Reductions that count padded lanes, by number of their source.
        converted: For each source of an overflow, the number of elements whose conversion to an
            integer is wrong because of this overflow.
        unfollowed: Operations without a rule, and the sources that describe where they are.
        operands: Number of elements in the operands of all matrix products so far.
        settles: If True, a 16-bit tensor that an earlier launch has stored as accurately as its
            type allows counts as an input.
        follows_inputs: If True, the first rows contain random changes of the inputs.
        is_rounded: True if exact values restarted after an operation that rounds on purpose.
        decisions: Decisions that would be different if the kernel computed with exact values.
    """

    table: RuleTable
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
        rule = self.table.rules.get(name)
        if rule is not None:
            # An inner operation may have computed the shadow already; few results other than floats
            # have a shadow.
            is_done = isinstance(result, Handle) and (
                result.shadow is not None
                or not (
                    is_float(result) or (name in self.table.on_truths and _has_truth(arguments))
                )
            )
            if is_done and name not in self.table.needed:
                return
            with np.errstate(all="ignore"):
                rule(self, name.removeprefix("create_"), arguments, result)
        elif name not in self.table.silent:
            self.restart(name.removeprefix("create_"), result)

    def restart(self, operation: str, result: Any) -> None:
        """Record that an operation has no rule.

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
            on_actual: The exact result of the operation on the kernel's own operands.
            shadow: Shadow of the result, which is complete except for this error and for infinities
                and NaN.
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
            # An infinity or NaN that is already in an operand comes from the arguments of the
            # launch.
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
            # The origin of an infinity that does no harm, as in 1 / (1 + exp(100)), is forgotten.
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
        """Return the number of the source that caused new infinities or NaN."""
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
        """Mark the lanes in which a sum is much smaller than its operands and has a large error."""
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
    """Return errors in float64, with zeros in place of infinities and NaN."""
    is_number = np.isfinite(error)
    numbers = error if is_number.all() else np.where(is_number, error, 0.0)
    return np.asarray(numbers, np.float64)


def _has_truth(arguments: Sequence[Any]) -> bool:
    """Return whether the shadow of an operand is a `Truth` or a `FloatBits`."""
    return any(isinstance(getattr(a, "shadow", None), (Truth, FloatBits)) for a in arguments)


def _grows(operation: str) -> bool:
    """Return whether an infinite result of finite operands would overflow in any precision."""
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
