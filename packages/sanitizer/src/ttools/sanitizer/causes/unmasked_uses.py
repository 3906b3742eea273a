"""The cause of undefined lanes that reach an access because the access lacks the load's mask.

In the following kernel, the store leaves its tensor, and stores lanes that the load leaves
undefined. The mask `m` at the store would prevent both:

    m = offs < n
    x = tl.load(x_ptr + offs, mask=m)
    tl.store(o_ptr + offs, x)

The cause of the out-of-bounds store is known from `failed_access`: `offs` is not bounded. It is the
cause of the undefined lanes, too, if the mask of the load excludes all lanes of the store that lie
outside. This is evaluated in the program in which the store failed first.
"""

from __future__ import annotations

import numpy as np

from ttools.core.findings.causes import Cause
from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.positions import position_of
from ttools.ir import Operation, shape_of
from ttools.sanitizer.causes.failed_access import accesses_at, lane_values, loops_around
from ttools.sanitizer.causes.masks import Explained
from ttools.sanitizer.launch.checked import CheckedLaunch


def cause_of_undefined_lanes(
    checked: CheckedLaunch, load: SourceLocation | None, use: SourceLocation | None
) -> Cause | None:
    """Return the cause of undefined lanes of a load that reach an access; None if it is unknown.

    Args:
        checked: The launch, whose out-of-bounds accesses have been explained.
        load: Location of the load.
        use: Location of the access that the lanes reach.
    """
    loads, place = accesses_at(checked, load), position_of(use)
    if len(loads) != 1 or place is None:
        return None
    for explained in checked.causes:
        witness = explained.witness
        if explained.cause.kind != "index" or witness is None:
            continue
        if position_of(witness.site.location) == place and _excludes(checked, loads[0], explained):
            return explained.cause
    return None


def _excludes(checked: CheckedLaunch, load: Operation, explained: Explained) -> bool:
    """Return whether the mask of a load excludes all lanes of a failed access that are outside."""
    witness, outside = explained.witness, explained.outside
    if witness is None or outside is None or load.mask is None:
        return False
    accesses = accesses_at(checked, witness.site.location)
    if len(accesses) != 1 or shape_of(load.mask.type) != shape_of(accesses[0].address.type):
        return False
    loops = loops_around(accesses[0])
    if len(loops) != len(witness.iterations):
        return False
    program = np.array([checked.spec.coordinates(witness.program)], np.int64)
    values = lane_values(checked, program, dict(zip(loops, witness.iterations, strict=True)))
    mask = values.of(load.mask)
    if mask is None:
        return False
    admitted = np.broadcast_to(mask[0] != 0, outside.shape)
    return bool(outside.any()) and not (outside & admitted).any()
