"""The interpreter's IR: a plain-data mirror of TTIR (MLIR's Triton dialect).

Operations are generic: a name, operands, results, attributes, regions and successors, exactly as
MLIR has them, so that the parser needs no class per operation. What an operation does is in its
declaration (see `dialects`): passes ask for traits and for operands by name. Attribute names are
those of the ODS definitions (`axis`, `predicate`, `value`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from ttools.core.location import SourceLocation
from ttools.ir.dialects import OPERATIONS, UNKNOWN, declared
from ttools.ir.dialects.traits import Trait


@dataclass(frozen=True, slots=True)
class IntegerType:
    """A signless integer of `width` bits (`i1`, `i8` … `i64`); `index` is an `i64`."""

    width: int

    def __str__(self) -> str:
        return f"i{self.width}"


@dataclass(frozen=True, slots=True)
class FloatType:
    """A float named as MLIR prints it: `f16 bf16 f32 f64 f8E4M3FN f8E5M2 f8E4M3B11FNUZ …`."""

    name: str

    @property
    def width(self) -> int:
        return 16 if self.name == "bf16" else int(self.name[1:].split("E")[0])

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PointerType:
    """`!tt.ptr<pointee>`; a pointer to a tensor is a block pointer."""

    pointee: Type
    address_space: int = 1

    def __str__(self) -> str:
        return f"!tt.ptr<{self.pointee}>"


@dataclass(frozen=True, slots=True)
class TensorType:
    """`tensor<4x8xf32>`: row-major, static shape, elements are scalars or pointers."""

    shape: tuple[int, ...]
    element: Type

    @property
    def numel(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorDescType:
    """`!tt.tensordesc<…>` of a block."""

    block: TensorType

    def __str__(self) -> str:
        return f"!tt.tensordesc<{self.block}>"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """Any other type, kept as text (`none`, `!ttg.async.token`)."""

    text: str

    def __str__(self) -> str:
        return self.text


Type: TypeAlias = IntegerType | FloatType | PointerType | TensorType | TensorDescType | OpaqueType


def element_type(type: Type) -> Type:
    """Return the element of a tensor type, any other type itself."""
    return type.element if isinstance(type, TensorType) else type


def shape_of(type: Type) -> tuple[int, ...]:
    """Return the shape of a tensor type, `()` for scalars."""
    return type.shape if isinstance(type, TensorType) else ()


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of a constant: raw bit patterns of its element type, row-major.

    `bits` has one entry for a scalar or a splat, else one per element.  Patterns are unsigned;
    use `ttools.ir.as_signed` for integers.
    """

    type: Type
    bits: tuple[int, ...]

    @property
    def is_splat(self) -> bool:
        return len(self.bits) == 1


def as_signed(bits: int, width: int) -> int:
    """Return the two's complement value of a bit pattern; an `i1` counts as 0 or 1."""
    return bits - (1 << width) if width > 1 and bits >> (width - 1) else bits


Attribute: TypeAlias = (
    int
    | float
    | bool
    | str
    | Constant
    | Type
    | tuple["Attribute", ...]
    | dict[str, "Attribute"]
    | None
)


@dataclass(eq=False, slots=True)
class Value:
    """An SSA value: a result of an operation or an argument of a block."""

    type: Type
    name: str
    owner: Operation | Block
    index: int
    location: SourceLocation | None = None
    uses: list[tuple[Operation, int]] = field(default_factory=list)

    @property
    def defining_op(self) -> Operation | None:
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


def operands_first(value: Value, known: Container[Value]) -> Iterator[Value]:
    """Return the values that a value is computed from and that are not in `known`, operands first.

    Args:
        known: Values that were visited; the caller adds each value before requesting the next one.
    """
    pending = [value]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        op = current.defining_op
        missing = [v for v in op.operands if v not in known] if op is not None else []
        if missing:
            pending += missing
        else:
            pending.pop()
            yield current


