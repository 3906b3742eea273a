"""The oracle, which evaluates a kernel's programs in NumPy, one after another.

It executes the statements of each program in order. It shares no code with the engine. Programs of
generated kernels do not depend on each other, so their order does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ttools.fuzz.elements import Array
from ttools.fuzz.memory import contents
from ttools.fuzz.operations import access, combining, elementwise, movement
from ttools.fuzz.operations.table import Frame, evaluate
from ttools.fuzz.program import (
    Assign,
    DescriptorStore,
    For,
    Helper,
    If,
    Program,
    Statement,
    Store,
    While,
)
from ttools.fuzz.rounding import convert

#: Modules that register their operations when they are imported.
FAMILIES = (access, combining, elementwise, movement)

_MOST_ITERATIONS = 10_000


class EndlessError(Exception):
    """A generated kernel has a loop that does not terminate."""


def run(program: Program, limits: Mapping[str, int] | None = None) -> dict[str, Array]:
    """Return the memory of every buffer after the launch, margins included.

    Args:
        limits: Ends of shortened buffers in elements; accesses beyond load 0 and store nothing.
    """
    memory = {buffer.name: contents(buffer) for buffer in program.buffers}
    owners = {name: np.full(array.shape, -1, np.int32) for name, array in memory.items()}
    grid = (*program.grid, 1, 1)[:3]
    for number, program_id in enumerate(np.ndindex(*grid)):
        frame = Frame(
            {},
            memory,
            {buffer.name: buffer for buffer in program.buffers},
            {parameter.name: parameter.value for parameter in program.parameters},
            (program_id[0], program_id[1], program_id[2]),
            {helper.name: helper for helper in program.helpers},
            _call,
            owners,
            number,
            limits or {},
        )
        _execute(program.body, frame)
    return memory


def _call(helper: Helper, args: Sequence[Array], frame: Frame) -> tuple[Array, ...]:
    outer = frame.variables
    names = [name for name, _ in helper.parameters]
    frame.variables = dict(zip(names, args, strict=True))
    try:
        _execute(helper.body, frame)
        return tuple(evaluate(result, frame) for result in helper.results)
    finally:
        frame.variables = outer


def _execute(block: Sequence[Statement], frame: Frame) -> None:
    for statement in block:
        match statement:
            case Assign():
                _assign(statement, frame)
            case Store():
                _store(statement, frame)
            case DescriptorStore():
                _store_block(statement, frame)
            case For():
                _repeat(statement, frame)
            case While():
                _loop(statement, frame)
            case If():
                chosen = bool(evaluate(statement.condition, frame))
                _execute(statement.then if chosen else statement.orelse, frame)


def _assign(statement: Assign, frame: Frame) -> None:
    value = evaluate(statement.value, frame)
    values = value if isinstance(value, tuple) else (value,)
    for name, one in zip(statement.targets, values, strict=True):
        frame.variables[name] = np.asarray(one)


def _store(statement: Store, frame: Frame) -> None:
    buffer = statement.pointer.type.buffer
    index = evaluate(statement.pointer, frame)
    value = evaluate(statement.value, frame)
    mask = None if statement.mask is None else evaluate(statement.mask, frame)
    target = frame.buffers[buffer].element
    converted = convert(np.asarray(value), statement.value.type.element, target)
    access.write_cells(index, converted, mask, buffer, frame)


def _store_block(statement: DescriptorStore, frame: Frame) -> None:
    value = evaluate(statement.value, frame)
    base: Any = evaluate(statement.base, frame)
    index, inside = access.block_cells(
        statement.shape, statement.strides, statement.offsets, value.shape
    )
    access.write_cells(base + index, value, inside, statement.base.type.buffer, frame)


def _repeat(statement: For, frame: Frame) -> None:
    start, stop, step = (int(evaluate(bound, frame)) for bound in statement.bounds)
    # If the step is unknown at compile time, a GPU compares with `<`, whatever the step's sign.
    for value in range(start, stop, step) if step > 0 or _has_constant_step(statement) else ():
        frame.variables[statement.name] = np.array(value, np.int32)
        _execute(statement.body, frame)


def _has_constant_step(statement: For) -> bool:
    """Return whether the compiler sees the step as a constant."""
    return statement.bounds[2].op == "number"


def _loop(statement: While, frame: Frame) -> None:
    for _ in range(_MOST_ITERATIONS):
        if not bool(evaluate(statement.condition, frame)):
            return
        _execute(statement.body, frame)
    raise EndlessError("a while loop does not end")
