"""The intermediate representation (IR) of kernels: TTIR (MLIR's Triton dialect) as plain data.

As in MLIR's generic form, every operation has a name, operands, results, attributes, regions and
successors, so that the parser needs no class per operation. The declaration of an operation (see
`dialects`) describes what the operation does: passes query its traits and look up operands by name.
Attribute names are those of the ODS definitions (`axis`, `predicate`, `value`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from ttools.core.location import SourceLocation
from ttools.ir.dialects import OPERATIONS, UNKNOWN
from ttools.ir.dialects.traits import Trait


@dataclass(frozen=True, slots=True)
class IntegerType:
    """A signless integer of `width` bits (`i1`, `i8` … `i64`); `index` is an `i64`."""

    width: int

    def __str__(self) -> str:
        return f"i{self.width}"


@dataclass(frozen=True, slots=True)
class FloatType:
    """A float type with its MLIR name: `f16`, `bf16`, `f32`, `f64`, `f8E4M3FN`, `f8E5M2`, …."""

    name: str

    @property
    def width(self) -> int:
        return 16 if self.name == "bf16" else int(self.name[1:].split("E")[0])

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PointerType:
    """The type `!tt.ptr<pointee>`; a pointer to a tensor is a block pointer."""

    pointee: Type
    address_space: int = 1

    def __str__(self) -> str:
        return f"!tt.ptr<{self.pointee}>"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor type with static shape, such as `tensor<4x8xf32>`; elements may be pointers."""

    shape: tuple[int, ...]
    element: Type

    @property
    def numel(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorDescType:
    """The type `!tt.tensordesc<block>`: a descriptor for blocks of this shape and element."""

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
    """Return the element type of a tensor type; return any other type unchanged."""
    return type.element if isinstance(type, TensorType) else type


def shape_of(type: Type) -> tuple[int, ...]:
    """Return the shape of a tensor type, or `()` for any other type."""
    return type.shape if isinstance(type, TensorType) else ()


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of a constant: raw bit patterns of its element type, row-major.

    `bits` has one entry for a scalar or a splat, otherwise one entry per element. The patterns are
    unsigned; `ttools.ir.as_signed` converts them to signed integers.
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


class Value:
    """An SSA value: a result of an operation or an argument of a block.

    Attributes:
        type: The type; `define` changes it.
        owner: The operation or the block; `define` changes it.
        defining_op: The owner, if it is an operation.
        is_tensor: True if the type is a tensor type.
    """

    # Passes read these attributes more often than anything else, so they are stored rather than
    # computed.
    __slots__ = ("defining_op", "index", "is_tensor", "location", "name", "owner", "type", "uses")

    def __init__(
        self,
        type: Type,
        name: str,
        owner: Operation | Block,
        index: int,
        location: SourceLocation | None = None,
        uses: list[tuple[Operation, int]] | None = None,
    ) -> None:
        self.name = name
        self.uses: list[tuple[Operation, int]] = [] if uses is None else uses
        self.define(type, owner, index, location)

    def define(
        self, type: Type, owner: Operation | Block, index: int, location: SourceLocation | None
    ) -> None:
        """Set the definition of the value, which the parser may read after the first use."""
        self.type, self.owner, self.index, self.location = type, owner, index, location
        self.is_tensor = isinstance(type, TensorType)
        self.defining_op: Operation | None = owner if isinstance(owner, Operation) else None

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


def operands_first(value: Value, known: Container[Value]) -> Iterator[Value]:
    """Yield `value` and the values it is computed from; operands come before their users.

    Args:
        known: Values that are skipped. The caller must add each value that this function yields
            before it requests the next one.
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


class Operation:
    """One operation; the last `operands` of a branch are the values forwarded to `successors`.

    Attributes:
        name: The name, such as `tt.load`; `rename` changes it.
        declaration: The declaration of operations with this name.
        traits: The traits of the declaration; use `has` to test for one of several.
    """

    __slots__ = (
        "attributes",
        "declaration",
        "location",
        "name",
        "operands",
        "parent",
        "regions",
        "results",
        "successors",
        "traits",
    )

    def __init__(
        self,
        name: str,
        operands: list[Value] | None = None,
        results: list[Value] | None = None,
        attributes: dict[str, Attribute] | None = None,
        regions: list[Region] | None = None,
        successors: list[tuple[Block, list[Value]]] | None = None,
        location: SourceLocation | None = None,
        parent: Block | None = None,
    ) -> None:
        self.operands: list[Value] = [] if operands is None else operands
        self.results: list[Value] = [] if results is None else results
        self.attributes: dict[str, Attribute] = {} if attributes is None else attributes
        self.regions: list[Region] = [] if regions is None else regions
        self.successors: list[tuple[Block, list[Value]]] = [] if successors is None else successors
        self.location, self.parent = location, parent
        self.rename(name)

    def rename(self, name: str) -> None:
        """Change the name of the operation, and its declaration and traits accordingly."""
        self.name = name
        # Every pass reads the traits of every operation, so they are stored here instead of being
        # looked up by name.
        self.declaration = OPERATIONS.get(name, UNKNOWN)
        self.traits = self.declaration.traits

    @property
    def result(self) -> Value:
        (value,) = self.results
        return value

    def has(self, *traits: Trait) -> bool:
        """Return whether the operation is declared with any of the traits."""
        return not self.traits.isdisjoint(traits)

    def operand(self, name: str) -> Value | None:
        """Return the operand with a declared name.

        Returns:
            The first operand if the name stands for several. None if the operand is optional and
            absent, or if the declaration has no operand of this name.
        """
        names = self.declaration.operand_names
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
        """The operand of a memory access that holds the pointers or the tensor descriptor."""
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
        """The value of an operation such as `arith.constant`; None for other operations."""
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
        """The axis along which the operation reduces, scans or gathers, or which it inserts."""
        axis = self.attributes["axis"]
        assert isinstance(axis, int)
        return axis

    @property
    def parent_op(self) -> Operation | None:
        """The operation whose region directly contains this operation; None for a function."""
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
    """A basic block: its arguments and its operations, the last of which is the terminator."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    parent: Region | None = None

    @property
    def terminator(self) -> Operation:
        return self.operations[-1]

    @property
    def parent_op(self) -> Operation | None:
        """The operation whose region contains this block."""
        return None if self.parent is None else self.parent.parent


@dataclass(eq=False, slots=True)
class Region:
    """A region of an operation: a list of blocks, the first of which is the entry block."""

    blocks: list[Block] = field(default_factory=list)
    parent: Operation | None = None

    @property
    def entry(self) -> Block:
        return self.blocks[0]


@dataclass(eq=False, slots=True)
class Module:
    """A parsed module: `functions` maps symbol names to `tt.func` operations.

    A `tt.func` has the attributes `sym_name`, `visibility` ("public" | "private") and `arg_attrs`
    (a tuple of dicts, one per argument), and one region whose entry block holds the arguments.

    `first_column` is the number that the text of the module gives to the first column of a line: 0
    in Triton 3.6 and 3.7, otherwise 1. Locations in the IR always count columns from 1.
    """

    functions: dict[str, Operation]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    first_column: int = 1

    @property
    def kernel(self) -> Operation:
        """The public function, which a launch executes."""
        return next(f for f in self.functions.values() if f.attributes["visibility"] == "public")

    def walk(self) -> Iterator[Operation]:
        """Yield the operations of all functions, in the order of the text."""
        for function in self.functions.values():
            yield from function.walk()

    def files(self) -> set[str]:
        """Return the source files that occur in the locations of operations and their callers."""
        locations = [op.location for op in self.walk() if op.location is not None]
        return {place.file for location in locations for place in (location, *location.callers)}
