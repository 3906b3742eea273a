"""`ttools.check`: reports the lanes in which a condition holds, with named values.

Rewrites of instruments insert this operation; Triton has none. Its operands are the condition, an
i1 scalar or tensor, and values to show. Its attributes are `check`, `kind`, `message`, `argument`,
`names` and `help`.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.probe_layout import PAYLOAD_ADDRESSES
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.event import Destination, Variable, payload_bytes, report
from ttools.interpreter.emit.instruments.probe import lane_bits
from ttools.interpreter.emit.out_of_line import out_of_line
from ttools.interpreter.llvm.value import NOTHING, SSAValue, integer
from ttools.interpreter.tiles.chunk import Affine, Coords
from ttools.interpreter.tiles.loops import for_each_chunk
from ttools.ir import Operation, shape_of


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
    # The classes and the active lanes come first, as in every payload; there are no addresses.
    first = PAYLOAD_ADDRESSES
    payload = e.allocate(payload_bytes(first, at, len(e.iterations), variables))
    number = len(prober.sites)
    shown = ("check", "kind", "message", "argument", "origins", "help", "severity")
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
