"""Tiles that are affine in their coordinates, with coefficients that are known at run time.

For example, the tile `x_ptr + rows[:, None] * stride + columns[None, :]` of f32 has the form `base
+ (4*stride) * i + 4 * j`, where `base` and `stride` are SSA values. A form is found by following
the operations of a tile back to scalars. Forms are computed in 64 bits, whatever the type of the
tile. If a sum or product in a narrower type may wrap, the form has guards. These test at run time
that the values at the corners of the tile fit the type; all other values then fit, too.

`FormDomain` is a domain of integers (see `ir/dialects/integers.py`) whose numbers are emitted
instructions, so it can evaluate all operations whose semantics are declared for such domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.llvm.builder import byte_size
from ttools.interpreter.llvm.value import FALSE, SSAValue, integer
from ttools.ir import Operation, PointerType, Value, element_type, shape_of
from ttools.ir.dialects.integers import Integers, UnknownError
from ttools.ir.semantics import is_known, lanes_of, meaning, moved_lanes, width_of

#: The length of the longest chain of operations that is followed back.
_DEPTH = 32
_ZERO = integer(0, "i64")
#: Products of two numbers of at most this many bits do not wrap in 64-bit arithmetic.
_FACTOR_BITS = 30
#: Sums and differences of numbers of at most this many bits do not wrap in 64-bit arithmetic.
_ADDEND_BITS = 60


@dataclass(frozen=True)
class Form:
    """A value `base + steps[0] * i + steps[1] * j + …` at the coordinates i, j, … of a tile.

    Attributes:
        base: The value at the coordinates 0, as an i64, which may be a literal.
        steps: The difference between neighbours along each axis; in bytes, for pointers.
    """

    base: SSAValue
    steps: tuple[SSAValue, ...]

    @property
    def is_uniform(self) -> bool:
        return all(step == "0" for step in self.steps)


class FormDomain(Integers[Form]):
    """Finds forms, and emits the code that computes them at the builder's current place.

    Attributes:
        guards: Values of type i1. The forms are only valid if all of them are set.
    """

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.guards: list[SSAValue] = []
        self._result: Value | None = None

    def form(self, value: Value) -> Form | None:
        """Return the affine form of a tile; None if none was found."""
        return self._form(value, 0)

    def _form(self, value: Value, depth: int) -> Form | None:
        if depth > _DEPTH:
            return None
        if value in self.e.deltas:
            initial, delta = self.e.deltas[value]
            first = self._form(initial, depth + 1)
            if first is None:
                return None
            moved = Form(self.e.integers.convert(delta, "i64"), self._still(value))
            return self._in_type(value, self._plus(first, moved))
        op = value.defining_op
        if op is None or op in self.e.plan.lane_swaps:
            return None
        if lanes_of(value):
            return self._viewed(value, op, depth)
        if not _is_followed(op):
            return None
        forms = [self._form(operand, depth + 1) for operand in op.operands]
        result = [form for form in forms if form is not None]
        if len(result) < len(forms):
            return None
        self._result = value
        return meaning(self, op, result)

    def _viewed(self, value: Value, op: Operation, depth: int) -> Form | None:
        """Return the form of a view, which has the steps of its operand along other axes."""
        lanes = moved_lanes(value)
        if lanes is None or lanes.axes is None:
            return None
        source = op.operands[lanes.operand]
        form = self._form(source, depth + 1) if source.is_tensor else self._scalar(source)
        if form is None:
            return None
        base, steps = form.base, list(self._still(value))
        for n, (axis, step) in enumerate(zip(lanes.axes, form.steps, strict=True)):
            if axis is not None:
                steps[axis] = step
            elif lanes.fixed[n]:
                base = self.e.integers.add(base, self.e.integers.multiply(step, lanes.fixed[n]))
        return Form(base, tuple(steps))

    def _scalar(self, value: Value) -> Form | None:
        integer_ = isinstance(value.type, PointerType) or width_of(value) > 1
        if not integer_ or value not in self.e.scalars:
            return None
        return Form(self.e.integers.convert(self.e.scalar(value), "i64"), ())

    def _still(self, value: Value | None) -> tuple[SSAValue, ...]:
        return (_ZERO,) * len(shape_of(value.type)) if value is not None else ()

    # ---- operations on integers, with guards that the result fits its type
    def constant(self, number: int) -> Form:
        return Form(integer(number, "i64"), self._still(self._result))

    def coordinate(self, axis: int, extent: int) -> Form:
        steps = list(self._still(self._result))
        steps[axis] = integer(1, "i64")
        return Form(_ZERO, tuple(steps))

    def add(self, a: Form, b: Form) -> Form:
        return self._fitting(self._plus(a, b))

    def subtract(self, a: Form, b: Form) -> Form:
        return self._fitting(self._plus(a, b, sign=-1))

    def multiply(self, a: Form, b: Form) -> Form:
        factor, other = sorted((a, b), key=lambda form: not form.is_uniform)
        if not factor.is_uniform:
            raise UnknownError
        if self._bits == 64:
            for number in (factor.base, *other.steps):
                self._limit(number)
        return self._fitting(self._times(other, factor.base))

    def shift_left(self, a: Form, by: Form) -> Form:
        if not by.is_uniform or not by.base.isdigit():
            raise UnknownError
        if int(by.base) >= min(_FACTOR_BITS, self._bits):
            raise UnknownError
        return self._fitting(self._times(a, integer(1 << int(by.base), "i64")))

    def unsigned(self, a: Form, bits: int) -> Form:
        """Add a guard that a number is not negative, because forms are signed."""
        assert self._result is not None
        low, _ = self.ends(a, shape_of(self._result.type))
        self._require("sge", low, _ZERO)
        return a

    def displace(self, pointer: Form, offset: Form) -> Form:
        assert self._result is not None
        op, element = self._result.defining_op, element_type(self._result.type)
        assert op is not None
        assert isinstance(element, PointerType)
        if _bits(op.operands[1]) == 64:
            for step in offset.steps:
                self._limit(step)
        size = integer(byte_size(element.pointee), "i64")
        return self._plus(pointer, self._times(offset, size))

    @property
    def _bits(self) -> int:
        assert self._result is not None
        return _bits(self._result)

    def _fitting(self, form: Form) -> Form:
        assert self._result is not None
        return self._in_type(self._result, form)

    def _plus(self, a: Form, b: Form, *, sign: int = 1) -> Form:
        add = self.e.integers.add if sign > 0 else self.e.integers.subtract
        steps = (add(x, y) for x, y in zip(a.steps, b.steps, strict=True))
        return Form(add(a.base, b.base), tuple(steps))

    def _times(self, form: Form, factor: SSAValue) -> Form:
        steps = (self.e.integers.multiply(step, factor) for step in form.steps)
        return Form(self.e.integers.multiply(form.base, factor), tuple(steps))

    # ---- bounds and guards
    def ends(self, form: Form, shape: Sequence[int]) -> tuple[SSAValue, SSAValue]:
        """Return the smallest and the largest element of a tile, from its form and its shape."""
        low = high = form.base
        for step, extent in zip(form.steps, shape, strict=True):
            if step == "0" or extent == 1:
                continue
            way = self.e.integers.multiply(step, extent - 1)
            low = self.e.integers.add(low, self.lesser(way, _ZERO))
            high = self.e.integers.add(high, self.greater(way, _ZERO))
        return low, high

    def lesser(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the lesser of two numbers."""
        return self._chosen("smin", a, b)

    def greater(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return the greater of two numbers."""
        return self._chosen("smax", a, b)

    def _chosen(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        if a.startswith("%") or b.startswith("%"):
            return self.e.b.overloaded(name, a, b)
        return integer((min if name == "smin" else max)(int(a), int(b)), "i64")

    def difference(self, a: Form, b: Form) -> Form:
        """Return the difference of two tiles."""
        return self._plus(a, b, sign=-1)

    def limit_wide(self, form: Form, value: Value) -> None:
        """Add guards that differences of 64-bit numbers do not wrap."""
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
        """Add a guard that a number has at most `bits` bits."""
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
    return width_of(value) or 64


class _Followed(Integers[None]):
    """The domain that supports the same operations as `FormDomain`, but emits nothing."""

    def constant(self, number: int) -> None:
        return None

    def coordinate(self, axis: int, extent: int) -> None:
        return None

    def add(self, a: None, b: None) -> None:
        return None

    subtract = multiply = add

    def shift_left(self, a: None, by: None) -> None:
        return None

    def displace(self, pointer: None, offset: None) -> None:
        return None

    def unsigned(self, a: None, bits: int) -> None:
        return None


def _is_followed(op: Operation) -> bool:
    """Return whether an operation may have a form, so that its operands should be followed."""
    return is_known(_Followed(), op, [None] * len(op.operands))
