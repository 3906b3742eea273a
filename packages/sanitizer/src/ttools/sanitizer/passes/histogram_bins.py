"""The pass for `oob_bin`: values of a histogram for which there is no bin.

Triton does not define what happens to such values. Code for NVIDIA GPUs drops them; code for AMD
GPUs uses only their lowest bits, so that they are counted as other values.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.ir import Module, Operation, shape_of
from ttools.ir.dialects.traits import COUNTS
from ttools.ir.rewriting import Rewriter
from ttools.sanitizer.analysis.dataflow import operations
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.lanes import within


def histograms(module: Module) -> Sequence[Operation]:
    """Return the histograms of a kernel."""
    return [op for op in operations(module.kernel) if op.has(COUNTS)]


def apply(module: Module) -> list[Note]:
    """Insert the checks into a module without calls."""
    rewriter = Rewriter()
    for op in histograms(module):
        values, (bins,) = op.operands[0], shape_of(op.result.type)
        b = rewriter.before(op)
        # MLIR's integers are signless. Signed comparisons are used so that findings show signed
        # values.
        below = b.compare("slt", values, b.constant(values.type, 0))
        above = b.compare("sge", values, b.constant(values.type, bins))
        defect = Defect(
            check="initcheck",
            kind="oob_bin",
            message=f"`tl.histogram` counts a value outside its {bins} bins",
            location=op.location,
        )
        insert_check(b, within(b, b.any_of([below, above]), op.mask), defect, [("value", values)])
    rewriter.apply()
    return []
