"""Shadow memory of tracked parameters, read and written by the kernel itself.

One byte for each byte of a storage, 0 where it is defined. Owns the hidden parameters and the
accesses. An address outside of the storage has no shadow and counts as defined: it is another
check's business.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ttools.interpreter.emit.llvm import byte_size
from ttools.interpreter.emit.probe import SHADOW
from ttools.interpreter.ir import (
    IntegerType,
    Operation,
    PointerType,
    Type,
    Value,
    element_type,
)
from ttools.interpreter.rewriting import Builder, add_parameter, with_element

_BYTE = PointerType(IntegerType(8))
_LONG = IntegerType(64)
#: What is passed for each tracked parameter, in this order.
_HIDDEN = ("shadow", "start", "size")


def hidden_parameters(tracked: Iterable[int]) -> tuple[tuple[int, str], ...]:
    """The parameters that a kernel gets behind its own.

    Returns:
        For each in order, the tracked parameter it belongs to, and what it is: `shadow`, the
        address of the shadow of the storage's first byte, aligned to 8 bytes; `start`, the address
        of the storage; `size`, its bytes.
    """
    return tuple((index, name) for index in sorted(tracked) for name in _HIDDEN)


@dataclass(frozen=True)
class ShadowMemory:
    """The hidden parameters of one tracked parameter."""

    shadow: Value
    start: Value
    size: Value


def add_hidden_parameters(function: Operation, tracked: Iterable[int]) -> dict[int, ShadowMemory]:
    """Appends the hidden parameters to a kernel."""
    return {
        index: ShadowMemory(
            add_parameter(function, _BYTE, {"tt.divisibility": 8}),
            add_parameter(function, _LONG, {"tt.divisibility": 8}),
            add_parameter(function, _LONG),
        )
        for index in sorted(tracked)
    }


def load_shadow(b: Builder, memory: ShadowMemory, address: Value, mask: Value | None) -> Value:
    """Which lanes of a load from `address` have a byte that is not defined."""
    cells, inside = _cells(b, memory, address)
    if mask is not None:
        inside = b.binary("andi", inside, mask)
    data = _pointee(cells.type)
    zero = b.constant(data, 0)
    bits = b.value("tt.load", [cells, inside, zero], data, {SHADOW: True})
    return b.compare("ne", bits, zero)


def store_shadow(
    b: Builder, memory: ShadowMemory, address: Value, mask: Value | None, undefined: Value | None
) -> None:
    """Marks what a store to `address` writes, as undefined in the lanes given and defined else."""
    cells, inside = _cells(b, memory, address)
    if mask is not None:
        inside = b.binary("andi", inside, mask)
    data = _pointee(cells.type)
    bits = b.constant(data, 0)
    if undefined is not None:
        bits = b.select(undefined, b.constant(data, -1), bits)
    b.operation("tt.store", [cells, bits, inside], attributes={SHADOW: True})


def _pointee(type: Type) -> Type:
    """The type of what is loaded through pointers of `type`."""
    pointer = element_type(type)
    assert isinstance(pointer, PointerType)
    return with_element(type, pointer.pointee)


def _cells(b: Builder, memory: ShadowMemory, address: Value) -> tuple[Value, Value]:
    """Pointers to the shadows of the elements at `address`, and which of them exist."""
    pointer = element_type(address.type)
    assert isinstance(pointer, PointerType)
    size = byte_size(pointer.pointee)
    offset = b.cast(address, _LONG, "tt.ptr_to_int")
    offset = b.binary("subi", offset, memory.start)
    last = b.binary("subi", memory.size, b.constant(_LONG, size))
    inside = b.compare("sge", offset, b.constant(offset.type, 0))
    inside = b.binary("andi", inside, b.compare("sle", offset, last))
    base = b.spread(memory.shadow, address.type)
    cells = b.value("tt.addptr", [base, offset], base.type)
    if size > 1:
        cells = b.cast(cells, PointerType(IntegerType(8 * size)), "tt.bitcast")
    return cells, inside
