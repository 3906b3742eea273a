"""Operations on memory: pointers, loads, atomics, tensor descriptors.

In the oracle, a pointer is the index of an element of its buffer. An access outside the buffer is
an error, because it means that the generator made an invalid kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ttools.fuzz.elements import I1, POINTER, Array
from ttools.fuzz.facts import Fact, either
from ttools.fuzz.operations.table import Frame, common_shape, operation, shape_text
from ttools.fuzz.program import Expr, Shape, Type


class UndefinedError(Exception):
    """A kernel has no single correct result, so it cannot be used to test an engine."""


class OutOfBufferError(UndefinedError):
    """A kernel accesses elements outside its buffers."""


@operation("pointer", "{buffer}")
def _pointer(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    return np.array(0, np.int64)


def pointer(buffer: str) -> Expr:
    """Return an expression for the address of a buffer's first element."""
    return Expr("pointer", Type(POINTER, (), buffer), attrs={"buffer": buffer})


@operation("advance", "({0} + {1})")
def _advance(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    return np.asarray(args[0] + args[1].astype(np.int64))


def advance(base: Expr, offset: Expr) -> Expr:
    """Return an expression for a pointer plus an offset in elements."""
    shape = common_shape(base.type, offset.type)
    return Expr("advance", Type(POINTER, shape, base.type.buffer), (base, offset))


def _cells(index: Array, mask: Array | None, buffer: str, frame: Frame) -> tuple[Array, Array]:
    """Return the elements that lanes access, and a mask of the lanes that do."""
    described = frame.buffers[buffer]
    active = np.ones(index.shape, bool) if mask is None else np.broadcast_to(mask, index.shape)
    outside = active & ((index < 0) | (index >= described.size))
    if outside.any():
        raise OutOfBufferError(f"{buffer}[{index[outside].flat[0]}] of {described.size}")
    if buffer in frame.limits:
        active = active & (index < frame.limits[buffer])
    return np.where(active, index + described.margin, 0), active


def _write_load(expr: Expr, args: Sequence[str]) -> str:
    if len(args) == 1:
        return f"tl.load({args[0]})"
    return f"tl.load({args[0]}, mask={args[1]}, other={args[2]})"


@operation("atomic_load", "tl.atomic_load({0}, sem={sem!r}, scope={scope!r})")
@operation("load", _write_load)
def _load(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    buffer = expr.args[0].type.buffer
    mask = args[1] if len(args) > 1 else None
    index = np.broadcast_to(args[0], expr.type.shape)
    cells, active = _cells(index, mask, buffer, frame)
    _refuse_foreign(cells[active], buffer, frame)
    loaded = frame.memory[buffer][cells]
    if mask is not None and (np.broadcast_to(mask, index.shape) & ~active & (args[2] != 0)).any():
        # A lane beyond the end loads `other`, but Triton drops `other` if the mask is true for all
        # lanes.
        raise UndefinedError(f"a load beyond the end of {buffer} gives 0 or `other`")
    if mask is None:
        return np.where(active, loaded, np.zeros((), loaded.dtype)).astype(loaded.dtype)
    other = args[2].astype(loaded.dtype)
    return np.where(active, loaded, other).astype(loaded.dtype)


def load(
    address: Expr,
    element_type: Type,
    fact: Fact,
    mask: Expr | None = None,
    other: Expr | None = None,
) -> Expr:
    """Return a `tl.load` expression; `other` is a number or a tensor of the element's type."""
    if mask is None or other is None:
        return Expr("load", element_type, (address,), fact=fact)
    return Expr("load", element_type, (address, mask, other), fact=either(fact, other.fact))


def atomic_load(address: Expr, element_type: Type, fact: Fact, sem: str, scope: str) -> Expr:
    """Return an unmasked `tl.atomic_load` expression; results of masked lanes are unspecified."""
    return Expr("atomic_load", element_type, (address,), {"sem": sem, "scope": scope}, fact)


@operation("atomic_poll", "tl.atomic_poll({0}, {1})")
def _poll(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    buffer, shape = expr.args[0].type.buffer, expr.type.shape
    cells, _ = _cells(np.broadcast_to(args[0], shape), None, buffer, frame)
    _refuse_foreign(cells, buffer, frame)
    if not _same(frame.memory[buffer][cells], np.broadcast_to(args[1], shape)):
        raise UndefinedError(f"a program waits for a value that is never stored to {buffer}")
    return np.ones(shape, bool)


def atomic_poll(address: Expr, expected: Expr) -> Expr:
    """Return a `tl.atomic_poll` expression for elements that have the expected value already."""
    return Expr("atomic_poll", Type(I1, address.type.shape), (address, expected), fact=Fact(0, 1))


def write_cells(index: Array, value: Array, mask: Array | None, buffer: str, frame: Frame) -> None:
    """Store values; raise an error if lanes or programs store different values to an element."""
    index = np.asarray(index)
    shape = np.broadcast_shapes(index.shape, value.shape, () if mask is None else mask.shape)
    cells, active = _cells(np.broadcast_to(index, shape), mask, buffer, frame)
    memory, owners = frame.memory[buffer], frame.owners[buffer]
    touched, values = cells[active], np.broadcast_to(value, shape)[active]
    others = (owners[touched] >= 0) & (owners[touched] != frame.number)
    if others.any() and not _same(memory[touched][others], values[others]):
        raise UndefinedError(f"programs store different values to one element of {buffer}")
    memory[touched] = values
    owners[touched] = frame.number
    if not _same(memory[touched], values):
        raise UndefinedError(f"lanes store different values to one element of {buffer}")


def _same(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


def _refuse_foreign(cells: Array, buffer: str, frame: Frame) -> None:
    """Raise an error for loads of elements that another program has stored."""
    owners = frame.owners[buffer][cells]
    if ((owners >= 0) & (owners != frame.number)).any():
        raise UndefinedError(f"a program loads what another has stored to {buffer}")


# ---- atomics


def _on_bits(combine: Any) -> Any:
    """Return a function that combines the bits of two scalars of any type."""

    def combined(old: Any, new: Any) -> Any:
        bits = f"u{old.dtype.itemsize}"
        return combine(old.view(bits), new.view(bits)).view(old.dtype)

    return combined


_ATOMICS: dict[str, Any] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": _on_bits(np.bitwise_and),
    "or": _on_bits(np.bitwise_or),
    "xor": _on_bits(np.bitwise_xor),
    "xchg": lambda old, new: new,
}


def _write_atomic(expr: Expr, args: Sequence[str]) -> str:
    mask = f", mask={args[2]}" if len(args) > 2 else ""
    return f"tl.atomic_{expr.attrs['form']}({args[0]}, {args[1]}{mask})"


@operation("atomic", _write_atomic, effect=True)
def _atomic(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    buffer, shape = expr.args[0].type.buffer, expr.type.shape
    mask = args[2] if len(args) > 2 else None
    cells, active = _cells(np.broadcast_to(args[0], shape), mask, buffer, frame)
    memory = frame.memory[buffer]
    values = np.broadcast_to(args[1], shape).astype(memory.dtype)
    old = np.zeros(shape, memory.dtype)
    combine = _ATOMICS[expr.attrs["form"]]
    with np.errstate(all="ignore"):
        for lane in np.ndindex(shape):
            if active[lane]:
                cell = cells[lane]
                old[lane] = memory[cell]
                memory[cell] = combine(memory[cell], values[lane])
    return old


def atomic(form: str, address: Expr, value: Expr, mask: Expr | None) -> Expr:
    """Return an atomic such as `tl.atomic_add`; its result is defined if lanes share no element."""
    args = (address, value) if mask is None else (address, value, mask)
    type_ = Type(value.type.element, address.type.shape)
    fact = Fact() if not value.type.element.is_float else replace(value.fact, exact=False, nan=True)
    return Expr("atomic", type_, args, {"form": form}, fact)


@operation("atomic_cas", "tl.atomic_cas({0}, {1}, {2})", effect=True)
def _cas(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    buffer = expr.args[0].type.buffer
    cells, active = _cells(np.broadcast_to(args[0], expr.type.shape), None, buffer, frame)
    memory = frame.memory[buffer]
    old = memory[cells]
    new = np.where(old == args[1], args[2], old).astype(memory.dtype)
    memory[cells[active]] = new[active]
    return np.where(active, old, np.zeros((), old.dtype)).astype(old.dtype)


def atomic_cas(address: Expr, expected: Expr, value: Expr) -> Expr:
    """Return a `tl.atomic_cas` expression; each element is accessed by one lane only."""
    type_ = Type(value.type.element, address.type.shape)
    return Expr("atomic_cas", type_, (address, expected, value))


# ---- tensor descriptors


def descriptor_text(base: str, shape: Shape, strides: Shape, block: Shape) -> str:
    """Return the Triton source that makes a tensor descriptor."""
    return (
        f"tl.make_tensor_descriptor({base}, shape={shape_text(shape)}, "
        f"strides={shape_text(strides)}, block_shape={shape_text(block)})"
    )


def _write_descriptor_load(expr: Expr, args: Sequence[str]) -> str:
    attrs = expr.attrs
    made = descriptor_text(args[0], attrs["shape"], attrs["strides"], expr.type.shape)
    return f"{made}.load({shape_text(attrs['offsets'])})"


def block_cells(shape: Shape, strides: Shape, offsets: Shape, block: Shape) -> tuple[Array, Array]:
    """Return the offsets of a block's lanes, and a mask of the lanes inside the tensor."""
    positions = [np.arange(n) + start for n, start in zip(block, offsets, strict=True)]
    grid = np.meshgrid(*positions, indexing="ij")
    index = sum(g * stride for g, stride in zip(grid, strides, strict=True))
    inside = np.ones(block, bool)
    for g, extent in zip(grid, shape, strict=True):
        inside &= (g >= 0) & (g < extent)
    return np.asarray(index), inside


@operation("descriptor_load", _write_descriptor_load)
def _descriptor_load(expr: Expr, args: Sequence[Array], frame: Frame) -> Array:
    attrs, buffer = expr.attrs, expr.args[0].type.buffer
    index, inside = block_cells(attrs["shape"], attrs["strides"], attrs["offsets"], expr.type.shape)
    cells, active = _cells(args[0] + index, inside, buffer, frame)
    loaded = frame.memory[buffer][cells]
    return np.where(active, loaded, np.zeros((), loaded.dtype)).astype(loaded.dtype)


def descriptor_load(
    base: Expr, type_: Type, shape: Shape, strides: Shape, offsets: Shape, fact: Fact
) -> Expr:
    """Return a load of a block of a tensor; lanes outside the tensor are zero."""
    attrs = {"shape": shape, "strides": strides, "offsets": offsets}
    zero = Fact(0, 0, fact.grain)
    return Expr("descriptor_load", type_, (base,), attrs, either(fact, zero))
