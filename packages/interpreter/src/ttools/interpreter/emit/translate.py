"""Translation of another device's addresses through a table of the launch.

Kernels may load pointers from memory, such as from a table of matrices. If these are addresses of a
GPU and the launch runs on copies on the host, the address of each active lane is looked up in a
table before it is used. If an address is outside all known storages, the program terminates with a
report instead of crashing.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.emit.callback import call_back
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.llvm.value import ARENA, FALSE, TRUE, SSAValue, integer, poison
from ttools.interpreter.tiles.chunk import Chunk, Vector
from ttools.ir import Operation, Value

_LOOKUP = """define internal i64 @ttools.translate(ptr %table, i64 %address) #0 {
entry:
  %count = load i64, ptr %table, align 8
  br label %next
next:
  %n = phi i64 [0, %entry], [%following, %other]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %look, label %unknown
look:
  %offset = mul i64 %n, 24
  %first = add i64 %offset, 8
  %row = getelementptr inbounds i8, ptr %table, i64 %first
  %start = load i64, ptr %row, align 8
  %p1 = getelementptr inbounds i8, ptr %row, i64 8
  %end = load i64, ptr %p1, align 8
  %p2 = getelementptr inbounds i8, ptr %row, i64 16
  %offset = load i64, ptr %p2, align 8
  %above = icmp uge i64 %address, %start
  %below = icmp ult i64 %address, %end
  %inside = and i1 %above, %below
  br i1 %inside, label %found, label %other
other:
  %following = add i64 %n, 1
  br label %next
found:
  %host = add i64 %address, %offset
  ret i64 %host
unknown:
  ret i64 0
}"""


def translated(
    e: Emitter, op: Operation, pointer: Value, chunk: Chunk, mask: SSAValue | None
) -> Chunk:
    """Return the host addresses of a chunk that `op` is about to access.

    Args:
        pointer: The operand that contains the addresses. Its provenance determines whether they are
            looked up.
        chunk: The addresses of the lanes.
        mask: The active lanes (i1); all if None.
    """
    if not e.signature.is_foreign(pointer):
        return chunk
    b, width = e.b, chunk.width
    b.define("ttools.translate", _LOOKUP)
    parameters = launch_field(b, "parameters")
    cell = b.offset(parameters, 8 * e.signature.parameter_count)
    table = b.load("ptr", cell, 8)
    addresses = e.vector(chunk)
    result, bad = poison(f"<{width} x i64>"), FALSE
    first_bad = b.binary("add", integer(0, "i64"), 0)
    for lane in range(width):
        address = b.shuffle(addresses, [lane])
        active = TRUE if mask is None else b.shuffle(mask, [lane])
        host = b.call("i64", "@ttools.translate", table, address)
        unknown = b.compare("icmp eq", host, 0)
        failing = b.binary("and", unknown, active)
        first_bad = b.select(failing, address, first_bad)
        bad = b.binary("or", bad, failing)
        result = host if width == 1 else b.insert(result, host, lane)
    _report(e, op, bad, first_bad)
    return Vector(chunk.element, result)


def _report(e: Emitter, op: Operation, bad: SSAValue, address: SSAValue) -> None:
    b = e.b
    with b.only_if(bad, "foreign", "known"):
        payload = b.offset(ARENA, e.allocate(8))
        b.store(address, payload, 8)
        access = op.declaration.noun or "atomic"
        site = e.add_site(Site(CallbackKind.BAD_ADDRESS, op.location, access))
        call_back(e, CallbackKind.BAD_ADDRESS, site, payload)
