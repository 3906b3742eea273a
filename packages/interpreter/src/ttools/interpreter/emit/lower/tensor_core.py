"""Matrix products as tensor cores compute them: the precision of operands, and the bits of sums.

Tensor cores read only the upper 19 bits of an f32, which truncates it to tf32. For a higher
precision, the argument `input_precision` of `tl.dot` splits f32 operands into sums of parts, which
are multiplied separately: for `a = a0 + a1` and `b = b0 + b1`, tf32x3 is `a1*b0 + a0*b1 + a0*b0`.
The table `_PRODUCTS` contains the products that Triton's NVIDIA backend emits (3.6 to 3.9). Parts
are rounded to tf32 by `cvt.rna.tf32.f32`, and to bf16 to nearest even. If there is a single
product, it is added to the accumulator. If there are several, their sum starts at zero, NaN is
replaced by zero before the product of the largest parts is added, and the accumulator is added
last.

A tensor core of Hopper adds a group of products to the accumulator at once. It aligns the products
and the accumulator with the largest of these terms. The exponent of a product is the sum of its
operands' exponents, without a carry from the significands. Denormals have the exponent of the
smallest normal number, and zeros do not count. Bits more than 25 positions below the largest
exponent are cut off, the rest is added exactly, and the sum is truncated to f32. This was found by
experiment on an H200, with `mma` and `wgmma`; see docs/design/numerics.md.

All of this can be computed exactly in f64: the products are exact, and the terms, in units of the
last bit that is kept, are integers below 2**27. It takes about 20 times as long as a product that
is summed in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ttools.interpreter.abi.module import EmitOptions
from ttools.interpreter.elementwise.formats import round_any_bf16
from ttools.interpreter.elementwise.vector import Lanes, Vector, vector_of
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import Label, SSAValue
from ttools.interpreter.tiles.loops import OptionalLoop
from ttools.ir import FloatType, Operation, Type, element_type

#: The parts of the left and right operands that are multiplied, by their names in `PARTS`.
Product = tuple[str, str]

#: The products for each `input_precision`, in the order in which they are added. The last product
#: multiplies the largest parts.
_PRODUCTS: dict[str, tuple[Product, ...]] = {
    "tf32": (("cut", "cut"),),
    "tf32x3": (("tf32.1", "tf32.0"), ("tf32.0", "tf32.1"), ("tf32.0", "tf32.0")),
    "bf16x3": (("bf16.1", "bf16.0"), ("bf16.0", "bf16.1"), ("bf16.0", "bf16.0")),
    "bf16x6": (
        *(("bf16.1", "bf16.1"), ("bf16.2", "bf16.0"), ("bf16.0", "bf16.2")),
        *(("bf16.1", "bf16.0"), ("bf16.0", "bf16.1"), ("bf16.0", "bf16.0")),
    ),
}


def products_of(op: Operation, options: EmitOptions) -> tuple[Product, ...]:
    """Return the products of parts for a `tt.dot`; none if its operands are used unchanged."""
    if options.dot == "exact" or element_type(op.operands[0].type) != FloatType("f32"):
        return ()
    return _PRODUCTS.get(str(op.attributes.get("inputPrecision", "ieee")), ())


#: The bits of an f32 that tf32 lacks.
_BELOW_TF32 = 0x1FFF


def cut_to_tf32(value: Vector) -> Vector:
    """Return the part of an f32 that a tensor core reads."""
    return (value.as_int() & ~_BELOW_TF32).as_float()


def round_to_tf32(value: Vector) -> Vector:
    """Round to the nearest tf32, ties away from zero; infinities and NaN stay unchanged.

    A tensor core may read such a NaN as infinity, if the upper bits of its payload are 0.
    """
    bits = value.as_int()
    rounded = (bits + ((_BELOW_TF32 + 1) >> 1)) & ~_BELOW_TF32
    # A carry could turn a NaN into an infinity or a zero.
    finite = value.abs().compare("olt", float("inf"))
    return finite.choose(rounded, bits).as_float()


def _tf32_rest(value: Vector) -> Vector:
    return cut_to_tf32(value - round_to_tf32(value))


def _bf16_rest(value: Vector) -> Vector:
    return value - round_any_bf16(value)


#: Functions that compute the parts of an f32, by name. `cut` is the part that a tensor core reads;
#: `tf32.N` and `bf16.N` are the N-th part of a sum, the largest part first.
PARTS: dict[str, Callable[[Vector], Vector]] = {
    "cut": cut_to_tf32,
    "tf32.0": lambda value: cut_to_tf32(round_to_tf32(value)),
    "tf32.1": _tf32_rest,
    "bf16.0": round_any_bf16,
    "bf16.1": lambda value: round_any_bf16(_bf16_rest(value)),
    "bf16.2": lambda value: round_any_bf16(_bf16_rest(_bf16_rest(value))),
}


def part_of_f32(builder: Builder, value: SSAValue, part: str) -> SSAValue:
    """Return a part of an f32 in registers.

    Args:
        part: A name in `PARTS`.
    """
    return PARTS[part](vector_of(builder, value)).text


def zero_for_nan(builder: Builder, value: SSAValue) -> SSAValue:
    """Replace NaN by 0 in an f32 in registers."""
    vector = vector_of(builder, value)
    return vector.is_nan().choose(vector.coerce(0.0), vector).text


@dataclass(frozen=True)
class Group:
    """The products that a tensor core adds at once.

    Attributes:
        size: The number of products.
        least: The exponent of the smallest normal operand.
    """

    size: int
    least: int


_TF32, _BF16 = Group(8, -126), Group(16, -126)
#: Groups by the type of the operands, or by the part of an f32 that is multiplied. 8-bit floats are
#: not modelled, because `wgmma` keeps fewer bits of their sums than `mma`.
_GROUPS = {"f16": Group(16, -14), "bf16": _BF16, "cut": _TF32}
_GROUPS |= {"tf32.0": _TF32, "tf32.1": _TF32}
_GROUPS |= {"bf16.0": _BF16, "bf16.1": _BF16, "bf16.2": _BF16}

#: Terms are cut off this number of bits below the leading bit of the largest term.
_KEPT = 25
#: The number of rows of a block, which share computations on the right operand.
_ROWS = 4
_EXPONENT = 0x7FF0_0000_0000_0000
_MANTISSA_BITS = 52
_A, _B, _C = (SSAValue(f"%{name}", "ptr") for name in "abc")
#: A mask of the mantissa bits of an f64 that an f32 does not have.
_LOST = (1 << 29) - 1


def group_of(element: Type, parts: Product | None, result: Type) -> Group | None:
    """Return the group of products that a tensor core adds at once.

    The result is None if the group is unknown, or if tensor cores do not compute such products.

    Args:
        element: The type of the operands.
        parts: The parts of f32 operands that are multiplied; None if they are unchanged.
        result: The type of the accumulator.
    """
    if result != FloatType("f32"):
        return None
    return _GROUPS.get(parts[0] if parts else str(element))


def tensor_core_function(b: Builder, m: int, n: int, k: int, group: Group, lanes: int) -> str:
    """Define `void f(ptr a, ptr b, ptr c)`, which computes `c += a @ b` as tensor cores do.

    The matrices are f32 and row-major, of shapes (m, k), (k, n) and (m, n).
    """
    name = b.shared_name(f"ttools.tensor_core.{m}x{n}x{k}.by{group.size}.{-group.least}")
    if name in b.definitions:
        return f"@{name}"
    width, rows = min(n, lanes), min(m, _ROWS)
    with b.function_body() as lines:
        b.start(Label("entry"))
        column = OptionalLoop(b, n, width)
        row = OptionalLoop(b, m, rows)
        block = _Block(b, n, k, width, group)
        block.accumulate([_plus(b, row.index, n) for n in range(rows)], column.index)
        for loop in (row, column):
            loop.close()
        b.ret()
    arguments = "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c"
    return b.define_function(
        name, f"define internal void @{name}({arguments}) noinline #0", lines, inline=False
    )


class _Block:
    """A block of the result: several rows, each one vector wide, which accumulate along K."""

    def __init__(self, b: Builder, n: int, k: int, width: int, group: Group) -> None:
        self.b, self.n, self.k, self.group = b, n, k, group
        self.lanes = Lanes(b, width)
        self.scalars = Lanes(b, 1)

    def accumulate(self, rows: Sequence[SSAValue], column: SSAValue) -> None:
        b = self.b
        cells = [self._address(_C, row, column, self.n) for row in rows]
        size = min(self.group.size, self.k)
        start = [self._load(self.lanes, cell).text for cell in cells]
        loop = OptionalLoop(b, self.k, size, start)
        steps = [_plus(b, loop.index, n) for n in range(size)]
        rights = self._operands(self.lanes, _B, [(step, column) for step in steps], self.n)
        sums = []
        for row, carried in zip(rows, loop.carried, strict=True):
            lefts = self._operands(self.scalars, _A, [(row, step) for step in steps], self.k)
            sums.append(self._sum(self.lanes.value(carried), lefts, rights).text)
        loop.close(sums)
        for cell, text in zip(cells, loop.results, strict=True):
            result = self.lanes.value(text).cast("fptrunc", "float")
            b.store(result.text, cell, 4)

    def _operands(
        self,
        lanes: Lanes,
        base: SSAValue,
        cells: Sequence[tuple[SSAValue, SSAValue]],
        stride: int,
    ) -> list[tuple[Vector, Vector]]:
        """Return pairs of an operand and its size, which is a power of two (see `_size`)."""
        values = [self._load(lanes, self._address(base, *cell, stride)) for cell in cells]
        return [(value, self._size(value)) for value in values]

    def _sum(
        self,
        total: Vector,
        lefts: Sequence[tuple[Vector, Vector]],
        rights: Sequence[tuple[Vector, Vector]],
    ) -> Vector:
        terms, largest = [total], _power_of_two(total)
        for (left, left_size), (right, right_size) in zip(lefts, rights, strict=True):
            terms.append(self._spread(left) * right)
            bound = self._spread(left_size) * right_size
            largest = bound.compare("ogt", largest).choose(bound, largest)
        # If all terms are zero, there is no largest exponent. Any number below the smallest
        # possible product can be used instead.
        least = self.lanes.constant(2.0**-300, "double")
        largest = largest.compare("ogt", least).choose(largest, least)
        units = (self._bits(2 * 1023 + _KEPT) - largest.as_int()).as_float("double")
        exact = self.lanes.constant(0.0, "double")
        for term in terms:
            exact = exact + self.lanes.intrinsic("trunc", term * units)
        kept = (exact.as_int() & ~_LOST).as_float("double")
        summed = _without_lost_denormals(kept * (largest * 2.0**-_KEPT))
        # The sum fits in the mantissa of an f32, but may exceed the exponent range.
        return summed.cast("fptrunc", "float").cast("fpext", "double")

    def _size(self, operand: Vector) -> Vector:
        power = _power_of_two(operand)
        normal = power.compare("oge", 2.0**self.group.least)
        # A product with a zero operand is zero, so it must never be the largest term.
        small = operand.compare("oeq", 0.0).choose(operand.coerce(0.0), 2.0**self.group.least)
        return normal.choose(power, small)

    def _bits(self, exponent: int) -> Vector:
        return self.lanes.constant(exponent << _MANTISSA_BITS, "i64")

    def _spread(self, scalar: Vector) -> Vector:
        return self.lanes.value(self.b.splat(scalar.text, self.lanes.width))

    def _address(self, base: SSAValue, row: SSAValue, column: SSAValue, stride: int) -> SSAValue:
        above = self.b.binary("mul nuw nsw", row, stride)
        linear = self.b.binary("add nuw nsw", above, column)
        return self.b.element("float", base, self.b.cast("zext", linear, "i64"))

    def _load(self, lanes: Lanes, pointer: SSAValue) -> Vector:
        return lanes.value(self.b.load(lanes.type("float"), pointer, 4)).cast("fpext", "double")


def _plus(b: Builder, index: SSAValue, n: int) -> SSAValue:
    return b.binary("add nuw nsw", index, n) if n else index


def _power_of_two(value: Vector) -> Vector:
    """Return the power of two at or below the magnitude; NaN becomes infinity."""
    return (value.as_int() & _EXPONENT).as_float("double")


def _without_lost_denormals(value: Vector) -> Vector:
    """Truncate a number with an f32's mantissa to the range of an f32, denormals included."""
    units = value.lanes.intrinsic("trunc", value * 2.0**149) * 2.0**-149
    return value.abs().compare("olt", 2.0**-126).choose(units, value)
