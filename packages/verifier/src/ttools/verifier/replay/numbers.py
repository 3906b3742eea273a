"""Counts the numbers of a plan that a program may have computed from elements that it has read.

A program that reads integers on the host can pass results to kernels in many ways: as arguments, in
the code of a kernel, as operands, as offsets of views, as grids, or by the choice of an operand. If
a few sizes and strides determine a plan, it contains few independent numbers: those of the first
steps of each kind. Later steps continue these numbers regularly, as with one launch for each row.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from zlib import crc32

from ttools.core.spec import TensorSpec
from ttools.verifier.replay.operators import base_name
from ttools.verifier.replay.plan import Items, LaunchStep, Plan, Step, Symbol
from ttools.verifier.replay.tables import numbers_of

#: An integer in the text of a kernel, with its type.
_INTEGER = re.compile(r"(?<![\w.])(-?\d+) : i\d+\b")
#: Share of steps that may be irregular, such as the last one of a loop over blocks.
_FEW = 0.125


def count_numbers(plan: Plan) -> int:
    """Return how many numbers a plan contains that sizes and strides do not determine.

    These are the different numbers in the code of kernels and in the first two steps of each kind,
    and the numbers in later steps that do not continue the numbers at the same place in earlier
    steps linearly.
    """
    different: set[float] = set(numbers_of(plan))
    for ttir in plan.kernels:
        different.update(map(int, _INTEGER.findall(ttir)))
    kinds: defaultdict[tuple[Any, ...], list[tuple[float, ...]]] = defaultdict(list)
    for step in plan.steps:
        for kind, values in _rows_of(step):
            row = tuple(_flat(values))
            kinds[kind, len(row)].append(row)
    irregular = 0
    for rows in kinds.values():
        for row in rows[:2]:
            different.update(row)
        irregular += sum(map(_count_irregular, zip(*rows, strict=True)))
    return len(different) + irregular


def _rows_of(step: Step) -> Iterator[tuple[Any, Iterable[Any]]]:
    """Yield the kind of a step with the values of the step.

    For an operator, each item of its lists follows as a separate row.
    """
    if isinstance(step, LaunchStep):
        yield step.kernel, (*step.spec.grid, *(argument.value for argument in step.spec.arguments))
        return
    operands = (*step.arguments, *step.keywords.values())
    name = base_name(step.operator)
    yield name, (*operands, *step.results)
    for operand in operands:
        if isinstance(operand, Items):
            yield from ((f"{name} items", [item]) for item in operand.items)


def _flat(values: Iterable[Any]) -> Iterator[float]:
    """Yield the numbers in operands; names, such as those of types, are converted to numbers.

    A tensor contributes the numbers that describe its place, and a list contributes its length.
    """
    for value in values:
        if isinstance(value, TensorSpec):
            yield from (value.storage, value.offset, *value.shape, *value.strides)
            yield crc32(value.dtype.encode())
        elif isinstance(value, Items):
            yield len(value.items)
        elif isinstance(value, (bool, int, float)):
            yield value
        elif isinstance(value, (Symbol, str)):
            yield crc32((value if isinstance(value, str) else value.name).encode())


def _count_irregular(column: Sequence[float]) -> int:
    """Return how many irregular numbers the steps of one kind have at one place.

    A number is irregular if it neither repeats nor linearly continues the numbers of the two steps
    before it. If many are irregular, all numbers are counted, since the repetition of a number is
    then a choice, too.
    """
    count = sum(
        value not in (last, 2 * last - first)
        for first, last, value in zip(column, column[1:], column[2:], strict=False)
    )
    return len(column) if count > _FEW * len(column) else count
