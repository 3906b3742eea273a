"""Loads, stores and atomics.

An access is uniform (one address), contiguous (unit stride: one vector instruction), or a gather.
Masked-off lanes touch nothing and load `other`, or zero: never an undefined value.  A pointer
whose affine form is guarded takes the contiguous path when the guard holds and the exact gather
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from ttools.interpreter.emit.access import Differs, compared, observed, verified
from ttools.interpreter.emit.chunk import Affine, Chunk, Coords, Vector, uniform
from ttools.interpreter.emit.function import Emitter, fused, root
from ttools.interpreter.emit.llvm import SIZES, memory_type, register_type, vector_type
from ttools.interpreter.emit.loops import for_each_chunk
from ttools.interpreter.emit.lower_shape import mangled
from ttools.interpreter.emit.probe import call
from ttools.interpreter.emit.representation import from_memory, to_memory
from ttools.interpreter.emit.synchronisation import access_flags, ordered
from ttools.interpreter.emit.translate import translated
from ttools.interpreter.ir import Operation, Type, element_type, shape_of

#: Emits one step of a store for a chunk: its coordinates, addresses, data and mask.
_StoreStep = Callable[[Emitter, Operation, Coords, Chunk, Chunk, "Chunk | None"], None]


def unit_lanes(width: int, size: int) -> tuple[int, ...]:
    """Byte offsets of lanes that lie next to each other."""
    return tuple(lane * size for lane in range(width))


def guarded(
    e: Emitter, pointer: Chunk, type: str, fast: Callable[[], str], slow: Callable[[], str]
) -> str:
    """Emits `fast` under the pointer's guard and `slow` otherwise; a phi of `type` joins them."""
    assert isinstance(pointer, Affine)
    assert pointer.guard is not None
    b = e.b
    yes, no, done = b.label("contiguous"), b.label("wrapped"), b.label("joined")
    hint = b.intrinsic("llvm.expect.i1", "i1", [("i1", pointer.guard), ("i1", "true")])
    b.cond_branch(hint, yes, no)
    b.start(yes)
    with e.cold():
        first = fast()
    first_block = b.block
    b.branch(done)
    b.start(no)
    with e.cold():
        second = slow()
    second_block = b.block
    b.branch(done)
    b.start(done)
    if not type:
        return ""
    return b.emit(f"phi {type} [{first}, %{first_block}], [{second}, %{second_block}]")


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
    if e.prober is None:
        return load_chunk(e, pointer, element, mask, other, volatile=volatile)

    def perform(pointer: Chunk, mask: Chunk | None) -> str:
        with ordered(e, op, number, pointer) if volatile else nullcontext():
            return e.vector(load_chunk(e, pointer, element, mask, other, volatile=volatile))

    number, width = len(e.prober.sites), pointer.width
    result = vector_type(register_type(element), width)
    ssa = observed(e, op, "load", pointer, mask, at, perform, result, access_flags(op))
    return uniform(element, ssa, 1) if width == 1 else Vector(element, width, ssa)


def load_chunk(
    e: Emitter,
    pointer: Chunk,
    element: Type,
    mask: Chunk | None,
    other: Chunk | None,
    *,
    volatile: bool = False,
) -> Chunk:
    """Loads the elements of one chunk."""
    width = pointer.width
    stored = memory_type(element)
    if isinstance(mask, Affine) and mask.base == "true":
        mask = None
    if width == 1:
        pointer = uniform(pointer.element, e.vector(pointer), 1)
    if isinstance(pointer, Affine) and pointer.is_uniform:
        return _load_uniform(e, pointer, element, mask, other, volatile)
    mask_ssa = None if mask is None else e.vector(mask)
    other_ssa = None
    if mask is not None and other is not None:
        other_ssa = to_memory(e.b, e.vector(other), element, width)
    contiguous = isinstance(pointer, Affine) and pointer.lanes == unit_lanes(width, SIZES[stored])

    def wide() -> str:
        assert isinstance(pointer, Affine)
        return _load_contiguous(e, pointer.base, stored, width, mask_ssa, other_ssa)

    def gathered() -> str:
        return _load_gather(e, e.vector(pointer), stored, width, mask_ssa, other_ssa)

    if not contiguous:
        raw = gathered()
    elif isinstance(pointer, Affine) and pointer.guard is not None:
        raw = guarded(e, pointer, vector_type(stored, width), wide, gathered)
    else:
        raw = wide()
    return Vector(element, width, from_memory(e.b, raw, element, width))


