"""Atomics, which are executed one lane at a time in ascending order, by the CPU's instructions.

If lanes access adjacent elements, sixteen bytes are changed together by one compare-and-swap,
unless the order of the changes is logged. CPUs have no atomic addition of floats, so a
compare-and-swap is needed anyway, and one of sixteen bytes costs as much as one of two. Each
element still changes atomically, and its neighbours are allowed to change at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import ttools.interpreter.elementwise as elementwise
from ttools.core.errors import UnsupportedError
from ttools.interpreter.abi.probe_layout import READS_AND_WRITES, RELEASES
from ttools.interpreter.analysis.strides import static_strides
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.access import observed
from ttools.interpreter.emit.instruments.probe import call
from ttools.interpreter.emit.instruments.synchronisation import (
    access_flags,
    has_barrier_before,
    has_barrier_behind,
    ordered,
)
from ttools.interpreter.emit.lane_access import guarded
from ttools.interpreter.emit.lower.memory import zero_of
from ttools.interpreter.emit.translate import translated
from ttools.interpreter.llvm.builder import SIZES, Builder, memory_type
from ttools.interpreter.llvm.value import (
    SSAValue,
    element_of,
    integer,
    lanes_of,
    poison,
    vector_type,
    with_element,
)
from ttools.interpreter.tiles.chunk import Affine, Chunk, Coords, Vector
from ttools.interpreter.tiles.loops import for_each_chunk, traversal
from ttools.interpreter.tiles.representation import from_memory, to_memory
from ttools.ir import (
    FloatType,
    IntegerType,
    Operation,
    PointerType,
    Type,
    Value,
    element_type,
    shape_of,
)
from ttools.ir.type_names import type_in_words

#: Emits the atomic for one lane, from its address, its operands and the element type; returns the
#: old value.
_OneLane = Callable[[SSAValue, list[SSAValue], Type], SSAValue]

_ORDERINGS = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}
#: Width in bits of the narrowest float type that has an atomic addition.
_NARROWEST_SUM = 16
_RMW = {
    "and": "and",
    "or": "or",
    "xor": "xor",
    "add": "add",
    "max": "max",
    "min": "min",
    "umax": "umax",
    "umin": "umin",
    "exch": "xchg",
    "fadd": "fadd",
}


@root("tt.atomic_rmw")
def atomic_rmw(e: Emitter, op: Operation) -> None:
    name = str(op.attributes["atomic_rmw_op"])
    kind, ordering = _RMW[name], _ORDERINGS[str(op.attributes["sem"])]
    element = element_type(op.result.type)
    if not _has_operation(element, kind):
        raise UnsupportedError(f"tt.atomic_rmw {name} of {type_in_words(element)}", op.location)

    def one(address: SSAValue, operands: list[SSAValue], element: Type) -> SSAValue:
        return _rmw(e, kind, ordering, address, operands[0], element)

    mask = op.operands[2] if len(op.operands) > 2 else None
    logged = e.prober is not None and e.prober.instruments.synchronised
    if not logged and pack_width(op) > 1:
        _each_pack(e, op, mask, kind, ordering, one)
    else:
        _each_lane(e, op, op.operands[1:2], mask, one)


def _has_operation(element: Type, kind: str) -> bool:
    """Return whether an atomic operation exists for a type; Triton emits no other combinations."""
    if kind in BITWISE or kind == "xchg":
        return True
    if kind == "fadd":
        return isinstance(element, FloatType) and element.width >= _NARROWEST_SUM
    return isinstance(element, IntegerType)


@root("tt.atomic_cas")
def atomic_cas(e: Emitter, op: Operation) -> None:
    ordering = _ORDERINGS[str(op.attributes["sem"])]

    def one(address: SSAValue, operands: list[SSAValue], element: Type) -> SSAValue:
        compare, value = (to_memory(e.b, v, element) for v in operands)
        return from_memory(e.b, _cmpxchg(e.b, address, compare, value, ordering), element)

    _each_lane(e, op, op.operands[1:3], None, one)


@root("tt.atomic_load")
def atomic_load(e: Emitter, op: Operation) -> None:
    ordering = _ORDERINGS[str(op.attributes["sem"])]

    def one(address: SSAValue, operands: list[SSAValue], element: Type) -> SSAValue:
        return from_memory(e.b, _read(e.b, address, element, ordering), element)

    _between_barriers(e, op, (), one, "load")


@root("tt.atomic_store")
def atomic_store(e: Emitter, op: Operation) -> None:
    ordering = _ORDERINGS[str(op.attributes["sem"])]
    logged = e.prober is not None and e.prober.instruments.synchronised

    def one(address: SSAValue, operands: list[SSAValue], element: Type) -> SSAValue:
        # The log records the old value. No other program changes it between this load and the
        # store, because logged accesses run under a lock.
        old = _read(e.b, address, element, _ORDERINGS["relaxed"]) if logged else None
        stored = to_memory(e.b, operands[0], element)
        size = SIZES[stored.type]
        e.b.store(stored, address, size, op="store atomic", ordering=ordering)
        return operands[0] if old is None else from_memory(e.b, old, element)

    _between_barriers(e, op, op.operands[1:2], one, "atomic")


def _read(b: Builder, address: SSAValue, element: Type, ordering: str) -> SSAValue:
    stored = memory_type(element)
    return b.load(stored, address, SIZES[stored], op="load atomic", ordering=ordering)


def _between_barriers(
    e: Emitter, op: Operation, operands: Sequence[Value], one: _OneLane, kind: str
) -> None:
    """Emit an atomic load or store for each lane, and log the barriers Triton adds around it."""
    logged = e.prober is not None and e.prober.instruments.footprints
    if logged and has_barrier_before(op):
        call(e.b, "pass_barrier")
    _each_lane(e, op, operands, op.mask, one, kind)
    if logged and has_barrier_behind(op):
        call(e.b, "pass_barrier")


def _flags_of_swap(
    e: Emitter, op: Operation, old: SSAValue, expected: SSAValue, element: Type
) -> SSAValue:
    """Return the access flags of a compare-and-swap; if the comparison fails, it only reads."""
    b, bits = e.b, f"i{SIZES[memory_type(element)] * 8}"
    old_bits, expected_bits = (b.bitcast(to_memory(b, v, element), bits) for v in (old, expected))
    swapped = b.compare("icmp eq", old_bits, expected_bits)
    flags = access_flags(op)
    failed = flags & ~(RELEASES | READS_AND_WRITES)
    return b.select(swapped, integer(flags, "i32"), failed)


def _cmpxchg(
    b: Builder, address: SSAValue, compare: SSAValue, value: SSAValue, ordering: str
) -> SSAValue:
    bits = f"i{SIZES[value.type] * 8}"
    pair = b.compare_exchange(address, b.bitcast(compare, bits), b.bitcast(value, bits), ordering)
    return b.bitcast(b.field(pair, 0), value.type)


def _rmw(
    e: Emitter, kind: str, ordering: str, address: SSAValue, value: SSAValue, element: Type
) -> SSAValue:
    if kind == "fadd" and memory_type(element) == "i16":
        return _add_narrow_float(e, ordering, address, value, element)
    stored = to_memory(e.b, value, element)
    operand = e.b.bitcast(stored, bits_of(stored.type)) if kind in BITWISE else stored
    old = e.b.change(kind, address, operand, ordering)
    return from_memory(e.b, e.b.bitcast(old, stored.type), element)


def _add_narrow_float(
    e: Emitter, ordering: str, address: SSAValue, value: SSAValue, element: Type
) -> SSAValue:
    """Add f16 or bf16 in a compare-and-swap loop, rounded like any other addition."""
    b = e.b
    addend = elementwise.widen_to_f32(b, value, element)

    def change(seen: SSAValue) -> SSAValue:
        wide = elementwise.widen_to_f32(b, from_memory(b, seen, element), element)
        total = b.binary("fadd", wide, addend)
        return to_memory(b, elementwise.narrow_from_f32(b, total, element), element)

    return from_memory(b, swap_until_unchanged(b, address, "i16", 2, ordering, change), element)


def _each_pack(
    e: Emitter,
    op: Operation,
    mask: Value | None,
    kind: str,
    ordering: str,
    one: _OneLane,
) -> None:
    """Execute an atomic on lanes that may be adjacent, in chunks of sixteen bytes."""
    pointer, value = op.operands[:2]
    element = element_type(op.result.type)
    slot = e.slot(op.result)

    def body(at: Coords) -> None:
        with e.fresh_memo():
            chosen = None if mask is None else e.operand(mask, at)
            active = None if chosen is None else e.vector(chosen)
            chunk = translated(e, op, pointer, e.operand(pointer, at), active)
            data = e.vector(e.operand(value, at))

            def perform(chunk: Chunk, allowed: Chunk | None) -> SSAValue:
                active = None if allowed is None else e.vector(allowed)
                addresses = e.vector(chunk)

                def apart() -> SSAValue:
                    return _unrolled(e, active, addresses, data, element, one)

                # If the runtime had to check the lanes, some of them usually must not access
                # memory, so the lanes are not changed together.
                is_checked = allowed is not None and allowed is not chosen
                if is_checked or not is_run(chunk, element):
                    return apart()
                assert isinstance(chunk, Affine)
                base, run = chunk.base, replace(chunk, guard=_may_pack(e, chunk, active))
                return guarded(
                    e,
                    run,
                    lambda: together(e, kind, ordering, base, active, data, element),
                    apart,
                )

            old = observed(e, op, "atomic", chunk, chosen, at, perform, access_flags(op))
            e.write_slot(slot, at, Vector(element, old))

    for_each_chunk(e.b, traversal(shape_of(pointer.type), pack_width(op)), body)


def _may_pack(e: Emitter, chunk: Affine, active: SSAValue | None) -> SSAValue:
    """Return an i1 that is set if the lanes are an aligned run and at least one is active."""
    b = e.b
    low = b.binary("and", chunk.base, PACK_BYTES - 1)
    may = b.compare("icmp eq", low, 0)
    if chunk.guard is not None:
        may = b.binary("and", may, chunk.guard)
    if active is None:
        return may
    return b.binary("and", may, b.any_lane(active))


def _unrolled(
    e: Emitter,
    active: SSAValue | None,
    addresses: SSAValue,
    data: SSAValue,
    element: Type,
    one: _OneLane,
) -> SSAValue:
    """Execute an atomic on each active lane of a vector, in ascending order."""
    b = e.b
    result = poison(data.type)
    for lane in range(lanes_of(data.type)):
        address = b.shuffle(addresses, [lane])
        chosen = None if active is None else b.shuffle(active, [lane])
        value = b.shuffle(data, [lane])
        old = _conditional(e, chosen, address, [value], element, one)
        result = b.insert(result, old, lane)
    return result


def _each_lane(
    e: Emitter,
    op: Operation,
    operands: Sequence[Value],
    mask: Value | None,
    one: _OneLane,
    kind: str = "atomic",
) -> None:
    """Execute an atomic on each active lane in a loop, and store the old values if they are used.

    Args:
        operands: The operands after the address.
        mask: The active lanes; all if None.
        one: Emits the atomic for one lane.
        kind: The kind of access: `load` or `atomic`.
    """
    pointer = op.operands[0]
    element = _pointee(pointer)
    result = op.results[0] if op.results else None
    slot = e.slot(result) if result is not None and result.is_tensor else None

    def body(at: Coords) -> None:
        with e.fresh_memo():
            chosen = None if mask is None else e.operand(mask, at)
            active = None if chosen is None else e.vector(chosen)
            chunk = translated(e, op, pointer, e.operand(pointer, at), active)
            values = [e.vector(e.operand(v, at)) for v in operands]
            number = 0 if e.prober is None else len(e.prober.sites)

            def perform(chunk: Chunk, mask: Chunk | None) -> SSAValue:
                def logged(address: SSAValue, operands: list[SSAValue], element: Type) -> SSAValue:
                    with ordered(e, op, number, chunk) as access:
                        access.value = old = one(address, operands, element)
                        if op.name == "tt.atomic_cas" and e.prober is not None:
                            access.flags = _flags_of_swap(e, op, old, operands[0], element)
                    return access.value

                active = None if mask is None else e.vector(mask)
                return _conditional(e, active, e.vector(chunk), values, element, logged)

            old = observed(e, op, kind, chunk, chosen, at, perform, access_flags(op))
            if slot is not None:
                e.write_slot(slot, at, Vector(element, old))
            elif result is not None:
                e.set_scalar(result, old)

    for_each_chunk(e.b, traversal(shape_of(pointer.type), 1), body)


def _pointee(pointer: Value) -> Type:
    kind = element_type(pointer.type)
    assert isinstance(kind, PointerType)
    return kind.pointee


def _conditional(
    e: Emitter,
    active: SSAValue | None,
    address: SSAValue,
    values: list[SSAValue],
    element: Type,
    one: _OneLane,
) -> SSAValue:
    b = e.b
    if active is None or active == "true":
        return one(b.cast("inttoptr", address, "ptr"), values, element)
    before, then, done = b.block, b.label("atomic"), b.label("masked")
    b.cond_branch(active, then, done)
    b.start(then)
    old = one(b.cast("inttoptr", address, "ptr"), values, element)
    after = b.block
    b.branch(done)
    b.start(done)
    return b.phi((old, after), (zero_of(old.type), before))


PACK_BYTES = 16

#: The LLVM intrinsic that computes the same result as an operation of `atomicrmw`.
_INTRINSICS = {"max": "smax", "min": "smin", "umax": "umax", "umin": "umin"}
#: Operations on the bits of an element of any type. Triton accepts floats for them; in PTX, their
#: type is an untyped word (`atom.and.b32`).
BITWISE = frozenset({"and", "or", "xor"})


def bits_of(type: str) -> str:
    """Return the LLVM integer type with the element size and the number of lanes of `type`."""
    return with_element(type, f"i{8 * SIZES[element_of(type)]}")


def pack_width(op: Operation) -> int:
    """Return how many lanes of an atomic a single compare-and-swap can update, at least 1."""
    pointer = op.operands[0]
    shape, element = shape_of(pointer.type), element_type(op.result.type)
    width = PACK_BYTES // SIZES[memory_type(element)]
    run = bool(shape) and shape[-1] >= width and static_strides(pointer)[-1] == 1
    return width if run else 1


def is_run(chunk: Chunk, element: Type) -> bool:
    """Return whether consecutive lanes access consecutive elements, provided the guard holds."""
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
    """Change the active lanes of sixteen aligned bytes, and return the old values of all lanes.

    At least one lane must be active. The elements of inactive lanes are written back unchanged.

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
    """Emit a loop that changes memory, and retries the change if another thread interfered.

    Args:
        address: The address of the memory.
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
    """Emit the computation of the new contents of memory from the old contents and an operand.

    Args:
        kind: The operation of LLVM's `atomicrmw`.
        held: The old contents, in memory representation.
        value: The operands, as a register vector.
        element: The type of an element.
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
