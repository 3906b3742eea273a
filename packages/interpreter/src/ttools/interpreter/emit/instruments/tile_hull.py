"""The hull of a tile's addresses, by which the whole tile is tested once before a loop over chunks.

If each address is linear in the tile's coordinates, the lowest and the highest address belong to
corners: of the tile, or of the box that a mask admits.
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
    """The addresses of a tile's active lanes, which are between `start` and `start + span`.

    Attributes:
        start: The lowest address, an i64.
        span: Bytes from there to the highest address, an i64.
        guard: An i1; the hull is valid only if it is set. None if nothing can wrap.
        idle: An i1 that is set if no lane is active and the hull is meaningless; None if that is
            never known.
        exact: True if active lanes touch both ends, unless the tile may wrap. Otherwise the mask
            may admit fewer lanes than its box.
        form: The linear form of the addresses.
        box: The box of coordinates that the mask admits.
    """

    start: SSAValue
    span: SSAValue
    guard: SSAValue | None
    idle: SSAValue | None
    exact: bool
    form: Form
    box: MaskBox


def tile_hull(e: Emitter, pointer: Value, mask: Value | None) -> Hull | None:
    """Emit the hull of a tile of pointers; None if it is not linear.

    The values that the tile is computed from must be defined at the builder's current place.
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
    for number in dict.fromkeys(linear.guards):
        guard = number if guard is None else e.b.binary("and", guard, number)
    return Hull(start, span, guard, box.idle(), box.exact, form, box)
