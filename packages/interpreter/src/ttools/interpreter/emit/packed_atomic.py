"""Atomics on adjacent elements: sixteen bytes changed by one compare-and-swap.

No host adds floats atomically, and a compare-and-swap costs as much for sixteen bytes as for two.
Each element still changes atomically; that its neighbours do at the same moment is more than is
asked. Must not know tiles.
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

#: Intrinsics, by the kind of LLVM's `atomicrmw` that does the same.
_INTRINSICS = {"max": "smax", "min": "smin", "umax": "umax", "umin": "umin"}
#: Kinds that change the bits of an element, whatever its type. Triton accepts floats for them, and
#: PTX has them for words without a type only (`atom.and.b32`).
BITWISE = frozenset({"and", "or", "xor"})


def bits_of(type: str) -> str:
    """Return the LLVM integer type as wide as an element of `type`, a vector if that is one."""
    return with_element(type, f"i{8 * SIZES[element_of(type)]}")


def pack_width(op: Operation) -> int:
    """How many lanes of an atomic on a tile one compare-and-swap may change; 1 if it may not."""
    pointer = op.operands[0]
    shape, element = shape_of(pointer.type), element_type(op.result.type)
    width = PACK_BYTES // SIZES[memory_type(element)]
    run = bool(shape) and shape[-1] >= width and static_strides(pointer)[-1] == 1
    return width if run else 1


def is_run(chunk: Chunk, element: Type) -> bool:
    """Whether the lanes are known to be adjacent elements, in order, under the chunk's guard."""
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
    """Changes the active lanes of sixteen aligned bytes at `base`; returns what all lanes held.

    At least one lane must be active: the others are written as they were.

    Args:
        kind: of LLVM's `atomicrmw`.
        ordering: LLVM's, of the compare-and-swap.
        base: i64 address, a multiple of sixteen.
        active: i1 lanes; all if None.
        value: register vector.
    """
    b, stored = e.b, memory_type(element)
    width = PACK_BYTES // SIZES[stored]
    vec = vector_type(stored, width)

    def change(seen: SSAValue) -> SSAValue:
        held = b.bitcast(seen, vec)
        new = _combined(b, kind, held, value, element)
        if active is not None:
            new = b.select(active, new, held)
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
    """Emits a loop that swaps memory for what `change` makes of it, until nobody came between.

    Args:
        bits: the LLVM integer type in memory.
        alignment: bytes.
        change: emits the new integer, given the one that is there.

    Returns:
        The integer that was replaced.
    """
    first = b.load(bits, address, alignment, op="load atomic", ordering="monotonic")
    before, again, done = b.block, b.label("again"), b.label("changed")
    b.branch(again)
    b.start(again)
    phi = b.open_phi("seen", first, before)
    seen = phi.value
    pair = b.compare_exchange(address, seen, change(seen), ordering)
    now = b.field(pair, 0)
    swapped = b.field(pair, 1)
    phi.add(now, b.block)
    b.cond_branch(swapped, done, again)
    b.start(done)
    return seen


def _combined(b: Builder, kind: str, held: SSAValue, value: SSAValue, element: Type) -> SSAValue:
    """Emits the new content of memory, as memory holds it, from the old and the operand."""
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