@dataclass(eq=False, slots=True)
class Operation:
    """One operation; `operands` includes, last, those forwarded to `successors` by branches."""

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    successors: list[tuple[Block, list[Value]]] = field(default_factory=list)
    location: SourceLocation | None = None
    parent: Block | None = None

    @property
    def result(self) -> Value:
        (value,) = self.results
        return value

    @property
    def traits(self) -> frozenset[Trait]:
        """The traits of the operation's declaration; use it to test several traits in a row."""
        return OPERATIONS.get(self.name, UNKNOWN).traits

    def has(self, *traits: Trait) -> bool:
        """Return whether the operation is declared with any of the traits."""
        # Every pass calls this method for every operation, so it avoids further calls.
        return not OPERATIONS.get(self.name, UNKNOWN).traits.isdisjoint(traits)

    def operand(self, name: str) -> Value | None:
        """Return the operand with a declared name, the first one if the name covers several.

        Returns:
            None if the operand is left out, or if the declaration has no such operand.
        """
        names = declared(self.name).operand_names
        if name not in names:
            return None
        index = names.index(name)
        sizes = self.attributes.get("operandSegmentSizes")
        if isinstance(sizes, tuple) and len(sizes) == len(names):
            if not sizes[index]:
                return None
            index = sum(size for size in sizes[:index] if isinstance(size, int))
        return self.operands[index] if index < len(self.operands) else None

    @property
    def address(self) -> Value:
        """The pointers, or the descriptor, of a memory access."""
        value = self.operand("ptr") or self.operand("desc")
        assert value is not None, f"{self.name} accesses no memory"
        return value

    @property
    def mask(self) -> Value | None:
        """The mask of the active lanes; None if all lanes are active."""
        return self.operand("mask")

    @property
    def loop_bounds(self) -> tuple[Value, Value, Value] | None:
        """Lower bound, upper bound and step of a counted loop; None for other operations."""
        bounds = self.operand("lower"), self.operand("upper"), self.operand("step")
        return bounds if None not in bounds else None  # type: ignore[return-value]

    @property
    def operand_bits(self) -> int:
        """Width of the first operand's elements in bits; 0 if they are not integers."""
        element = element_type(self.operands[0].type) if self.operands else None
        return element.width if isinstance(element, IntegerType) else 0

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the first result; `()` for a scalar."""
        return shape_of(self.results[0].type)

    @property
    def constant(self) -> Constant | None:
        """The value that it computes, if that is written in the operation."""
        data = self.attributes.get("value")
        return data if isinstance(data, Constant) else None

    @property
    def constant_integers(self) -> Sequence[int] | None:
        """Elements of an integer constant (one if all are equal); None for other operations."""
        data = self.constant
        element = element_type(data.type) if data is not None else None
        if data is None or not isinstance(element, IntegerType):
            return None
        return [as_signed(bits, element.width) for bits in data.bits]

    @property
    def axis(self) -> int:
        """The dimension along which it reduces, scans, gathers, or widens its operand."""
        axis = self.attributes["axis"]
        assert isinstance(axis, int)
        return axis

    @property
    def parent_op(self) -> Operation | None:
        """The operation that contains it, in one of its regions."""
        return None if self.parent is None else self.parent.parent_op

    def walk(self) -> Iterator[Operation]:
        """Yield this operation and all nested ones, in program order."""
        yield self
        for region in self.regions:
            for block in region.blocks:
                for op in block.operations:
                    if op.regions:
                        yield from op.walk()
                    else:
                        yield op

    def __repr__(self) -> str:
        results = ", ".join(f"%{v.name}" for v in self.results)
        operands = ", ".join(f"%{v.name}" for v in self.operands)
        return f"{results}{' = ' if results else ''}{self.name}({operands})"


@dataclass(eq=False, slots=True)
class Block:
    """Operations in order, the last of which is the terminator, and the block's arguments."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    parent: Region | None = None

    @property
    def terminator(self) -> Operation:
        return self.operations[-1]

    @property
    def parent_op(self) -> Operation | None:
        """The operation that contains it, in one of its regions."""
        return None if self.parent is None else self.parent.parent


@dataclass(eq=False, slots=True)
class Region:
    """Blocks of an operation; the first is the entry."""

    blocks: list[Block] = field(default_factory=list)
    parent: Operation | None = None

    @property
    def entry(self) -> Block:
        return self.blocks[0]


@dataclass(eq=False, slots=True)
class Module:
    """A parsed module: `functions` maps symbol names to `tt.func` operations.

    A `tt.func` has attributes `sym_name`, `visibility` ("public" | "private"), `arg_attrs` (a
    tuple of dicts, one per argument), one region whose entry block holds the arguments.

    `first_column` is what its text called the first column of a line: 0, as Triton 3.6 and 3.7
    do, or 1. Locations here are from 1.
    """

    functions: dict[str, Operation]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    first_column: int = 1

    @property
    def kernel(self) -> Operation:
        """The public function, the launch's entry."""
        return next(f for f in self.functions.values() if f.attributes["visibility"] == "public")

    def walk(self) -> Iterator[Operation]:
        """Yield the operations of all functions, in the order of the text."""
        for function in self.functions.values():
            yield from function.walk()

    def files(self) -> set[str]:
        """Return the files that the locations of operations name."""
        locations = [op.location for op in self.walk() if op.location is not None]
        return {place.file for location in locations for place in (location, *location.callers)}
