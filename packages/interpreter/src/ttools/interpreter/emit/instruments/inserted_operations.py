"""Operations that are not part of Triton; rewrites of the IR insert them into a kernel.

`ttools.check` reports the lanes in which a condition holds, with named values. Its operands are the
condition, an i1 scalar or tensor, and values to show. Its attributes are `check`, `kind`,
`message`, `argument`, `names` and `help`.

`ttools.count` adds a number of lanes to a counter of the launch, without a report. Its operands are
i1 scalars or tensors. For each operand, the lanes in which it is set are counted. The counter grows
by the product of these counts and the attribute `factor`. The attribute `number` identifies the
counter.

`ttools.watch` passes the value of a variable, with all lanes, to an observer of the program. Its
operands are the value and, for a load that leaves lanes undefined, the mask. Its attribute `text`
is passed to the observer. The value is evaluated again for this purpose, so that the code of the
kernel itself does not change.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import CallbackKind, ProbeSite, Site
from ttools.interpreter.abi.probe_layout import COUNTER_BYTES, MONITOR, PAYLOAD_ADDRESSES
from ttools.interpreter.emit.callback import call_back
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.event import (
    Destination,
    Variable,
    iterations,
    payload_bytes,
    report,
)
from ttools.interpreter.emit.instruments.probe import WATCH, is_watched, lane_bits, load
from ttools.interpreter.emit.out_of_line import out_of_line
from ttools.interpreter.llvm.value import ARENA, NOTHING, PROBE, PROGRAM, SSAValue, integer
from ttools.interpreter.tiles.chunk import Affine, Coords
from ttools.interpreter.tiles.loops import for_each_chunk, traversal
from ttools.ir import Operation, Value, element_type, shape_of


@root("ttools.check")
def check(e: Emitter, op: Operation) -> None:
    def body(at: Coords) -> None:
        with e.fresh_memo():
            _check_chunk(e, op, at)

    for_each_chunk(e.b, e.traversal(shape_of(op.operands[0].type)), body)


def _check_chunk(e: Emitter, op: Operation, at: Coords) -> None:
    prober, b = e.prober, e.b
    assert prober is not None
    condition, *values = op.operands
    chunk = e.operand(condition, at)
    width = chunk.width
    if isinstance(chunk, Affine) and chunk.base == "false" and chunk.is_uniform:
        return
    names = op.attributes.get("names", ())
    assert isinstance(names, tuple)
    variables = [
        Variable(str(name), value, at if value.is_tensor else ())
        for name, value in zip(names, values, strict=True)
    ]
    # Like every payload, this one begins with the bit sets of the classes and of the active lanes.
    # A check has no addresses.
    first = PAYLOAD_ADDRESSES
    payload = e.allocate(payload_bytes(first, at, len(e.iterations), variables))
    number = len(prober.sites)
    shown = ("check", "kind", "message", "argument", "origin", "origins", "help", "severity")
    prober.sites.append(
        ProbeSite(
            kind="check",
            operation=prober.numbers[op],
            location=op.location,
            size=0,
            shape=shape_of(condition.type),
            lanes=tuple(axis.lanes for axis in at),
            width=width,
            parameter=-1,
            leader=prober.leader(op, e.evaluation),
            attributes=tuple((k, str(op.attributes[k])) for k in shown if k in op.attributes),
        )
    )
    bits = lane_bits(b, e.vector(chunk))

    def emit_report() -> SSAValue:
        for offset in range(0, PAYLOAD_ADDRESSES, 8):
            to.store(b, offset, bits if offset == 0 else integer(0, "i64"))
        report(e, prober, number, to, bits, first, at, variables)
        return NOTHING

    with b.only_if(b.compare("icmp ne", bits, 0), "check", "checked"):
        to = Destination.of(b, number, payload)
        out_of_line(e, emit_report)


@root("ttools.count")
def count(e: Emitter, op: Operation) -> None:
    prober, b = e.prober, e.b
    assert prober is not None
    number = len(prober.sites)
    prober.sites.append(
        ProbeSite(
            kind="check",
            operation=prober.numbers[op],
            location=op.location,
            size=0,
            shape=(),
            lanes=(),
            width=1,
            parameter=-1,
            leader=number,
            attributes=(("count", str(op.attributes["number"])),),
        )
    )
    factor = op.attributes["factor"]
    assert isinstance(factor, int)
    product = integer(factor, "i64")
    for operand in op.operands:
        lanes = _lanes(e, operand)
        product = b.binary("mul", lanes, product)
    counters = load(b, b.load("ptr", PROBE, 8), MONITOR["COUNTERS"], "ptr")
    cell = b.offset(counters, number * COUNTER_BYTES)
    b.change("add", cell, product, "monotonic")


def _lanes(e: Emitter, condition: Value) -> SSAValue:
    """Return the number of lanes in which a condition is set, as an i64."""
    b, shape = e.b, shape_of(condition.type)
    if not shape:
        return b.cast("zext", e.scalar(condition), "i64")
    offset = e.allocate(8)
    cell = b.offset(ARENA, offset)
    b.store(integer(0, "i64"), cell, 8)

    def body(at: Coords) -> None:
        with e.fresh_memo():
            chunk = e.operand(condition, at)
            some = b.overloaded("ctpop", lane_bits(b, e.vector(chunk)))
            before = b.load("i64", cell, 8)
            b.store(b.binary("add", before, some), cell, 8)

    # Traverse the tile along its longest axis, because tiles with a single column are common.
    order = tuple(sorted(range(len(shape)), key=lambda axis: (shape[axis], axis)))
    for_each_chunk(b, traversal(shape, e.options.lanes, order), body)
    return b.load("i64", cell, 8)


@root(WATCH)
def watch(e: Emitter, op: Operation) -> None:
    assert e.prober is not None
    if not e.prober.watches:
        return
    b = e.b
    with b.only_if(is_watched(b, PROGRAM), "watch", "watched"), e.cold(), e.fresh_memo():
        _hand_over(e, op)


def _hand_over(e: Emitter, op: Operation) -> None:
    b = e.b
    slots = [e.plain_slot(operand) for operand in op.operands]
    addresses = [b.offset(slot.base, slot.offset) for slot in slots]
    payload = e.allocate(8 * (len(slots) + 1 + len(e.iterations)))
    words = [*addresses, integer(len(e.iterations), "i64"), *iterations(e)]
    for n, word in enumerate(words):
        cell = b.offset(ARENA, payload + 8 * n)
        b.store(word, cell, 8)
    described = tuple(
        (str(element_type(operand.type)), shape_of(operand.type), False, True)
        for operand in op.operands
    )
    site = e.add_site(Site(CallbackKind.WATCH, op.location, str(op.attributes["text"]), described))
    call_back(e, CallbackKind.WATCH, site, b.offset(ARENA, payload))
