"""The cause of undefined lanes that reach an access because the access lacks the load's mask.

In the following kernel, the store leaves its tensor, and stores lanes that the load leaves
undefined. The mask `m` at the store would prevent both:

    m = offs < n
    x = tl.load(x_ptr + offs, mask=m)
    tl.store(o_ptr + offs, x)

The cause of the out-of-bounds store is known from `failed_access`: `offs` is not bounded. It is the
cause of the undefined lanes, too, if the mask of the load excludes all lanes outside. This is
evaluated in the program of the witness and in a few others.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ttools.core.findings.causes import Cause
from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.positions import position_of
from ttools.interpreter.runtime.monitor import Witness
from ttools.ir import Operation, shape_of
from ttools.sanitizer.causes.failed_access import (
    accesses_at,
    lane_values,
    loops_around,
    some_programs,
)
from ttools.sanitizer.causes.masks import WrongLanes
from ttools.sanitizer.launch.checked import CheckedLaunch


def cause_of_undefined_lanes(
    checked: CheckedLaunch, witness: Witness, use: SourceLocation | None
) -> Cause | None:
    """Return the cause of undefined lanes of a load that reach an access; None if it is unknown.

    Args:
        checked: The launch, whose out-of-bounds accesses have been explained.
        witness: An undefined lane, at the location of the load.
        use: Location of the access that the lanes reach.
    """
    place = position_of(use)
    for explained in checked.causes:
        wrong = explained.wrong
        if place is None or position_of(explained.access) != place:
            continue
        if explained.cause.kind != "index" or wrong is None:
            continue
        accesses, loads = accesses_at(checked, use), accesses_at(checked, witness.site.location)
        if len(accesses) != 1 or len(loads) != 1:
            continue
        if _excludes(checked, witness, loads[0], accesses[0], wrong):
            return explained.cause
    return None


def _excludes(
    checked: CheckedLaunch, witness: Witness, load: Operation, access: Operation, wrong: WrongLanes
) -> bool:
    """Return whether the mask of a load excludes all lanes of an access that are outside."""
    shape, loops = shape_of(access.address.type), loops_around(access)
    if load.mask is None or shape_of(load.mask.type) != shape:
        return False
    if len(loops) != len(witness.iterations):
        return False
    programs = some_programs(checked, access, witness.program)
    values = lane_values(checked, programs, dict(zip(loops, witness.iterations, strict=True)))
    outside, mask = wrong.in_access(access, values), values.of(load.mask)
    if outside is None or mask is None or prod(shape) == 0:
        return False
    tile = (len(programs), *shape)
    outside = np.broadcast_to(outside, tile)
    return bool(outside.any()) and not (outside & np.broadcast_to(mask != 0, tile)).any()