def _load_uniform(
    e: Emitter,
    pointer: Affine,
    element: Type,
    mask: Chunk | None,
    other: Chunk | None,
    volatile: bool,
) -> Chunk:
    """One address for all lanes: a scalar load, executed only if some lane wants it."""
    b, width, stored = e.b, pointer.width, memory_type(element)
    keyword = "load volatile" if volatile else "load"

    def read() -> str:
        address = b.emit(f"inttoptr i64 {pointer.base} to ptr")
        raw = b.emit(f"{keyword} {stored}, ptr {address}, align {SIZES[stored]}")
        return from_memory(e.b, raw, element, 1)

    if mask is None:
        return uniform(element, read(), width)
    vec = vector_type(register_type(element), width)
    if isinstance(mask, Affine) and mask.is_uniform:
        any_lane = mask.base
    else:
        any_lane = b.intrinsic(
            f"llvm.vector.reduce.or.v{width}i1", "i1", [(f"<{width} x i1>", e.vector(mask))]
        )
    zero = zero_literal(register_type(element))
    scalar_type = register_type(element)
    fallback = e.vector(other) if other is not None else b.splat(zero, scalar_type, width)
    mask_ssa = e.vector(mask)
    yes, done, before = b.label("some"), b.label("loaded"), b.block
    b.cond_branch(any_lane, yes, done)
    b.start(yes)
    value = read()
    after = b.block
    b.branch(done)
    b.start(done)
    scalar = b.emit(f"phi {scalar_type} [{value}, %{after}], [{zero}, %{before}]")
    splat = b.splat(scalar, scalar_type, width)
    ssa = b.emit(f"select {vector_type('i1', width)} {mask_ssa}, {vec} {splat}, {vec} {fallback}")
    if width == 1:
        return uniform(element, ssa, 1)
    return Vector(element, width, ssa)


def zero_literal(type: str) -> str:
    return {"half": "0xH0000", "float": "0.0", "double": "0.0", "i1": "false"}.get(type, "0")


#: How far ahead of a contiguous access its line is asked for. Kernels do much work per cache line,
#: so that few loads are in flight; measured alike from 1024 to 4096.
_PREFETCH_BYTES = 2048


def _prefetch(e: Emitter, address: str, *, write: bool) -> None:
    """Hints at the line that a later program or iteration will want; never faults."""
    ahead = e.b.emit(f"getelementptr i8, ptr {address}, i64 {_PREFETCH_BYTES}")
    flags = [("i32", "1" if write else "0"), ("i32", "3"), ("i32", "1")]
    e.b.intrinsic("llvm.prefetch.p0", "void", [("ptr", ahead), *flags])


def _load_contiguous(
    e: Emitter, base: str, stored: str, width: int, mask: str | None, other: str | None
) -> str:
    b, vec = e.b, vector_type(stored, width)
    address = b.emit(f"inttoptr i64 {base} to ptr")
    _prefetch(e, address, write=False)
    if mask is None:
        return b.emit(f"load {vec}, ptr {address}, align {SIZES[stored]}")
    return b.intrinsic(
        f"llvm.masked.load.v{width}{mangled(stored)}.p0",
        vec,
        [
            (f"ptr align {SIZES[stored]}", address),
            (f"<{width} x i1>", mask),
            (vec, other or "zeroinitializer"),
        ],
    )


