"""Whether a whole tile of addresses lies inside its memory, tested once before a loop over chunks.

If each address is a sum of the tile's coordinates with factors that are the same in all of the
tile, the lowest and the highest belong to corners: of the tile, or of the box that a mask leaves of
it. Must not know what is accessed, nor what happens where the test fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.linear_form import Form, FormDomain
from ttools.interpreter.emit.instruments.mask_box import MaskBox
from ttools.interpreter.llvm.value import SSAValue, integer
from ttools.ir import Value, shape_of


@dataclass(frozen=True)
class Hull:
    """The addresses of a tile's active lanes lie between `start` and `start + span`.

    Attributes:
        start: an i64.
        span: bytes from there to the highest address, an i64.
        guard: an i1 without which nothing is known; None where nothing can wrap.
        idle: an i1: no lane is active, and the addresses are of no meaning; None if that is not
            known of any.
        exact: active lanes touch both ends, unless the tile may wrap; else a mask may leave less
            than what was understood of it.
        form: of the addresses.
        box: which coordinates the mask leaves, at most.
    """

    start: SSAValue
    span: SSAValue
    guard: SSAValue | None
    idle: SSAValue | None
    exact: bool
    form: Form
    box: MaskBox


def tile_hull(e: Emitter, pointer: Value, mask: Value | None) -> Hull | None:
    """Emits what tells the hull of a tile of pointers; None where the hull is not known.

    The builder stands where everything is defined that the tile is computed from.
    """
    linear, shape = FormDomain(e), shape_of(pointer.type)
    form = linear.form(pointer)
    if form is None:
        return None
    box = MaskBox(linear, shape)
    if mask is not None:
        box.restrict(mask)
    start, span = form.base, integer(0, "i64")
    for axis, step in enumerate(form.steps):
        if step == "0":
            continue
        low = e.integers.multiply(step, box.first(axis))
        high = e.integers.multiply(step, e.integers.add(box.end(axis), -1))
        if step.startswith("%"):
            low, high = linear.lesser(low, high), linear.greater(low, high)
        elif int(step) < 0:
            low, high = high, low
        start = e.integers.add(start, low)
        span = e.integers.add(span, e.integers.subtract(high, low))
    guard = None
    for each in dict.fromkeys(linear.guards):
        guard = each if guard is None else e.b.binary("and", guard, each)
    return Hull(start, span, guard, box.idle(), box.exact, form, box)
