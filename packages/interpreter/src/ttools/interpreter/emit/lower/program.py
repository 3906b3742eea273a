"""Program ids, clocks, prints and assertions."""

from __future__ import annotations

from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.emit.callback import call_back
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.llvm.value import ARENA, PROGRAM_IDS, integer
from ttools.interpreter.tiles.chunk import Coords
from ttools.interpreter.tiles.loops import for_each_chunk, traversal
from ttools.ir import Operation, element_type, shape_of


@root("tt.get_program_id")
def program_id(e: Emitter, op: Operation) -> None:
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    e.set_scalar(op.result, PROGRAM_IDS[axis])


@root("tt.get_num_programs")
def num_programs(e: Emitter, op: Operation) -> None:
    axis = op.attributes["axis"]
    assert isinstance(axis, int)
    e.set_scalar(op.result, launch_field(e.b, f"grid_{'xyz'[axis]}"))


@root("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents")
def grid_dependency(e: Emitter, op: Operation) -> None:
    """Emit nothing, because each launch ends before the next one begins."""


@root("llvm.intr.assume")
def assume(e: Emitter, op: Operation) -> None:
    """Emit nothing; the assumption is not used, so a wrong one is harmless."""


@root("ttools.descriptor")
def descriptor(e: Emitter, op: Operation) -> None:
    """Emit nothing; this operation marks a tensor descriptor for passes."""


#: The number of the clock for `clock_gettime`, and the size in bytes of its result, which consists
#: of seconds and nanoseconds.
_MONOTONIC, _TIMESPEC_BYTES = 1, 16


@root("ttools.nanoseconds")
def nanoseconds(e: Emitter, op: Operation) -> None:
    b = e.b
    place = b.offset(ARENA, e.allocate(_TIMESPEC_BYTES))
    b.intrinsic("clock_gettime", "i32", integer(_MONOTONIC, "i32"), place)
    seconds, rest = (b.load("i64", b.offset(place, at), 8) for at in (0, 8))
    e.set_scalar(op.result, b.binary("add", b.binary("mul", seconds, 1_000_000_000), rest))


@root("tt.print")
def print_(e: Emitter, op: Operation) -> None:
    b = e.b
    signed = op.attributes.get("isSigned", ())
    described = []
    table = e.allocate(8 * max(1, len(op.operands)))
    for n, operand in enumerate(op.operands):
        slot = e.plain_slot(operand)
        address = b.offset(slot.base, slot.offset)
        cell = b.offset(ARENA, table + 8 * n)
        b.store(address, cell, 8)
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
    payload = b.offset(ARENA, table)
    call_back(e, CallbackKind.PRINT, site, payload)


@root("tt.assert")
def assert_(e: Emitter, op: Operation) -> None:
    """Report the first lane whose condition is false, in row-major order."""
    condition = op.operands[0]
    shape = shape_of(condition.type)
    described = (("i1", shape, False, False),)
    message = str(op.attributes["message"])
    site = e.add_site(Site(CallbackKind.ASSERT, op.location, message, described))
    cell = e.allocate(8)

    def check(at: Coords) -> None:
        with e.fresh_memo():
            ok = e.vector(e.operand(condition, at))
            digits = zip((axis.base for axis in at), shape, strict=True)
            linear = e.integers.convert(e.integers.linear_index(digits), "i64")
        b = e.b
        fails, fine = b.label("failed"), b.label("held")
        b.cond_branch(ok, fine, fails)
        b.start(fails)
        p = b.offset(ARENA, cell)
        b.store(linear, p, 8)
        call_back(e, CallbackKind.ASSERT, site, p)
        b.branch(fine)
        b.start(fine)

    for_each_chunk(e.b, traversal(shape, 1), check)
