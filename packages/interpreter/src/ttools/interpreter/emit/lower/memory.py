"""Loads, stores and barriers.

Masked-off lanes access no memory. They have the value of `other`, or zero, but are never undefined.
If all lanes have the same address, it is read once; otherwise `lane_access.py` transfers the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from ttools.interpreter.emit.function import Emitter, fused, root
from ttools.interpreter.emit.instruments.access import (
    Differs,
    compared,
    is_observed,
    observed,
    verified,
)
from ttools.interpreter.emit.instruments.lanes_apart import unless_apart
from ttools.interpreter.emit.instruments.probe import call
from ttools.interpreter.emit.instruments.synchronisation import access_flags, ordered
from ttools.interpreter.emit.lane_access import guarded, load_lanes, store_lanes
from ttools.interpreter.emit.translate import translated
from ttools.interpreter.llvm.builder import SIZES, memory_type, register_type
from ttools.interpreter.llvm.value import NOTHING, SSAValue, with_element
from ttools.interpreter.tiles.chunk import Affine, Chunk, Coords, Vector, uniform
from ttools.interpreter.tiles.loops import for_each_chunk
from ttools.interpreter.tiles.representation import from_memory, to_memory
from ttools.ir import Operation, Type, element_type, shape_of

#: Emits a store of one chunk, or the check of such a store, from the chunk's coordinates,
#: addresses, data and mask.
_StoreStep = Callable[[Emitter, Operation, Coords, Chunk, Chunk, "Chunk | None"], None]


# ---- loads


@root("tt.load")
def load_root(e: Emitter, op: Operation) -> None:
    if not op.result.is_tensor:
        chunk = load(e, op, 0, ())
        e.set_scalar(op.result, e.vector(chunk))
    elif e.plan.is_stored(op.result):
        e.materialise(op.result)


@fused("tt.load")
def load(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    pointer = e.operand(op.operands[0], at)
    mask = e.operand(op.operands[1], at) if len(op.operands) > 1 else None
    other = e.operand(op.operands[2], at) if len(op.operands) > 2 else None
    pointer = translated(e, op, op.operands[0], pointer, None if mask is None else e.vector(mask))
    element = element_type(op.result.type)
    volatile = bool(op.attributes.get("isVolatile"))
    is_plain = e.prober is None or not (e.prober.instruments.synchronised or is_observed(e, op))
    if is_plain:
        return load_chunk(e, pointer, element, mask, other, volatile=volatile)
    assert e.prober is not None

    def perform(pointer: Chunk, mask: Chunk | None) -> SSAValue:
        if not volatile:
            return e.vector(load_chunk(e, pointer, element, mask, other))
        with ordered(e, op, number, pointer) as access:
            loaded = load_chunk(e, pointer, element, mask, other, volatile=True)
            access.value = e.vector(loaded)
        return access.value

    number = len(e.prober.sites)
    ssa = observed(e, op, "load", pointer, mask, at, perform, access_flags(op))
    return uniform(element, ssa, 1) if pointer.width == 1 else Vector(element, ssa)


def load_chunk(
    e: Emitter,
    pointer: Chunk,
    element: Type,
    mask: Chunk | None,
    other: Chunk | None,
    *,
    volatile: bool = False,
) -> Chunk:
    """Load the elements of one chunk."""
    if isinstance(mask, Affine) and mask.base == "true":
        mask = None
    if pointer.width == 1:
        pointer = uniform(pointer.element, e.vector(pointer), 1)
    if isinstance(pointer, Affine) and pointer.is_uniform:
        return _load_uniform(e, pointer, element, mask, other, volatile)
    if isinstance(pointer, Affine) and not any(pointer.lanes):
        return _load_maybe_uniform(e, pointer, element, mask, other, volatile)
    mask_ssa = None if mask is None else e.vector(mask)
    other_ssa = None
    if mask is not None and other is not None:
        other_ssa = to_memory(e.b, e.vector(other), element)
    raw = load_lanes(e, pointer, memory_type(element), mask_ssa, other_ssa)
    return Vector(element, from_memory(e.b, raw, element))


def _load_uniform(
    e: Emitter,
    pointer: Affine,
    element: Type,
    mask: Chunk | None,
    other: Chunk | None,
    volatile: bool,
) -> Chunk:
    """Load from an address that all lanes share, but only if any lane is active."""
    b, width, stored = e.b, pointer.width, memory_type(element)
    keyword = "load volatile" if volatile else "load"

    def read(instead: SSAValue | None = None) -> SSAValue:
        address = b.cast("inttoptr", pointer.base, "ptr")
        if instead is not None:
            address = b.select(any_lane, address, instead)
        raw = b.load(stored, address, SIZES[stored], op=keyword)
        return from_memory(e.b, raw, element)

    if mask is None:
        return uniform(element, read(), width)
    if isinstance(mask, Affine) and mask.is_uniform:
        any_lane = mask.base
    else:
        any_lane = b.any_lane(e.vector(mask))
    zero = zero_of(register_type(element))
    fallback = e.vector(other) if other is not None else b.splat(zero, width)
    mask_ssa = e.vector(mask)
    if width == 1 and not volatile:
        # Read zero instead of branching, because LLVM's compilation time grows with the square of
        # the number of blocks.
        value = read(_zero_address(e))
        return uniform(element, value if other is None else b.select(mask_ssa, value, fallback), 1)
    yes, done, before = b.label("some"), b.label("loaded"), b.block
    b.cond_branch(any_lane, yes, done)
    b.start(yes)
    value = read()
    after = b.block
    b.branch(done)
    b.start(done)
    scalar = b.phi((value, after), (zero, before))
    splat = b.splat(scalar, width)
    ssa = b.select(mask_ssa, splat, fallback)
    return uniform(element, ssa, 1) if width == 1 else Vector(element, ssa)


def _zero_address(e: Emitter) -> SSAValue:
    """Return the address of 8 zero bytes, which are read instead of a masked-off address."""
    name = "ttools.zero"
    e.b.definitions[name] = f"@{name} = internal constant [8 x i8] zeroinitializer, align 8"
    return SSAValue(f"@{name}", "ptr")


def _load_maybe_uniform(
    e: Emitter,
    pointer: Affine,
    element: Type,
    mask: Chunk | None,
    other: Chunk | None,
    volatile: bool,
) -> Chunk:
    """Load from an address that is the same in all lanes if its guard holds."""
    # Both branches need these values, so they are computed before the branch.
    for chunk in (mask, other):
        if chunk is not None:
            e.vector(chunk)

    def once() -> SSAValue:
        single = replace(pointer, guard=None, exact=None, ssa=None)
        return e.vector(_load_uniform(e, single, element, mask, other, volatile))

    def each() -> SSAValue:
        lanes = Vector(pointer.element, e.vector(pointer))
        return e.vector(load_chunk(e, lanes, element, mask, other, volatile=volatile))

    return Vector(element, guarded(e, pointer, once, each))


def zero_of(type: str) -> SSAValue:
    """Return the literal of zero."""
    zeros = {"half": "0xH0000", "float": "0.0", "double": "0.0", "i1": "false"}
    return SSAValue(zeros.get(type, "0"), type)


# ---- stores


@root("tt.store")
def store_root(e: Emitter, op: Operation) -> None:
    _for_each_chunk_of(e, op, _store)
    tile = bool(shape_of(op.operands[0].type))
    if tile and e.prober is not None and e.prober.verifies(op):
        e.evaluation += 1  # the value is evaluated a second time
        unless_apart(e, op, lambda: _for_each_chunk_of(e, op, _verify))


def _for_each_chunk_of(e: Emitter, op: Operation, emit: _StoreStep) -> None:
    pointer, value, *rest = op.operands

    def body(at: Coords) -> None:
        with e.fresh_memo():
            mask = e.operand(rest[0], at) if rest else None
            chunk, data = e.operand(pointer, at), e.operand(value, at)
            emit(e, op, at, chunk, data, mask)

    for_each_chunk(e.b, e.memory_traversal(pointer), body)


def _store(
    e: Emitter, op: Operation, at: Coords, chunk: Chunk, data: Chunk, mask: Chunk | None
) -> None:
    chunk = translated(e, op, op.operands[0], chunk, None if mask is None else e.vector(mask))
    if e.prober is not None:
        e.vector(data)  # compute the value here, once for all code paths that store it
        if e.prober.instruments.compares:
            compared(e, op, chunk, mask, at, _difference(e, data))
            return

    def perform(chunk: Chunk, mask: Chunk | None) -> SSAValue:
        store_chunk(e, chunk, data, mask)
        return NOTHING

    observed(e, op, "store", chunk, mask, at, perform)


def _verify(
    e: Emitter, op: Operation, at: Coords, chunk: Chunk, data: Chunk, mask: Chunk | None
) -> None:
    """Report each lane whose element was overwritten by another lane of the same store."""
    verified(e, op, chunk, mask, at, _difference(e, data))


def _difference(e: Emitter, data: Chunk) -> Differs:
    """Return a function that emits a bitwise comparison of the stored values with memory."""
    b, element = e.b, data.element
    bits = f"i{8 * SIZES[memory_type(element)]}"

    def differs(chunk: Chunk, mask: Chunk | None) -> SSAValue:
        loaded = e.vector(load_chunk(e, chunk, element, mask, None))
        values = (to_memory(b, v, element) for v in (loaded, e.vector(data)))
        now, stored = (b.bitcast(v, with_element(v.type, bits)) for v in values)
        other = b.compare("icmp ne", now, stored)
        if mask is None:
            return other
        return b.binary("and", other, e.vector(mask))

    return differs


def store_chunk(e: Emitter, pointer: Chunk, value: Chunk, mask: Chunk | None) -> None:
    """Store one chunk; if several lanes have the same address, the last one wins."""
    if isinstance(mask, Affine) and mask.base == "true":
        mask = None
    raw = to_memory(e.b, e.vector(value), value.element)
    mask_ssa = None if mask is None else e.vector(mask)
    (_store_scalar if pointer.width == 1 else store_lanes)(e, pointer, raw, mask_ssa)


def _store_scalar(e: Emitter, pointer: Chunk, raw: SSAValue, mask: SSAValue | None) -> None:
    b = e.b
    address = e.vector(pointer)
    with nullcontext() if mask is None else b.only_if(mask, "store", "stored"):
        b.store(raw, b.cast("inttoptr", address, "ptr"), SIZES[raw.type])


@root("ttg.barrier", "gpu.barrier", "tt.barrier", "ttg.local_barrier")
def barrier(e: Emitter, op: Operation) -> None:
    """Emit a fence, because other programs may observe the order of accesses.

    A program runs in one thread, so there are no other threads to wait for.
    """
    e.b.do("fence acq_rel")
    if e.prober is not None and e.prober.instruments.footprints:
        call(e.b, "pass_barrier")
