"""Tiles that are sums of their coordinates with factors that the launch decides.

A form is found by walking from a tile to the scalars that it is made of, and is in 64 bits whatever
the tile's type. Where a narrow sum or product may wrap, it carries guards: it stays in its type at
the corners of the tile, and so between them. Must not know what the tiles are used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.ir import (
    Constant,
    IntegerType,
    Operation,
    PointerType,
    Value,
    as_signed,
    element_type,
    shape_of,
)
from ttools.interpreter.llvm.builder import byte_size
from ttools.interpreter.llvm.value import FALSE, SSAValue, integer

#: A chain of operations longer than this is not followed.
_DEPTH = 32
_ZERO = integer(0, "i64")
#: Bits of a number in 64-bit arithmetic whose products with another one do not wrap.
_FACTOR_BITS = 30
#: Bits of a number in 64-bit arithmetic that can be added to another one, or taken from it.
_ADDEND_BITS = 60


@dataclass(frozen=True)
class Form:
    """`base + steps[0] * i + steps[1] * j + …` at the coordinates i, j, … of a tile.

    Attributes:
        base: an i64, an SSA name or a literal; of pointers the address.
        steps: the same along each axis; of pointers in bytes.
    """

    base: SSAValue
    steps: tuple[SSAValue, ...]

    @property
    def is_uniform(self) -> bool:
        return all(step == "0" for step in self.steps)


@dataclass
class Linear:
    """Finds forms, and emits what computes them where the builder stands.

    Attributes:
        guards: i1 values that must all hold for the forms found to be right.
    """

    e: Emitter
    guards: list[SSAValue] = field(default_factory=list)

    def form(self, value: Value) -> Form | None:
        """The form of a tile; None where it has none."""
        return self._form(value, 0)

    def _form(self, value: Value, depth: int) -> Form | None:
        if depth > _DEPTH:
            return None
        if value in self.e.deltas:
            initial, delta = self.e.deltas[value]
            first = self._form(initial, depth + 1)
            return first and self._in_type(value, self._plus(first, self._moved(value, delta)))
        op = value.defining_op
        return None if op is None or op in self.e.plan.lane_swaps else self._computed(op, depth)

    def _computed(self, op: Operation, depth: int) -> Form | None:
        """The form of an operation's result, as far as it is one of indices."""
        match op.name:
            case "tt.splat":
                return self._splat(op, depth)
            case "arith.constant":
                return self._constant(op, depth)
            case "tt.make_range":
                return self._range(op, depth)
            case "tt.expand_dims":
                return self._expand(op, depth)
            case "tt.broadcast":
                return self._broadcast(op, depth)
            case "tt.trans":
                return self._transposed(op, depth)
            case "arith.extsi" | "arith.extui":
                return self._widened(op, depth)
            case "arith.addi" | "arith.subi":
                return self._sum(op, depth)
            case "arith.muli":
                return self._product(op, depth)
            case "arith.shli":
                return self._shifted(op, depth)
            case "tt.addptr":
                return self._pointer(op, depth)
        return None

    def _operands(self, op: Operation, depth: int) -> list[Form] | None:
        forms = [self._form(operand, depth + 1) for operand in op.operands]
        found = [form for form in forms if form is not None]
        return found if len(found) == len(forms) else None

    # ---- leaves
    def _splat(self, op: Operation, depth: int) -> Form | None:
        source = op.operands[0]
        type = source.type
        if not isinstance(type, IntegerType | PointerType) or source not in self.e.scalars:
            return None
        if isinstance(type, IntegerType) and type.width == 1:
            return None
        base = self.e.convert_int(self.e.scalar(source), "i64")
        return Form(base, (_ZERO,) * len(shape_of(op.result.type)))

    def _constant(self, op: Operation, depth: int) -> Form | None:
        data, type = op.attributes["value"], element_type(op.result.type)
        if not (isinstance(data, Constant) and data.is_splat and isinstance(type, IntegerType)):
            return None
        steps = (_ZERO,) * len(shape_of(op.result.type))
        return Form(integer(as_signed(data.bits[0], type.width), "i64"), steps)

    def _range(self, op: Operation, depth: int) -> Form | None:
        start = op.attributes["start"]
        assert isinstance(start, int)
        return Form(integer(start, "i64"), (integer(1, "i64"),))

    def _moved(self, value: Value, delta: SSAValue) -> Form:
        return Form(self.e.convert_int(delta, "i64"), (_ZERO,) * len(shape_of(value.type)))

    # ---- shapes
    def _expand(self, op: Operation, depth: int) -> Form | None:
        form, axis = self._form(op.operands[0], depth + 1), op.attributes["axis"]
        assert isinstance(axis, int)
        return form and Form(form.base, (*form.steps[:axis], _ZERO, *form.steps[axis:]))

    def _broadcast(self, op: Operation, depth: int) -> Form | None:
        form = self._form(op.operands[0], depth + 1)
        extents = shape_of(op.operands[0].type)
        if form is None:
            return None
        steps = zip(form.steps, extents, strict=True)
        return Form(form.base, tuple(_ZERO if extent == 1 else step for step, extent in steps))

    def _transposed(self, op: Operation, depth: int) -> Form | None:
        form, order = self._form(op.operands[0], depth + 1), op.attributes["order"]
        assert isinstance(order, tuple | list)
        return form and Form(form.base, tuple(form.steps[int(k)] for k in order))  # type: ignore[arg-type]

    # ---- arithmetic
    def _widened(self, op: Operation, depth: int) -> Form | None:
        """As signed numbers all tiles are anyway; others must not be negative."""
        form = self._form(op.operands[0], depth + 1)
        if form is not None and op.name == "arith.extui":
            low, _ = self.ends(form, shape_of(op.result.type))
            self._require("sge", low, _ZERO)
        return form

    def _sum(self, op: Operation, depth: int) -> Form | None:
        forms = self._operands(op, depth)
        if forms is None:
            return None
        sign = 1 if op.name == "arith.addi" else -1
        return self._in_type(op.result, self._plus(*forms, sign=sign))

    def _plus(self, a: Form, b: Form, *, sign: int = 1) -> Form:
        add = self.e.iadd if sign > 0 else self.e.isub
        steps = (add(x, y) for x, y in zip(a.steps, b.steps, strict=True))
        return Form(add(a.base, b.base), tuple(steps))

    def _product(self, op: Operation, depth: int) -> Form | None:
        forms = self._operands(op, depth)
        if forms is None:
            return None
        factor, other = sorted(forms, key=lambda form: not form.is_uniform)
        if not factor.is_uniform:
            return None
        if _bits(op.result) == 64:
            for number in (factor.base, *other.steps):
                self._limit(number)
        return self._in_type(op.result, self._times(other, factor.base))

    def _shifted(self, op: Operation, depth: int) -> Form | None:
        forms = self._operands(op, depth)
        if forms is None or not forms[1].is_uniform or not forms[1].base.isdigit():
            return None
        by = int(forms[1].base)
        if by >= _FACTOR_BITS or by >= _bits(op.result):
            return None
        return self._in_type(op.result, self._times(forms[0], integer(1 << by, "i64")))

    def _times(self, form: Form, factor: SSAValue) -> Form:
        steps = (self.e.imul(step, factor) for step in form.steps)
        return Form(self.e.imul(form.base, factor), tuple(steps))

    def _pointer(self, op: Operation, depth: int) -> Form | None:
        forms, element = self._operands(op, depth), element_type(op.result.type)
        assert isinstance(element, PointerType)
        if forms is None:
            return None
        if _bits(op.operands[1]) == 64:
            for step in forms[1].steps:
                self._limit(step)
        return self._plus(
            forms[0], self._times(forms[1], integer(byte_size(element.pointee), "i64"))
        )

    # ---- what must hold
    def ends(self, form: Form, shape: Sequence[int]) -> tuple[SSAValue, SSAValue]:
        """The least and the greatest element."""
        low = high = form.base
        for step, extent in zip(form.steps, shape, strict=True):
            if step == "0" or extent == 1:
                continue
            way = self.e.imul(step, extent - 1)
            low = self.e.iadd(low, self.least(way, _ZERO))
            high = self.e.iadd(high, self.greatest(way, _ZERO))
        return low, high

    def least(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The lesser of two numbers."""
        return self._chosen("smin", a, b)

    def greatest(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The greater of two numbers."""
        return self._chosen("smax", a, b)

    def _chosen(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        if a.startswith("%") or b.startswith("%"):
            return self.e.b.overloaded(name, a, b)
        return integer((min if name == "smin" else max)(int(a), int(b)), "i64")

    def difference(self, a: Form, b: Form) -> Form:
        """One tile less another."""
        return self._plus(a, b, sign=-1)

    def limit_wide(self, form: Form, value: Value) -> None:
        """Demands that differences of 64-bit numbers do not wrap."""
        if _bits(value) == 64:
            for number in (form.base, *form.steps):
                self._limit(number, _ADDEND_BITS)

    def _in_type(self, value: Value, form: Form) -> Form:
        bits = _bits(value)
        if bits < 64 and (form.base.startswith("%") or not form.is_uniform):
            low, high = self.ends(form, shape_of(value.type))
            self._require("sge", low, integer(-(1 << (bits - 1)), "i64"))
            self._require("sle", high, integer((1 << (bits - 1)) - 1, "i64"))
        return form

    def _limit(self, number: SSAValue, bits: int = _FACTOR_BITS) -> None:
        """Demands that a number has no more bits."""
        limit = 1 << bits
        if number.startswith("%"):
            near = self.e.b.binary("add", number, limit)
            self._require("ult", near, integer(2 * limit, "i64"))
        elif abs(int(number)) >= limit:
            self.guards.append(FALSE)

    def _require(self, predicate: str, number: SSAValue, other: SSAValue) -> None:
        if number.startswith("%"):
            guard = self.e.b.compare(f"icmp {predicate}", number, other)
            if guard not in self.guards:
                self.guards.append(guard)
        elif not (int(number) >= int(other) if predicate == "sge" else int(number) <= int(other)):
            self.guards.append(FALSE)


def _bits(value: Value) -> int:
    type = element_type(value.type)
    return type.width if isinstance(type, IntegerType) else 64