def _load_gather(
    e: Emitter, addresses: str, stored: str, width: int, mask: str | None, other: str | None
) -> str:
    b, vec = e.b, vector_type(stored, width)
    if SIZES[stored] >= 4:
        pointers = b.emit(f"inttoptr <{width} x i64> {addresses} to <{width} x ptr>")
        return b.intrinsic(
            f"llvm.masked.gather.v{width}{mangled(stored)}.v{width}p0",
            vec,
            [
                (f"<{width} x ptr> align {SIZES[stored]}", pointers),
                (f"<{width} x i1>", mask or b.splat("true", "i1", width)),
                (vec, other or "zeroinitializer"),
            ],
        )
    # No hardware gather below 32 bits: plain loads, with masked-off lanes sent to a safe place.
    if mask is not None:
        addresses = _redirect(e, addresses, mask, width)
    raw = "poison"
    for lane in range(width):
        address = b.emit(f"extractelement <{width} x i64> {addresses}, i64 {lane}")
        p = b.emit(f"inttoptr i64 {address} to ptr")
        item = b.emit(f"load {stored}, ptr {p}, align {SIZES[stored]}")
        raw = b.emit(f"insertelement {vec} {raw}, {stored} {item}, i64 {lane}")
    if mask is None:
        return raw
    return b.emit(f"select <{width} x i1> {mask}, {vec} {raw}, {vec} {other or 'zeroinitializer'}")


def _redirect(e: Emitter, addresses: str, mask: str, width: int) -> str:
    """Addresses of masked-off lanes replaced by that of a sink in the arena."""
    b = e.b
    offset = e.sink()
    p = b.emit(f"getelementptr inbounds i8, ptr %arena, i64 {offset}")
    sink = b.splat(b.emit(f"ptrtoint ptr {p} to i64"), "i64", width)
    vec = f"<{width} x i64>"
    return b.emit(f"select <{width} x i1> {mask}, {vec} {addresses}, {vec} {sink}")


# ---- stores


@root("tt.store")
def store_root(e: Emitter, op: Operation) -> None:
    _for_each_chunk_of(e, op, _store)
    tile = bool(shape_of(op.operands[0].type))
    if tile and e.prober is not None and e.prober.verifies(op):
        _for_each_chunk_of(e, op, _verify)


def _for_each_chunk_of(e: Emitter, op: Operation, emit: _StoreStep) -> None:
    pointer, value, *rest = op.operands

    def body(at: Coords) -> None:
        with e.fresh_memo():
            mask = e.operand(rest[0], at) if rest else None
            chunk, data = e.operand(pointer, at), e.operand(value, at)
            emit(e, op, at, chunk, data, mask)

    if shape_of(pointer.type):
        for_each_chunk(e.b, e.memory_traversal(pointer), body)
    else:
        body(())


def _store(
    e: Emitter, op: Operation, at: Coords, chunk: Chunk, data: Chunk, mask: Chunk | None
) -> None:
    chunk = translated(e, op, op.operands[0], chunk, None if mask is None else e.vector(mask))
    if e.prober is not None:
        e.vector(data)  # once for all the ways in which it may be stored
        if e.prober.instruments.compares:
            compared(e, op, chunk, mask, at, _difference(e, data))
            return

    def perform(chunk: Chunk, mask: Chunk | None) -> str:
        store_chunk(e, chunk, data, mask)
        return ""

    observed(e, op, "store", chunk, mask, at, perform, "")


def _verify(
    e: Emitter, op: Operation, at: Coords, chunk: Chunk, data: Chunk, mask: Chunk | None
) -> None:
    """Reports lanes whose element another lane of the same store has overwritten."""
    verified(e, op, chunk, mask, at, _difference(e, data))


def _difference(e: Emitter, data: Chunk) -> Differs:
    """Compares what is stored with what memory holds, bit by bit."""
    b, element, width = e.b, data.element, data.width
    stored = memory_type(element)
    bits = vector_type(f"i{8 * SIZES[stored]}", width)

    def differs(chunk: Chunk, mask: Chunk | None) -> str:
        held = e.vector(load_chunk(e, chunk, element, mask, None))
        values = (to_memory(b, v, element, width) for v in (held, e.vector(data)))
        now, meant = (b.bitcast(v, vector_type(stored, width), bits) for v in values)
        other = b.emit(f"icmp ne {bits} {now}, {meant}")
        if mask is None:
            return other
        return b.emit(f"and {vector_type('i1', width)} {other}, {e.vector(mask)}")

    return differs


