"""`ttools.count`: adds the lanes of a tile to a counter of the launch, without a report.

Rewrites that count insert this operation; Triton has none. Its operands are i1 scalars or tensors.
The counter grows by the product of the numbers of lanes that hold in each, and of the attribute
`factor`. The attribute `number` identifies the counter.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.abi.probe_layout import COUNTER_BYTES, MONITOR
from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.instruments.probe import lane_bits, load
from ttools.interpreter.llvm.value import ARENA, PROBE, SSAValue, integer
from ttools.interpreter.tiles.chunk import Coords
from ttools.interpreter.tiles.loops import for_each_chunk, traversal
from ttools.ir import Operation, Value, shape_of


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
    """Return the number of lanes that hold, as an i64."""
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

    # The longest axis in vectors: tiles of one column are many.
    order = tuple(sorted(range(len(shape)), key=lambda axis: (shape[axis], axis)))
    for_each_chunk(b, traversal(shape, e.options.lanes, order), body)
    return b.load("i64", cell, 8)
