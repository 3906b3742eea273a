"""Shadow memory that the kernel itself reads and writes, by parameter or by address.

Each byte of a tracked storage has one shadow byte, which is 0 if the byte is defined. A load of
`f32` at `start + 8` also loads the 32-bit word at `shadow + 8`; the lane is undefined if the word
is not 0. A store writes 0 to the shadow, or -1 in lanes that store undefined values. Addresses
outside the storages have no shadow and count as defined; `memcheck` reports them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ttools.interpreter.emit.instruments.probe import SHADOW
from ttools.interpreter.llvm.builder import byte_size
from ttools.ir import (
    IntegerType,
    Operation,
    PointerType,
    TensorType,
    Type,
    Value,
    element_type,
)
from ttools.ir.rewriting import (
    BOOLEAN,
    Builder,
    add_parameter,
    with_element,
)
from ttools.sanitizer.passes.lanes import within

_BYTE = PointerType(IntegerType(8))
_LONG = IntegerType(64)
#: Hidden parameters for each tracked parameter, in this order.
_HIDDEN = ("shadow", "start", "size")
#: Hidden parameters for storages that are looked up by address.
_BY_ADDRESS = ("table", "count")
#: Words per row of the table: address and size of the storage in bytes, and the distance of its
#: shadow from the table in bytes.
ROW = 3


def hidden_parameters(
    tracked: Iterable[int], by_address: bool = False
) -> tuple[tuple[int, str], ...]:
    """Return the hidden parameters that are appended to a kernel's own parameters.

    Returns:
        The hidden parameters in order, each as the index of the tracked parameter to which it
        belongs and its role. The role is `shadow`, the address of the shadow of the storage's first
        byte, aligned to 8 bytes; `start`, the address of the storage; or `size`, its size in bytes.
        For storages found by address, the index is -1 and the roles are `table`, the address of a
        table of `ROW` words per storage, and `count`, the number of storages.
    """
    own = tuple((index, name) for index in sorted(tracked) for name in _HIDDEN)
    return own + tuple((-1, name) for name in _BY_ADDRESS if by_address)


class Shadows(Protocol):
    """The shadows of some memory."""

    def load(self, b: Builder, address: Value, mask: Value | None) -> Value:
        """Return which lanes of a load from `address` have an undefined byte."""

    def store(
        self, b: Builder, address: Value, mask: Value | None, undefined: Value | None
    ) -> None:
        """Mark the bytes that a store writes as defined, or as undefined in the given lanes."""

    def holds(self, b: Builder, address: Value) -> Value:
        """Return which lanes of `address` have shadows."""


@dataclass(frozen=True)
class ShadowMemory:
    """The shadow of one storage, given by the hidden parameters of a tracked parameter."""

    shadow: Value
    start: Value
    size: Value

    def load(self, b: Builder, address: Value, mask: Value | None) -> Value:
        cells, exist = self.cells(b, address)
        inside = within(b, exist, mask)
        data = _pointee(cells.type)
        zero = b.constant(data, 0)
        bits = b.value("tt.load", [cells, inside, zero], data, {SHADOW: True})
        return b.compare("ne", bits, zero)

    def store(
        self, b: Builder, address: Value, mask: Value | None, undefined: Value | None
    ) -> None:
        cells, exist = self.cells(b, address)
        inside = within(b, exist, mask)
        data = _pointee(cells.type)
        bits = b.constant(data, 0)
        if undefined is not None:
            bits = b.select(undefined, b.constant(data, -1), bits)
        b.operation("tt.store", [cells, bits, inside], attributes={SHADOW: True})

    def holds(self, b: Builder, address: Value) -> Value:
        return self.cells(b, address)[1]

    def cells(self, b: Builder, address: Value, cell: Type | None = None) -> tuple[Value, Value]:
        """Return pointers to the shadows of the elements at `address`, and which shadows exist.

        Args:
            cell: Type of the shadow of an element; by default an integer of the element's size.
        """
        size = byte_size(_pointee(element_type(address.type)))
        offset = b.cast(address, _LONG, "tt.ptr_to_int")
        offset = b.binary("subi", offset, self.start)
        last = b.binary("subi", self.size, b.constant(_LONG, size))
        inside = b.compare("sge", offset, b.constant(offset.type, 0))
        inside = b.binary("andi", inside, b.compare("sle", offset, last))
        if cell is not None:
            offset = b.binary("muli", offset, b.constant(_LONG, byte_size(cell) // size))
        base = b.spread(self.shadow, address.type)
        cells = b.value("tt.addptr", [base, offset], base.type)
        cell = IntegerType(8 * size) if cell is None else cell
        if cell != _BYTE.pointee:
            cells = b.cast(cells, PointerType(cell), "tt.bitcast")
        return cells, inside


@dataclass(frozen=True)
class ShadowTable:
    """The shadows of storages that are found by address, given by two hidden parameters."""

    table: Value
    count: Value

    def load(self, b: Builder, address: Value, mask: Value | None) -> Value:
        return self._any(b, address, lambda inner, memory: memory.load(inner, address, mask))

    def store(
        self, b: Builder, address: Value, mask: Value | None, undefined: Value | None
    ) -> None:
        def visit(inner: Builder, memory: ShadowMemory, carried: Sequence[Value]) -> list[Value]:
            memory.store(inner, address, mask, undefined)
            return []

        self._each(b, address, visit)

    def holds(self, b: Builder, address: Value) -> Value:
        return self._any(b, address, lambda inner, memory: memory.holds(inner, address))

    def _any(
        self, b: Builder, address: Value, find: Callable[[Builder, ShadowMemory], Value]
    ) -> Value:
        """Return the lanes for which `find` is true in any shadow memory."""

        def visit(inner: Builder, memory: ShadowMemory, carried: Sequence[Value]) -> list[Value]:
            return [inner.binary("ori", carried[0], find(inner, memory))]

        nothing = b.constant(with_element(address.type, BOOLEAN), 0)
        return self._each(b, address, visit, nothing).result

    def _each(self, b: Builder, address: Value, visit: _Visit, *carried: Value) -> Operation:
        """Build a loop over those rows of the table whose storages some lane may access."""
        first, end = _ends(b, address)
        types = [value.type for value in carried]

        def row(inner: Builder, arguments: Sequence[Value]) -> list[Value]:
            number, *values = arguments
            memory = self._row(inner, number)
            behind = inner.binary("addi", memory.start, memory.size)
            near = inner.binary(
                "andi",
                inner.compare("slt", memory.start, end),
                inner.compare("slt", first, behind),
            )
            arms = [
                inner.region([], lambda arm, _: visit(arm, memory, values)),
                inner.region([], lambda arm, _: values),
            ]
            return inner.operation("scf.if", [near], types, regions=arms).results

        bounds = [b.constant(_LONG, 0), self.count, b.constant(_LONG, 1)]
        body = b.region([_LONG, *types], row)
        return b.operation("scf.for", [*bounds, *carried], types, regions=[body])

    def _row(self, b: Builder, row: Value) -> ShadowMemory:
        first = b.binary("muli", row, b.constant(_LONG, ROW))
        cells = [b.binary("addi", first, b.constant(_LONG, n)) for n in range(ROW)]
        addresses = [b.value("tt.addptr", [self.table, cell], self.table.type) for cell in cells]
        start, size, behind = (b.value("tt.load", [p], _LONG, {SHADOW: True}) for p in addresses)
        # Because the address is an offset from the table, alias analysis can see that the shadow is
        # not part of the program's memory.
        base = b.cast(self.table, _BYTE, "tt.bitcast")
        return ShadowMemory(b.value("tt.addptr", [base, behind], _BYTE), start, size)


#: Builds the loop body for one storage: maps the carried values to those of the next iteration.
_Visit: TypeAlias = "Callable[[Builder, ShadowMemory, Sequence[Value]], list[Value]]"


def _ends(b: Builder, address: Value) -> tuple[Value, Value]:
    """Return the lowest address, and the end of the element at the highest address."""
    size = byte_size(_pointee(element_type(address.type)))
    number = b.cast(address, _LONG, "tt.ptr_to_int")
    low, high = number, number
    if isinstance(number.type, TensorType):
        if len(number.type.shape) > 1:
            flat = TensorType((number.type.numel,), _LONG)
            number = b.value("tt.reshape", [number], flat)
        low, high = (b.combine("tt.reduce", number, 0, name) for name in ("minsi", "maxsi"))
    return low, b.binary("addi", high, b.constant(_LONG, size))


def add_hidden_parameters(function: Operation, tracked: Iterable[int]) -> dict[int, ShadowMemory]:
    """Append the hidden parameters of tracked parameters to a kernel."""
    return {
        index: ShadowMemory(
            add_parameter(function, _BYTE, {"tt.divisibility": 8}),
            add_parameter(function, _LONG, {"tt.divisibility": 8}),
            add_parameter(function, _LONG),
        )
        for index in sorted(tracked)
    }


def add_table(function: Operation) -> ShadowTable:
    """Append the hidden parameters for storages found by address to a kernel."""
    table = add_parameter(function, PointerType(_LONG), {"tt.divisibility": 8})
    return ShadowTable(table, add_parameter(function, _LONG))


def _pointee(type: Type) -> Type:
    """Return the type of the value that is loaded through pointers of `type`."""
    pointer = element_type(type)
    assert isinstance(pointer, PointerType)
    return with_element(type, pointer.pointee)
