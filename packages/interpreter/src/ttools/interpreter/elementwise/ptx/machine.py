"""The state of inline PTX while it is translated: registers, scopes, and guards.

Every register is a vector of integers with one lane per instance of the assembly. To execute an
instruction, the machine reads its operands as values of a type, appends vector code, and writes the
result in the lanes in which the guard (`@p`) is set. The instructions are defined in `integer.py`,
`floating.py`, `conversion.py` and `selection.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ttools.interpreter.elementwise.ptx.syntax import (
    Address,
    Braces,
    Declaration,
    Instruction,
    Name,
    Number,
    Operand,
    Pair,
    Scope,
)
from ttools.interpreter.elementwise.ptx.types import (
    TYPES,
    PtxType,
    from_bits,
    literal_bits,
    to_bits,
)
from ttools.interpreter.elementwise.vector import BITS, Lanes, Vector


class RefusedPtxError(Exception):
    """An instruction cannot be translated; the message names what is unsupported or wrong."""


@dataclass(slots=True)
class Register:
    """A register's size and value; the value is None before it is written."""

    bits: int
    value: Vector | None = None


#: Translates one instruction.
Handler = Callable[["Machine", Instruction], None]


class Machine:
    """Executes parsed PTX symbolically.

    Args:
        lanes: One lane per instance of the assembly.
        arguments: The registers `$0`, `$1`, …
        handlers: The handler of each opcode.
        special: Functions that read `%globaltimer` and the like, by name.
    """

    def __init__(
        self,
        lanes: Lanes,
        arguments: list[Register],
        handlers: Mapping[str, Handler],
        special: Mapping[str, Callable[[Lanes], Vector]],
    ) -> None:
        self.lanes = lanes
        self._scopes = [{f"${i}": register for i, register in enumerate(arguments)}]
        self._handlers = handlers
        self._special = special
        self._guard: Vector | None = None
        self.executed: list[str] = []

    # ---- statements
    def run(self, scope: Scope) -> None:
        """Execute the statements of a block."""
        self._scopes.append({})
        for statement in scope.statements:
            match statement:
                case Scope():
                    self.run(statement)
                case Declaration():
                    self._declare(statement)
                case Instruction():
                    self._execute(statement)
        self._scopes.pop()

    def _declare(self, declaration: Declaration) -> None:
        type = TYPES.get(declaration.type)
        if type is None:
            raise RefusedPtxError(f"`.reg .{declaration.type}`")
        for name in declaration.names:
            self._scopes[-1][name] = Register(type.total)

    def _execute(self, instruction: Instruction) -> None:
        handler = self._handlers.get(instruction.opcode)
        if handler is None:
            raise RefusedPtxError(f"`{instruction.text}`")
        guard = instruction.guard
        self._guard = None if guard is None else self.read(guard, TYPES["pred"])
        try:
            handler(self, instruction)
        except RefusedPtxError as error:
            detail = str(error)
            named = f"`{instruction.text}`"
            raise RefusedPtxError(f"{named}: {detail}" if detail else named) from None
        finally:
            self._guard = None
        self.executed.append(instruction.opcode)

    # ---- reading
    def read(self, operand: Operand, type: PtxType, *, low: bool = False) -> Vector:
        """Return an operand as a value of `type`.

        Args:
            operand: A register, literal or group of parts.
            type: The type that the instruction reads.
            low: If True, read the low bits of a larger register, as `cvt` and `mov` may.
        """
        return from_bits(self._bits(operand, type, low), type)

    def _bits(self, operand: Operand, type: PtxType, low: bool) -> Vector:
        match operand:
            case Number(text):
                bits = literal_bits(text, type)
                if bits is None:
                    raise RefusedPtxError(f"{text} as a value of type .{type.name}")
                return self.constant(bits, type.total)
            case Name(text, negated):
                value = self._value(text)
                size = BITS[value.scalar]
                if size < type.total or (size > type.total and not low):
                    raise RefusedPtxError(f"{text} has {size} bits, but .{type.name} is required")
                value = value.cast("trunc", f"i{type.total}") if size > type.total else value
                return ~value if negated else value
            case Braces(parts):
                return self._joined(parts, type)
            case Address():
                raise RefusedPtxError("it accesses memory")
            case Pair():
                raise RefusedPtxError("")

    def _joined(self, parts: tuple[Operand, ...], type: PtxType) -> Vector:
        size = type.total // len(parts)
        part = TYPES.get(f"b{size}")
        if part is None or size * len(parts) != type.total:
            raise RefusedPtxError(f"{len(parts)} parts of .{type.name}")
        result = None
        for i, operand in enumerate(parts):
            # Parts are read as untyped bits, for which a literal may be an integer or a float.
            piece = self.read(operand, part).cast("zext", f"i{type.total}")
            shifted = piece << (i * size) if i else piece
            result = shifted if result is None else result | shifted
        assert result is not None
        return result

    def _value(self, name: str) -> Vector:
        register = self._find(name)
        if register is None:
            special = self._special.get(name)
            if special is None:
                raise RefusedPtxError(f"{name} is not a known register")
            return special(self.lanes)
        if register.value is None:
            raise RefusedPtxError(f"{name} is read before it is written")
        return register.value

    def _find(self, name: str) -> Register | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def constant(self, bits: int, size: int) -> Vector:
        """Return the same bits in every lane."""
        value = bits - (1 << size) if size > 1 and bits >> (size - 1) else bits
        return self.lanes.constant(value, f"i{size}")

    def size(self, operand: Operand) -> int | None:
        """Return the size of a register in bits; None for other operands."""
        if not isinstance(operand, Name):
            return None
        register = self._find(operand.text)
        if register is not None:
            return register.bits
        special = self._special.get(operand.text)
        return None if special is None else BITS[special(self.lanes).scalar]

    # ---- writing
    def write(
        self, operand: Operand, type: PtxType, value: Vector, *, extend: bool = False
    ) -> None:
        """Write a value to a register or to the parts of a group.

        Args:
            type: The type of the value.
            extend: If True, the register may be larger than the value, as for `cvt`.
        """
        self.write_bits(operand, to_bits(value, type, self.lanes), type, extend=extend)

    def write_bits(
        self, operand: Operand, bits: Vector, type: PtxType, *, extend: bool = False
    ) -> None:
        """Write bits to a register or to the parts of a group, as `write` does for a value."""
        if isinstance(operand, Braces):
            self._split(operand.parts, bits, type)
            return
        if not isinstance(operand, Name) or operand.negated:
            raise RefusedPtxError("its destination is not a register")
        if operand.text == "_":
            return
        register = self._find(operand.text)
        if register is None:
            raise RefusedPtxError(f"{operand.text} is not a register")
        if register.bits < type.total or (register.bits > type.total and not extend):
            raise RefusedPtxError(
                f"{operand.text} has {register.bits} bits, but .{type.name} is required"
            )
        if register.bits > type.total:
            bits = bits.cast("sext" if type.signed else "zext", f"i{register.bits}")
        if self._guard is not None:
            # If the register has not been written before, lanes in which the guard is unset may
            # have any value.
            old = register.value or bits.coerce(0)
            bits = self._guard.choose(bits, old)
        register.value = bits

    def _split(self, parts: tuple[Operand, ...], bits: Vector, type: PtxType) -> None:
        size = type.total // len(parts)
        part = TYPES.get(f"b{size}")
        if part is None or size * len(parts) != type.total:
            raise RefusedPtxError(f"{len(parts)} parts of .{type.name}")
        for i, operand in enumerate(parts):
            shifted = bits >> (i * size) if i else bits
            self.write_bits(operand, shifted.cast("trunc", f"i{size}"), part)
