"""Tensor descriptors and block pointers, which describe blocks of memory by shape and strides.

Their operations are translated to loads, stores and atomics with a mask, which are checked and
executed like all other accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from triton import language as tl

from ttools.interpreter.eager.elements import Handle, element
from ttools.interpreter.eager.groups import GroupError, any_grouped
from ttools.interpreter.eager.mlir import ValueType, language_type
from ttools.interpreter.eager.session import current


@dataclass(frozen=True, eq=False)
class Descriptor:
    """A tensor descriptor.

    Attributes:
        base: Pointer to the first element of the tensor.
        shape: Number of elements along each dimension.
        strides: Distance between neighbours along each dimension, in elements.
        block: Shape of a block.
        signed: True if integer elements are signed.
        pads_with_nan: True if elements outside the tensor read as NaN, False if they read as 0.
    """

    base: Handle
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    signed: bool
    pads_with_nan: bool

    @property
    def element(self) -> Any:
        """The type of an element in Triton's language, such as `tl.float32`."""
        pointee = self.base.element.pointee
        assert pointee is not None
        type = language_type(ValueType(pointee, ()))
        if self.signed or not pointee.is_integer:
            return type
        return getattr(tl, f"u{type.name}", type)

    def access(
        self, rows: Sequence[Any], checked: Collection[int] | None = None
    ) -> tuple[Any, Any]:
        """Return the pointers and the mask of a block.

        Args:
            rows: Indices along each dimension, in shapes that broadcast to that of the block.
            checked: Dimensions along which the mask excludes indices outside the tensor; all by
                default.
        """
        indices = np.broadcast_arrays(*rows)
        offsets = sum(i * stride for i, stride in zip(indices, self.strides, strict=True))
        inside = np.ones(indices[0].shape, np.bool_)
        for axis, (index, extent) in enumerate(zip(indices, self.shape, strict=True)):
            if checked is None or axis in checked:
                inside &= (index >= 0) & (index < extent)
        assert self.base.element.pointee is not None
        addresses = self.base.data + np.asarray(offsets) * self.base.element.pointee.size
        shape: list[int] = list(inside.shape)
        pointer = tl.tensor(
            Handle(addresses, self.base.element, self.base.origin),
            tl.block_type(tl.pointer_type(self.element), shape),
        )
        mask = tl.tensor(Handle(inside, element("i1")), tl.block_type(tl.int1, shape))
        return pointer, mask

    def block_at(
        self, offsets: Sequence[Handle], checked: Collection[int] | None = None
    ) -> tuple[Any, Any]:
        """Return the pointers and the mask of the block that starts at the given indices."""
        _refuse_grouped(offsets)
        rows = []
        for axis, (offset, extent) in enumerate(zip(offsets, self.block, strict=True)):
            shape = [1] * len(self.block)
            shape[axis] = extent
            rows.append((int(offset.data) + np.arange(extent, dtype=np.int64)).reshape(shape))
        return self.access(rows, checked)

    def rows_at(self, rows: Handle, column: Handle) -> tuple[Any, Any]:
        """Return the pointers and the mask of a block that consists of the given rows."""
        _refuse_grouped((rows, column))
        columns = int(column.data) + np.arange(self.block[-1], dtype=np.int64)
        return self.access([rows.data.astype(np.int64)[:, None], columns[None, :]])


def _make(
    base: Handle,
    shape: Sequence[Handle],
    strides: Sequence[Handle],
    block: Sequence[int],
    signed: bool,
    padding: Any = None,
    *_: Any,
) -> Descriptor:
    _refuse_grouped((base, *shape, *strides))
    return Descriptor(
        base,
        tuple(int(n.data) for n in shape),
        tuple(int(n.data) for n in strides),
        tuple(int(n) for n in block),
        bool(signed),
        "NAN" in str(padding),
    )


