"""Atomics on adjacent elements: sixteen bytes changed by one compare-and-swap.

No host adds floats atomically, and a compare-and-swap costs as much for sixteen bytes as for two.
Each element still changes atomically; that its neighbours do at the same moment is more than is
asked. Must not know tiles.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter import elementwise
from ttools.interpreter.analysis.strides import static_strides
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.ir import FloatType, Operation, Type, element_type, shape_of
from ttools.interpreter.llvm.builder import SIZES, Builder, memory_type, register_type
from ttools.interpreter.llvm.value import SSAValue, vector_type
from ttools.interpreter.tiles.chunk import Affine, Chunk
from ttools.interpreter.tiles.representation import from_memory, to_memory

PACK_BYTES = 16

#: Emits what memory will hold: of what it held and the operand, as vectors of LLVM type `vec`.
_Combine = Callable[[Emitter, str, SSAValue, SSAValue], SSAValue]


def _instruction(name: str) -> _Combine:
    return lambda e, vec, old, value: e.b.binary(name, old, value)


def _intrinsic(name: str) -> _Combine:
    def combine(e: Emitter, vec: str, old: SSAValue, value: SSAValue) -> SSAValue:
        suffix = vec.strip("<>").replace(" x ", "")
        return e.b.intrinsic(f"llvm.{name}.v{suffix}", vec, [(vec, old), (vec, value)])

    return combine


#: By the kind of LLVM's `atomicrmw`.
_COMBINE: dict[str, _Combine] = {
    **{kind: _instruction(kind) for kind in ("add", "and", "or", "xor", "fadd")},
    "max": _intrinsic("smax"),
    "min": _intrinsic("smin"),
    "umax": _intrinsic("umax"),
    "umin": _intrinsic("umin"),
    "xchg": lambda _e, _vec, _old, value: value,
}


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
        held = b.bitcast(seen, "i128", vec)
        old = from_memory(b, held, element, width)
        new = to_memory(b, _combined(e, kind, old, value, element, width), element, width)
        if active is not None:
            new = b.select(active, new, held)
        return b.bitcast(new, vec, "i128")

    address = b.cast("inttoptr", base, "ptr")
    replaced = swap_until_unchanged(b, address, "i128", PACK_BYTES, ordering, change)
    return from_memory(b, b.bitcast(replaced, "i128", vec), element, width)


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
    phi = b.open_phi(bits, "seen")
    seen = phi.value
    phi.add(first, before)
    new = change(seen)
    failure = {"release": "monotonic", "acq_rel": "acquire"}.get(ordering, ordering)
    pair = b.exchange(address, bits, seen, new, ordering, failure)
    now = b.field(pair, 0)
    swapped = b.field(pair, 1)
    phi.add(now, b.block)
    b.cond_branch(swapped, done, again)
    b.start(done)
    return seen


def _combined(
    e: Emitter, kind: str, old: SSAValue, value: SSAValue, element: Type, width: int
) -> SSAValue:
    narrow = isinstance(element, FloatType) and SIZES[memory_type(element)] == 2
    if not narrow or kind == "xchg":
        return _COMBINE[kind](e, vector_type(register_type(element), width), old, value)
    old, value = (elementwise.widen_to_f32(e.b, v, element, width) for v in (old, value))
    total = _COMBINE[kind](e, vector_type("float", width), old, value)
    return elementwise.narrow_from_f32(e.b, total, element, width)
