"""What most instructions have in common: `opcode.modifiers.type d, a, b…` with one result.

A `Form` says for one opcode and type what its sources and result are and how it computes; tables
of forms are made by `forms`.  Modifiers are consumed as they are understood: one that is left over
refuses the instruction, so that nothing is ever ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ttools.interpreter.elementwise.ptx.machine import Handler, Machine, RefusedPtxError
from ttools.interpreter.elementwise.ptx.syntax import Instruction, Operand
from ttools.interpreter.elementwise.ptx.types import TYPES, PtxType
from ttools.interpreter.elementwise.vector import Vector


class Modifiers:
    """The words after an opcode's dots that nothing has consumed yet."""

    def __init__(self, instruction: Instruction) -> None:
        self._left = list(instruction.modifiers)
        #: The type last taken.
        self.kind = TYPES["b32"]

    def flag(self, name: str) -> bool:
        """Consumes `name` where it is present."""
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    def choice(self, *names: str) -> str | None:
        """Consumes the one of `names` that is present."""
        return next((name for name in names if self.flag(name)), None)

    def type(self) -> PtxType:
        """Consumes the first type."""
        name = next((word for word in self._left if word in TYPES), None)
        if name is None:
            raise RefusedPtxError("")
        self._left.remove(name)
        self.kind = TYPES[name]
        return self.kind

    def rest(self) -> tuple[str, ...]:
        """Consumes all that is left."""
        left, self._left = tuple(self._left), []
        return left

    def end(self) -> None:
        """Refuses what nothing consumed."""
        if self._left:
            raise RefusedPtxError(f"modifier .{self._left[0]}")


#: Computes a result from source values; it consumes the modifiers that it knows.
Rule = Callable[..., Vector]


@dataclass(frozen=True, slots=True)
class Form:
    """One opcode at one type."""

    rule: Rule
    sources: tuple[PtxType, ...]
    result: PtxType


def forms(opcode: str, types: str, rule: Rule, *sources: str, result: str = "") -> dict[str, Form]:
    """A form for each type.

    Args:
        opcode: without dots.
        types: names of types.
        rule: called with the modifiers and the source values.
        sources: types of the sources; "" is the instruction's own.
        result: type of the result, likewise.
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
    """The operands, of which there must be as many as `allowed` says."""
    if len(instruction.operands) not in allowed:
        raise RefusedPtxError(f"{len(instruction.operands)} operands")
    return instruction.operands


def handler_of(table: Mapping[str, Form]) -> Handler:
    """A handler that finds the form by opcode and type."""

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
