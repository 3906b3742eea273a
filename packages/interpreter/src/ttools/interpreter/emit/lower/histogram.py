"""Histograms: each lane adds to its bin, one after the other."""

from __future__ import annotations

from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.llvm.builder import register_type
from ttools.interpreter.llvm.value import ARENA, integer
from ttools.interpreter.tiles.chunk import Coords, uniform
from ttools.interpreter.tiles.loops import for_each_chunk, traversal
from ttools.ir import Operation, shape_of


@root("tt.histogram")
def histogram(e: Emitter, op: Operation) -> None:
    """Count the values in each bin; values outside the bins are not counted."""
    source, mask = op.operands[0], op.mask
    slot = e.slot(op.result)
    bins = slot.shape[0]
    zero = integer(0, register_type(slot.element))
    e.fill(slot, lambda at: uniform(slot.element, zero, at[0].width))

    def count(at: Coords) -> None:
        b = e.b
        with e.fresh_memo():
            value = e.vector(e.operand(source, at))
            inside = b.compare("icmp ult", value, bins)
            if mask is not None:
                inside = b.binary("and", inside, e.vector(e.operand(mask, at)))
        with b.only_if(inside, "count", "counted"):
            wide = e.integers.convert(value, "i64", signed=False)
            base = b.offset(ARENA, slot.offset)
            p = b.element(slot.stored_type, base, wide)
            old = b.load(slot.stored_type, p)
            b.store(b.binary("add", old, 1), p)

    for_each_chunk(e.b, traversal(shape_of(source.type), 1), count)