def _refuse_grouped(values: Sequence[Handle]) -> None:
    """Refuse blocks that differ between the programs of a group.

    Raises:
        GroupError: A value differs between the programs of a group.
    """
    if any_grouped(values):
        raise GroupError(
            "a block of a tensor descriptor can be accessed by only one program at a time"
        )


def _read(descriptor: Descriptor, pointer: Any, mask: Any) -> Any:
    other: float = float("nan") if descriptor.pads_with_nan else 0
    if descriptor.element.is_floating():
        other = float(other)
    return tl.load(pointer, mask=mask, other=other, _semantic=current().semantic).handle


def _load(descriptor: Descriptor, offsets: Sequence[Handle], *_: Any) -> Any:
    return _read(descriptor, *descriptor.block_at(offsets))


def _gather(descriptor: Descriptor, rows: Handle, column: Handle, *_: Any) -> Any:
    return _read(descriptor, *descriptor.rows_at(rows, column))


def _value(descriptor: Descriptor, value: Handle) -> Any:
    return tl.tensor(value, tl.block_type(descriptor.element, list(value.data.shape)))


def _write(descriptor: Descriptor, value: Handle, pointer: Any, mask: Any) -> None:
    tl.store(pointer, _value(descriptor, value), mask=mask, _semantic=current().semantic)


def _store(descriptor: Descriptor, value: Handle, offsets: Sequence[Handle], *_: Any) -> None:
    _write(descriptor, value, *descriptor.block_at(offsets))


def _scatter(descriptor: Descriptor, value: Handle, rows: Handle, column: Handle) -> None:
    _write(descriptor, value, *descriptor.rows_at(rows, column))


def _reduce(kind: Any, descriptor: Descriptor, value: Handle, offsets: Sequence[Handle]) -> None:
    name = str(kind).rpartition(".")[2].lower()
    atomic = getattr(tl, f"atomic_{name}")
    pointer, mask = descriptor.block_at(offsets)
    atomic(
        pointer,
        _value(descriptor, value),
        mask=mask,
        sem="relaxed",
        _semantic=current().semantic,
    )


# ---- block pointers, which Triton supports up to version 3.7


@dataclass(frozen=True, eq=False)
class BlockPointer:
    """A block of a tensor that can be moved.

    Attributes:
        offsets: Indices of its first element.
    """

    tensor: Descriptor
    offsets: tuple[Handle, ...]


def _make_block_pointer(
    base: Handle,
    shape: Sequence[Handle],
    strides: Sequence[Handle],
    offsets: Sequence[Handle],
    block: Sequence[int],
    order: Sequence[int],
) -> BlockPointer:
    return BlockPointer(_make(base, shape, strides, block, True), tuple(offsets))


def _advance(pointer: BlockPointer, offsets: Sequence[Handle]) -> BlockPointer:
    moved = [a.with_data(a.data + b.data) for a, b in zip(pointer.offsets, offsets, strict=True)]
    return replace(pointer, offsets=tuple(moved))


def _load_block(pointer: BlockPointer, checked: Sequence[int], padding: Any = None, *_: Any) -> Any:
    tensor = replace(pointer.tensor, pads_with_nan="NAN" in str(padding))
    return _read(tensor, *tensor.block_at(pointer.offsets, checked))


def _store_block(pointer: BlockPointer, value: Handle, checked: Sequence[int], *_: Any) -> None:
    _write(pointer.tensor, value, *pointer.tensor.block_at(pointer.offsets, checked))


#: The builder methods for descriptors and block pointers.
METHODS: dict[str, Callable[..., Any]] = {
    "create_make_tensor_descriptor": _make,
    "create_descriptor_load": _load,
    "create_descriptor_store": _store,
    "create_descriptor_reduce": _reduce,
    "create_descriptor_gather": _gather,
    "create_descriptor_scatter": _scatter,
    "create_make_block_ptr": _make_block_pointer,
    "create_advance": _advance,
    "create_tensor_pointer_load": _load_block,
    "create_tensor_pointer_store": _store_block,
}
