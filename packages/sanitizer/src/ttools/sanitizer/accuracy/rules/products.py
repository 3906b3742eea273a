"""The rule of products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.accuracy.follower import Follower, Rule, shadow_of
from ttools.sanitizer.accuracy.rules.reductions import NEUTRAL, mark_mixed
from ttools.sanitizer.accuracy.shadow import (
    Numbers,
    Shadow,
    as_exact,
    joined_flags,
    joined_numbers,
    random_changes,
    weighted,
)
from ttools.sanitizer.accuracy.sources import INPUTS, Array

#: Largest error of a product of two operands that are rounded to tf32.
_TF32_ERROR = 2.0**-9


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
        # 16-bit operands count as 16-bit inputs, because the hardware leaves no other choice.
        rows = _with_narrow_operands(f, rows, x, y, shape)
    marks = [
        _of_product(getattr(first, name), getattr(second, name), getattr(third, name), shape)
        for name in ("origin", "mixed", "cancelled")
    ]
    shadow = Shadow(exact, rows, marks[0], None, marks[1], marks[2])
    _note_padding(f, operation, result, (first, second, third), (x, y, z), shadow)
    f.finish(operation, result, (a, b, c), on_actual, shadow)


def _rounds_operands(a: Handle, b: Handle, arguments: Sequence[Any]) -> bool:
    """Return whether `input_precision` makes a product round its float32 operands."""
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
    """Mark the results of a product whose sum mixes padded lanes with other lanes."""
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
    padding = np.where(np.abs(padding) > NEUTRAL * (np.abs(x) @ np.abs(y)), padding, 0.0)
    shadow.mixed = mark_mixed(f, operation, result, is_padding, padding, own + z, shadow.mixed)
    shadow.padded = joined_flags([is_padding, third.padded], result.data.shape)


#: The rule of each operation, by builder method.
RULES: dict[str, Rule] = {
    "create_dot": _dot,
}
