"""What a program knows of itself, what it prints and asserts, and calls between functions."""

from __future__ import annotations

from ttools.core.errors import UnsupportedError
from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.emit.callback import call_back, leave_unless_zero
from ttools.interpreter.emit.function import Emitter, fused, root
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.ir import Operation, Value, element_type, shape_of
from ttools.interpreter.llvm.builder import register_type
from ttools.interpreter.tiles.chunk import Chunk, Coords, origin, uniform
from ttools.interpreter.tiles.loops import for_each_chunk, traversal
from ttools.interpreter.tiles.slot import Slot


@root("tt.get_program_id")
def program_id(e: Emitter, op: Operation) -> None:
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    e.set_scalar(op.result, ("%px", "%py", "%pz")[axis])


@root("tt.get_num_programs")
def num_programs(e: Emitter, op: Operation) -> None:
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    e.set_scalar(op.result, launch_field(e.b, f"grid_{'xyz'[axis]}", "i32"))


@root("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents")
def grid_dependency(e: Emitter, op: Operation) -> None:
    """Order between launches: here one ends before the next begins."""


@root("llvm.intr.assume")
def assume(e: Emitter, op: Operation) -> None:
    """A promise of the kernel's author; nothing is made of it, so a false one does no harm."""


@root("tt.print")
def print_(e: Emitter, op: Operation) -> None:
    b = e.b
    signed = op.attributes.get("isSigned", ())
    described = []
    table = e.allocate(8 * max(1, len(op.operands)))
    for n, operand in enumerate(op.operands):
        slot = _printable(e, operand)
        address = b.emit(f"getelementptr inbounds i8, ptr {slot.base}, i64 {slot.offset}")
        cell = b.emit(f"getelementptr inbounds i8, ptr %arena, i64 {table + 8 * n}")
        b.do(f"store ptr {address}, ptr {cell}, align 8")
        is_signed = bool(signed[n]) if isinstance(signed, tuple) and n < len(signed) else True
        described.append(
            (
                str(element_type(operand.type)),
                shape_of(operand.type),
                bool(op.attributes.get("hex")),
                is_signed,
            )
        )
    text = str(op.attributes.get("prefix", ""))
    site = e.add_site(Site(CallbackKind.PRINT, op.location, text, tuple(described)))
    payload = b.emit(f"getelementptr inbounds i8, ptr %arena, i64 {table}")
    call_back(e, CallbackKind.PRINT, site, payload)


def _printable(e: Emitter, value: Value) -> Slot:
    """A slot that holds the value in memory representation."""
    if not value.is_tensor:
        slot = e.new_slot((1,), value.type)
        e.write_slot(slot, origin(1), uniform(value.type, e.scalar(value), 1))
        return slot
    slot = e.slot(value)
    if not slot.widened:
        return slot
    plain = e.new_slot(slot.shape, slot.element)
    e.copy_slot(slot, plain)
    return plain


@root("tt.assert")
def assert_(e: Emitter, op: Operation) -> None:
    """Reports the first lane whose condition is false, in row-major order."""
    condition = op.operands[0]
    shape = shape_of(condition.type)
    described = (("i1", shape, False, False),)
    message = str(op.attributes["message"])
    site = e.add_site(Site(CallbackKind.ASSERT, op.location, message, described))
    cell = e.allocate(8)

    def check(at: Coords) -> None:
        with e.fresh_memo():
            ok = e.vector(e.operand(condition, at))
            linear = _linear(e, at, shape)
        b = e.b
        fails, fine = b.label("failed"), b.label("held")
        b.cond_branch(ok, fine, fails)
        b.start(fails)
        p = b.emit(f"getelementptr inbounds i8, ptr %arena, i64 {cell}")
        b.do(f"store i64 {linear}, ptr {p}, align 8")
        call_back(e, CallbackKind.ASSERT, site, p)
        b.branch(fine)
        b.start(fine)

    if shape:
        for_each_chunk(e.b, traversal(shape, 1), check)
    else:
        check(())


def _linear(e: Emitter, at: Coords, shape: tuple[int, ...]) -> str:
    index = "0"
    for axis, extent in zip(at, shape, strict=True):
        index = e.iadd("i32", e.imul("i32", index, str(extent)), axis.base)
    return e.convert_int(index, "i32", "i64")


@root("tt.histogram")
def histogram(e: Emitter, op: Operation) -> None:
    """Counts per bin; values outside the bins are not counted."""
    source, *mask = op.operands
    slot = e.slot(op.result)
    bins = slot.shape[0]
    e.fill(slot, lambda at: uniform(slot.element, "0", at[0].width))
    type = register_type(element_type(source.type))

    def count(at: Coords) -> None:
        b = e.b
        with e.fresh_memo():
            value = e.vector(e.operand(source, at))
            inside = b.emit(f"icmp ult {type} {value}, {bins}")
            if mask:
                inside = b.emit(f"and i1 {inside}, {e.vector(e.operand(mask[0], at))}")
        then, done = b.label("count"), b.label("counted")
        b.cond_branch(inside, then, done)
        b.start(then)
        wide = e.convert_int(value, type, "i64", signed=False)
        base = b.emit(f"getelementptr inbounds i8, ptr %arena, i64 {slot.offset}")
        p = b.emit(f"getelementptr inbounds {slot.stored_type}, ptr {base}, i64 {wide}")
        old = b.emit(f"load {slot.stored_type}, ptr {p}")
        b.do(f"store {slot.stored_type} {b.emit(f'add {slot.stored_type} {old}, 1')}, ptr {p}")
        b.branch(done)
        b.start(done)

    for_each_chunk(e.b, traversal(shape_of(source.type), 1), count)


# ---- calls of functions marked noinline


@root("tt.call")
def call(e: Emitter, op: Operation) -> None:
    """Calls another function: scalars by value, tiles by address of their slots."""
    callee = e.callees.get(str(op.attributes["callee"]))
    if callee is None:
        raise UnsupportedError("a recursive call", op.location)
    b = e.b
    frame = e.allocate(callee.arena_bytes)
    arena = b.emit(f"getelementptr inbounds i8, ptr %arena, i64 {frame}")
    arguments = ["ptr %launch", "i64 %program", "i32 %px", "i32 %py", "i32 %pz", f"ptr {arena}"]
    if e.prober is not None:
        arguments.append("ptr %probe")
    for value in op.operands:
        if value.is_tensor:
            arguments.append(f"ptr {_address(e, _printable(e, value))}")
        else:
            arguments.append(f"{register_type(value.type)} {e.scalar(value)}")
    for result in op.results:
        if result.is_tensor:
            arguments.append(f"ptr {_address(e, e.slot(result))}")
    answer = b.emit(f"call {callee.return_type} @{callee.symbol}({', '.join(arguments)})")
    status = b.emit(f"extractvalue {callee.return_type} {answer}, 0")
    leave_unless_zero(e, status)
    position = 1
    for result in op.results:
        if not result.is_tensor:
            e.set_scalar(result, b.emit(f"extractvalue {callee.return_type} {answer}, {position}"))
            position += 1


def _address(e: Emitter, slot: Slot) -> str:
    return e.b.emit(f"getelementptr inbounds i8, ptr {slot.base}, i64 {slot.offset}")


@fused("tt.unsplat")
def unsplat(e: Emitter, op: Operation, index: int, at: Coords) -> Chunk:
    source = op.operands[0]
    with e.fresh_memo():
        chunk = e.evaluate(source, origin(len(shape_of(source.type))))
    return uniform(chunk.element, e.vector(chunk), 1)
