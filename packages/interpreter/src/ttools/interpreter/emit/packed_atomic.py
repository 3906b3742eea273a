"""Atomics on adjacent elements: one compare-and-swap changes sixteen bytes.

CPUs have no atomic addition of floats, and a compare-and-swap of sixteen bytes costs as much as one
of two. Each element still changes atomically; changing its neighbours at the same moment is
allowed.
"""

from __future__ import annotations

from collections.abc import Callable

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.analysis.strides import static_strides
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.llvm.builder import SIZES, Builder, memory_type
from ttools.interpreter.llvm.value import SSAValue, element_of, vector_type, with_element
from ttools.interpreter.tiles.chunk import Affine, Chunk
from ttools.interpreter.tiles.representation import from_memory, to_memory
from ttools.ir import FloatType, Operation, Type, element_type, shape_of

PACK_BYTES = 16

#: Intrinsics that do the same as an operation of LLVM's `atomicrmw`.
_INTRINSICS = {"max": "smax", "min": "smin", "umax": "umax", "umin": "umin"}
#: Operations on the bits of an element of any type. Triton accepts floats for them; PTX has them
#: for untyped words only (`atom.and.b32`).
BITWISE = frozenset({"and", "or", "xor"})


def bits_of(type: str) -> str:
    """Return the LLVM integer type as wide as an element of `type`, a vector if that is one."""
    return with_element(type, f"i{8 * SIZES[element_of(type)]}")


def pack_width(op: Operation) -> int:
    """Return how many lanes of an atomic one compare-and-swap may change; 1 if it may not."""
    pointer = op.operands[0]
    shape, element = shape_of(pointer.type), element_type(op.result.type)
    width = PACK_BYTES // SIZES[memory_type(element)]
    run = bool(shape) and shape[-1] >= width and static_strides(pointer)[-1] == 1
    return width if run else 1


def is_run(chunk: Chunk, element: Type) -> bool:
    """Return whether lanes are known to be adjacent elements, in order, under the chunk's guard."""
    size = SIZES[memory_type(element)]
    steps = tuple(size * lane for lane in range(chunk.width))
    return isinstance(chunk, Affine) and chunk.lanes == steps


def together(
    e: Emitter,
    kind: str,
    ordering: str,
    base: SSAValue,
    active: SSAValue | None,
    value: SSAValue,
    element: Type,
) -> SSAValue:
    """Change the active lanes of sixteen aligned bytes at `base`; return the old values of all.

    At least one lane must be active; the inactive ones are written back unchanged.

    Args:
        kind: The operation of LLVM's `atomicrmw`.
        ordering: LLVM's ordering of the compare-and-swap.
        base: The i64 address, a multiple of sixteen.
        active: The active lanes (i1); all if None.
        value: The operands, as a register vector.
        element: The type of an element.
    """
    b, stored = e.b, memory_type(element)
    width = PACK_BYTES // SIZES[stored]
    vec = vector_type(stored, width)

    def change(seen: SSAValue) -> SSAValue:
        """Return the new sixteen bytes."""
        current = b.bitcast(seen, vec)
        new = _combined(b, kind, current, value, element)
        if active is not None:
            new = b.select(active, new, current)
        return b.bitcast(new, "i128")

    address = b.cast("inttoptr", base, "ptr")
    replaced = swap_until_unchanged(b, address, "i128", PACK_BYTES, ordering, change)
    return from_memory(b, b.bitcast(replaced, vec), element)


def swap_until_unchanged(
    b: Builder,
    address: SSAValue,
    bits: str,
    alignment: int,
    ordering: str,
    change: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """Emit a loop that changes memory, repeated until no other thread interfered.

    Args:
        bits: The LLVM integer type in memory.
        alignment: The alignment in bytes.
        ordering: LLVM's ordering of the compare-and-swap.
        change: Emits the new integer from the old one.

    Returns:
        The integer that was replaced.
    """
    first = b.load(bits, address, alignment, op="load atomic", ordering="monotonic")
    before, again, done = b.block, b.label("again"), b.label("changed")
    b.branch(again)
    b.start(again)
    phi = b.open_phi("seen", first, before)
    current = phi.value
    pair = b.compare_exchange(address, current, change(current), ordering)
    now = b.field(pair, 0)
    swapped = b.field(pair, 1)
    phi.add(now, b.block)
    b.cond_branch(swapped, done, again)
    b.start(done)
    return current


def _combined(b: Builder, kind: str, held: SSAValue, value: SSAValue, element: Type) -> SSAValue:
    """Emit the new content of memory from the old one and the operand, both as memory holds
    them.
    """
    if kind == "xchg":
        return to_memory(b, value, element)
    if kind in BITWISE:
        bits = bits_of(held.type)
        pair = (b.bitcast(v, bits) for v in (held, to_memory(b, value, element)))
        return b.bitcast(b.binary(kind, *pair), held.type)
    old = from_memory(b, held, element)
    if isinstance(element, FloatType) and SIZES[memory_type(element)] == 2:
        old, value = (elementwise.widen_to_f32(b, v, element) for v in (old, value))
        new = elementwise.narrow_from_f32(b, b.binary(kind, old, value), element)
    elif kind in _INTRINSICS:
        new = b.overloaded(_INTRINSICS[kind], old, value)
    else:
        new = b.binary(kind, old, value)
    return to_memory(b, new, element)