def store_chunk(e: Emitter, pointer: Chunk, value: Chunk, mask: Chunk | None) -> None:
    """Stores one chunk; lanes are written in ascending order where they collide."""
    b, width = e.b, pointer.width
    element = value.element
    stored = memory_type(element)
    if isinstance(mask, Affine) and mask.base == "true":
        mask = None
    raw = to_memory(e.b, e.vector(value), element, width)
    mask_ssa = None if mask is None else e.vector(mask)
    if width == 1:
        _store_scalar(e, pointer, raw, stored, mask_ssa)
        return
    contiguous = isinstance(pointer, Affine) and pointer.lanes == unit_lanes(width, SIZES[stored])

    def wide() -> str:
        assert isinstance(pointer, Affine)
        address = b.emit(f"inttoptr i64 {pointer.base} to ptr")
        vec = vector_type(stored, width)
        _prefetch(e, address, write=True)
        if mask_ssa is None:
            b.do(f"store {vec} {raw}, ptr {address}, align {SIZES[stored]}")
        else:
            b.intrinsic(
                f"llvm.masked.store.v{width}{mangled(stored)}.p0",
                "void",
                [
                    (vec, raw),
                    (f"ptr align {SIZES[stored]}", address),
                    (f"<{width} x i1>", mask_ssa),
                ],
            )
        return ""

    def scattered() -> str:
        _scatter(e, e.vector(pointer), raw, stored, width, mask_ssa)
        return ""

    if not contiguous:
        scattered()
    elif isinstance(pointer, Affine) and pointer.guard is not None:
        guarded(e, pointer, "", wide, scattered)
    else:
        wide()


def _store_scalar(e: Emitter, pointer: Chunk, raw: str, stored: str, mask: str | None) -> None:
    b = e.b
    address = e.vector(pointer)
    done = ""
    if mask is not None:
        then, done = b.label("store"), b.label("stored")
        b.cond_branch(mask, then, done)
        b.start(then)
    p = b.emit(f"inttoptr i64 {address} to ptr")
    b.do(f"store {stored} {raw}, ptr {p}, align {SIZES[stored]}")
    if mask is not None:
        b.branch(done)
        b.start(done)


def _scatter(
    e: Emitter, addresses: str, raw: str, stored: str, width: int, mask: str | None
) -> None:
    b, vec = e.b, vector_type(stored, width)
    if SIZES[stored] >= 4:
        pointers = b.emit(f"inttoptr <{width} x i64> {addresses} to <{width} x ptr>")
        b.intrinsic(
            f"llvm.masked.scatter.v{width}{mangled(stored)}.v{width}p0",
            "void",
            [
                (vec, raw),
                (f"<{width} x ptr> align {SIZES[stored]}", pointers),
                (f"<{width} x i1>", mask or b.splat("true", "i1", width)),
            ],
        )
        return
    if mask is not None:
        addresses = _redirect(e, addresses, mask, width)
    for lane in range(width):
        address = b.emit(f"extractelement <{width} x i64> {addresses}, i64 {lane}")
        p = b.emit(f"inttoptr i64 {address} to ptr")
        item = b.emit(f"extractelement {vec} {raw}, i64 {lane}")
        b.do(f"store {stored} {item}, ptr {p}, align {SIZES[stored]}")


@root("ttg.barrier", "gpu.barrier", "tt.barrier", "ttg.local_barrier")
def barrier(e: Emitter, op: Operation) -> None:
    """A program is one thread here: only the order seen by other programs matters."""
    e.b.do("fence acq_rel")
    if e.prober is not None and e.prober.instruments.footprints:
        call(e.b, "pass_barrier", "void")
