"""Vectors as Python values: arithmetic on them appends LLVM instructions to a builder.

For example, `a * b + c` appends an `fmul` and an `fadd`. `Lanes` creates vectors of one width.
`Vector` is an SSA value or literal with operators, so that a polynomial or a rounding rule looks
like its formula. `Call` is one operation that is being lowered, with its vectors and element types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import ttools.ir as ir
from ttools.core.errors import UnsupportedError
from ttools.interpreter.llvm.builder import Builder, float_literal, mangled, register_type
from ttools.interpreter.llvm.lines import Return
from ttools.interpreter.llvm.value import SSAValue, element_of, lanes_of, vector_type

#: Bits of one element, by LLVM type.
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}
FLOATS = {"half": "f16", "float": "f32", "double": "f64"}


class Lanes(NamedTuple):
    """A builder and the number of lanes of the vectors being built."""

    builder: Builder
    width: int

    def type(self, scalar: str) -> str:
        """Return the LLVM type of a vector of `scalar`."""
        return vector_type(scalar, self.width)

    def value(self, text: SSAValue) -> Vector:
        """Wrap an SSA value or literal."""
        return Vector(self, text)

    def constant(self, value: float, scalar: str) -> Vector:
        """Return `value` in every lane; an integer may be given as signed or as unsigned."""
        if scalar in FLOATS:
            text = float_literal(float(value), scalar)
        elif scalar == "i1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        return Vector(self, self.builder.splat(SSAValue(text, scalar), self.width))

    def intrinsic(self, name: str, *arguments: Vector) -> Vector:
        """Call `llvm.<name>`, whose result has the first argument's type."""
        return Vector(self, self.builder.overloaded(name, *[a.text for a in arguments]))

    def suffix(self, scalar: str) -> str:
        """Return the suffix for a vector type in function names, such as `v16f32` or `f32`."""
        return mangled(self.type(scalar))

    def function(
        self,
        name: str,
        result: str,
        body: Callable[..., Vector],
        *arguments: Vector,
        inline: bool = True,
    ) -> Vector:
        """Call a function of the module, which is defined on first use.

        The function keeps the text of a kernel small, because its body is emitted only once. For a
        large function that is rarely called, pass `inline=False`.

        Args:
            name: The name of the function, without prefix and type.
            result: The LLVM type of an element of the result.
            body: Emits the body of the function for its parameters, and returns the result.
            arguments: The arguments of the call.
            inline: If True, LLVM inlines the function.
        """
        full = f"ttools.{name}.{self.suffix(arguments[0].scalar)}"
        if full not in self.builder.definitions:
            parameters = [self.value(SSAValue(f"%a{i}", a.type)) for i, a in enumerate(arguments)]
            with self.builder.function_body() as lines:
                value = body(*parameters)
            head = ", ".join(f"{p.type} {p.text}" for p in parameters)
            attributes = f"{'alwaysinline' if inline else 'noinline'} nounwind"
            lines.append(Return(None, (f"ret {value.type} ", value.text)))
            head = f"define internal {self.type(result)} @{full}({head}) {attributes}"
            self.builder.define_function(full, head, lines, inline=inline)
        return self.call(result, f"@{full}", *arguments)

    def call(self, result: str, function: str, *arguments: Vector) -> Vector:
        """Call a function that returns a vector of `result`."""
        passed = [a.text for a in arguments]
        return Vector(self, self.builder.call(self.type(result), function, *passed))

    def fma(self, a: Vector, b: Vector | float, c: Vector | float) -> Vector:
        """Return `a * b + c`, rounded once."""
        return self.intrinsic("fma", a, a.coerce(b), a.coerce(c))

    def polynomial(self, x: Vector, coefficients: Sequence[float]) -> Vector:
        """Evaluate a polynomial by Horner's rule with fused multiply-adds.

        Args:
            coefficients: The coefficients, beginning with the highest power.
        """
        value = x.coerce(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.fma(value, x, coefficient)
        return value


@dataclass(slots=True, eq=False)
class Vector:
    """An SSA value or literal with one element of LLVM type `scalar` per lane."""

    lanes: Lanes
    text: SSAValue

    @property
    def type(self) -> str:
        return self.text.type

    @property
    def scalar(self) -> str:
        return element_of(self.text.type)

    @property
    def is_float(self) -> bool:
        return self.scalar in FLOATS

    def coerce(self, other: Vector | float) -> Vector:
        """Convert a number to a vector of this type; a vector stays unchanged."""
        return other if isinstance(other, Vector) else self.lanes.constant(other, self.scalar)

    def binary(self, opcode: str, other: Vector | float) -> Vector:
        right = self.coerce(other)
        return Vector(self.lanes, self.lanes.builder.binary(opcode, self.text, right.text))

    def __add__(self, other: Vector | float) -> Vector:
        return self.binary("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Vector | float) -> Vector:
        return self.binary("fsub" if self.is_float else "sub", other)

    def __rsub__(self, other: float) -> Vector:
        return self.coerce(other) - self

    def __mul__(self, other: Vector | float) -> Vector:
        return self.binary("fmul" if self.is_float else "mul", other)

    def __truediv__(self, other: Vector | float) -> Vector:
        return self.binary("fdiv", other)

    def __rtruediv__(self, other: float) -> Vector:
        return self.coerce(other) / self

    def __neg__(self) -> Vector:
        if self.is_float:
            negated = self.lanes.builder.emit(self.type, f"fneg {self.type} ", self.text)
            return Vector(self.lanes, negated)
        return self.coerce(0) - self

    def __and__(self, other: Vector | int) -> Vector:
        return self.binary("and", other)

    def __or__(self, other: Vector | int) -> Vector:
        return self.binary("or", other)

    def __xor__(self, other: Vector | int) -> Vector:
        return self.binary("xor", other)

    def __invert__(self) -> Vector:
        return self.binary("xor", 1 if self.scalar == "i1" else -1)

    def __lshift__(self, amount: int) -> Vector:
        return self.binary("shl", amount)

    def __rshift__(self, amount: int) -> Vector:
        """Shift right logically; `arithmetic_shift` keeps the sign."""
        return self.binary("lshr", amount)

    def arithmetic_shift(self, amount: int) -> Vector:
        return self.binary("ashr", amount)

    def compare(self, predicate: str, other: Vector | float) -> Vector:
        """Compare with an LLVM predicate, such as `slt` or `olt`."""
        right = self.coerce(other)
        op = f"{'fcmp' if self.is_float else 'icmp'} {predicate}"
        return Vector(self.lanes, self.lanes.builder.compare(op, self.text, right.text))

    def is_nan(self) -> Vector:
        return self.compare("uno", self)

    def any_lane(self) -> SSAValue:
        """Return an i1 that is set if any lane of this mask is set."""
        return self.lanes.builder.any_lane(self.text)

    def choose(self, then: Vector, otherwise: Vector | float) -> Vector:
        """Return `then` where this mask is set, and `otherwise` elsewhere."""
        other = then.coerce(otherwise)
        return Vector(self.lanes, self.lanes.builder.select(self.text, then.text, other.text))

    def cast(self, opcode: str, scalar: str) -> Vector:
        """Emit a cast (`zext`, `fptosi`, …), unless the vector already has the type.

        LLVM must not combine the conversion of an integer with later casts of the result. It
        removes a rounding to f16 if the integer has at most 11 significant bits, and overlooks that
        an integer such as `x << 22` can exceed the largest f16 (InstCombine, LLVM 22).

        Args:
            scalar: The LLVM type of an element of the result.
        """
        if scalar == self.scalar:
            return self
        result = Vector(self.lanes, self.lanes.builder.cast(opcode, self.text, scalar))
        if opcode in ("sitofp", "uitofp") and BITS[self.scalar] > 16:
            return self.lanes.intrinsic("arithmetic.fence", result)
        return result

    def as_int(self) -> Vector:
        """Return the bits as an integer of the same size."""
        return self.cast("bitcast", f"i{BITS[self.scalar]}") if self.is_float else self

    def as_float(self, scalar: str = "float") -> Vector:
        """Return the bits as a float of the same size."""
        return self.cast("bitcast", scalar)

    def abs(self) -> Vector:
        return self.lanes.intrinsic("fabs", self)

    def minimum(self, other: Vector | float, *, signed: bool = True) -> Vector:
        """Return the smaller of two integers."""
        return self.lanes.intrinsic("smin" if signed else "umin", self, self.coerce(other))

    def maximum(self, other: Vector | float, *, signed: bool = True) -> Vector:
        """Return the larger of two integers."""
        return self.lanes.intrinsic("smax" if signed else "umax", self, self.coerce(other))


def vector_of(builder: Builder, value: SSAValue) -> Vector:
    """Wrap an SSA value or literal, whose type determines the number of lanes."""
    return Vector(Lanes(builder, lanes_of(value.type)), value)


class Call(NamedTuple):
    """One elementwise operation being lowered."""

    lanes: Lanes
    op: ir.Operation
    operands: tuple[Vector, ...]

    @property
    def source(self) -> ir.Type:
        """Return the element type of the first operand."""
        return ir.element_type(self.op.operands[0].type)

    @property
    def target(self) -> ir.Type:
        """Return the element type of the first result."""
        return ir.element_type(self.op.results[0].type)

    @property
    def result(self) -> str:
        """Return the LLVM type of an element of the first result."""
        return register_type(self.target)

    def unsupported(self, what: str, help: str | None = None) -> UnsupportedError:
        return UnsupportedError(what, self.op.location, help)


#: Lowers one operation to its results.
Lowering = Callable[[Call], "Vector | tuple[Vector, ...]"]
