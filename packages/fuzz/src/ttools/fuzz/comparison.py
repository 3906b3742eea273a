"""Comparison of the memory after a launch with the memory that the oracle computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ttools.fuzz.elements import Array
from ttools.fuzz.program import Buffer
from ttools.fuzz.rounding import is_nan, ordered


@dataclass(frozen=True)
class Mismatch:
    """A buffer whose contents differ from the expected ones.

    Attributes:
        indices: The first elements that differ, counted from the start of the tensor that the
            kernel received. Negative indices and indices past its size are in the margins.
        expected: Expected values as text.
        actual: Actual values as text.
        count: Number of elements that differ.
        size: Number of elements of the tensor.
        untouched: True if the kernel should not have written any of these elements.
    """

    buffer: str
    indices: tuple[int, ...]
    expected: tuple[str, ...]
    actual: tuple[str, ...]
    count: int
    size: int
    untouched: bool

    def __str__(self) -> str:
        first = f"{self.buffer}[{self.indices[0]}] is {self.actual[0]}, expected {self.expected[0]}"
        where = ", to which no program stores" if self.untouched else ""
        return f"{first}{where}; {self.count} of {self.size} elements differ"


def compare(
    buffers: Mapping[str, Buffer],
    before: Mapping[str, Array],
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
    *,
    slack: int = 0,
) -> list[Mismatch]:
    """Return the buffers that differ, margins included.

    Args:
        buffers: Buffers of the program, by name.
        before: Memory before the launch.
        expected: Expected memory after the launch.
        actual: Actual memory after the launch.
        slack: Additional tolerance in units in the last place, for results that are approximate.
    """
    mismatches = []
    for name, buffer in buffers.items():
        wrong = _differences(buffer, expected[name], actual[name], slack)
        if wrong.any():
            mismatches.append(_mismatch(buffer, before[name], expected[name], actual[name], wrong))
    return mismatches


def _differences(buffer: Buffer, expected: Array, actual: Array, slack: int) -> Array:
    element = buffer.element
    if element.kind == "bool":
        return np.asarray(expected != actual)
    unsigned = f"uint{element.bits}"
    wrong = expected.view(unsigned) != actual.view(unsigned)
    if not element.is_float or not wrong.any():
        return np.asarray(wrong)
    wrong &= ~(is_nan(expected, element) & is_nan(actual, element))
    if buffer.signless or buffer.ulps:
        wrong &= ~((expected == 0) & (actual == 0))
    if buffer.ulps:
        with np.errstate(over="ignore"):
            distance = np.abs(ordered(expected, element) - ordered(actual, element))
        are_numbers = ~(is_nan(expected, element) | is_nan(actual, element))
        wrong &= ~(are_numbers & (distance <= buffer.ulps + slack))
    return np.asarray(wrong)


def _mismatch(
    buffer: Buffer, before: Array, expected: Array, actual: Array, wrong: Array
) -> Mismatch:
    indices = np.flatnonzero(wrong)
    first = indices[:4]
    if buffer.element.kind == "bool":
        untouched = bool(np.all(before[indices] == expected[indices]))
    else:
        bits = f"uint{buffer.element.bits}"
        untouched = bool(np.all(before.view(bits)[indices] == expected.view(bits)[indices]))
    return Mismatch(
        buffer.name,
        tuple(int(i) - buffer.margin for i in first),
        tuple(str(expected[i]) for i in first),
        tuple(str(actual[i]) for i in first),
        len(indices),
        buffer.size,
        untouched,
    )
