"""The common form of instructions: `opcode.modifiers.type d, a, b…` with one result.

A `Form` describes the sources, the result and the computation of one opcode for one type; `forms`
makes tables of forms. Rules consume the modifiers that they support. If a modifier remains, the
instruction is rejected, so that no modifier is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ttools.interpreter.elementwise.ptx.machine import Handler, Machine, RefusedPtxError
from ttools.interpreter.elementwise.ptx.syntax import Instruction, Operand
from ttools.interpreter.elementwise.ptx.types import TYPES, PtxType
from ttools.interpreter.elementwise.vector import Vector


class Modifiers:
    """The words after an opcode's dots that have not been consumed yet."""

    def __init__(self, instruction: Instruction) -> None:
        self._left = list(instruction.modifiers)
        #: The type that was consumed last.
        self.kind = TYPES["b32"]

    def flag(self, name: str) -> bool:
        """Consume `name` if it is present; return whether it was."""
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    def choice(self, *names: str) -> str | None:
        """Consume and return the one of `names` that is present; None if there is none."""
        return next((name for name in names if self.flag(name)), None)

    def type(self) -> PtxType:
        """Consume and return the first type."""
        name = next((word for word in self._left if word in TYPES), None)
        if name is None:
            raise RefusedPtxError("")
        self._left.remove(name)
        self.kind = TYPES[name]
        return self.kind

    def rest(self) -> tuple[str, ...]:
        """Consume and return all remaining words."""
        left, self._left = tuple(self._left), []
        return left

    def end(self) -> None:
        """Reject the instruction if a modifier is left."""
        if self._left:
            raise RefusedPtxError(f"modifier .{self._left[0]}")


#: Computes a result from source values, and consumes the modifiers that it supports.
Rule = Callable[..., Vector]


@dataclass(frozen=True, slots=True)
class Form:
    """One opcode for one type, such as `add.f32`."""

    rule: Rule
    sources: tuple[PtxType, ...]
    result: PtxType


def forms(opcode: str, types: str, rule: Rule, *sources: str, result: str = "") -> dict[str, Form]:
    """Return a form for each type.

    Args:
        opcode: The opcode, without modifiers.
        types: Names of types, separated by spaces.
        rule: Computes the result from the modifiers and the source values.
        sources: Types of the sources; "" is the instruction's own type.
        result: Type of the result; "" is the instruction's own type.
    """
    return {
        f"{opcode}.{name}": Form(
            rule,
            tuple(TYPES[source or name] for source in sources),
            TYPES[result or name],
        )
        for name in types.split()
    }


def count(instruction: Instruction, *allowed: int) -> tuple[Operand, ...]:
    """Return the operands; reject the instruction unless their number is allowed."""
    if len(instruction.operands) not in allowed:
        raise RefusedPtxError(f"{len(instruction.operands)} operands")
    return instruction.operands


def handler_of(table: Mapping[str, Form]) -> Handler:
    """Return a handler that looks up an instruction's form in a table by opcode and type."""

    def execute(machine: Machine, instruction: Instruction) -> None:
        modifiers = Modifiers(instruction)
        type = modifiers.type()
        form = table.get(f"{instruction.opcode}.{type.name}")
        if form is None:
            raise RefusedPtxError(f"type .{type.name}")
        target, *operands = count(instruction, len(form.sources) + 1)
        values = [
            machine.read(operand, source)
            for operand, source in zip(operands, form.sources, strict=True)
        ]
        result = form.rule(modifiers, *values)
        modifiers.end()
        machine.write(target, form.result, result)

    return execute
