"""Maps of the tensors in findings, which show the programs that read and wrote each element.

The maps are computed from the log of accesses of one launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from ttools.core.findings.findings import Finding
from ttools.core.reports.tensor_map import TOUCH, TensorMap, Touches, fold
from ttools.core.spec import LaunchSpec
from ttools.interpreter.abi.region import Region
from ttools.interpreter.runtime.monitor import Monitor
from ttools.sanitizer.races import Records

#: Maximum number of maps in a report; it limits the size of HTML pages.
MAPS_KEPT = 24


def tensor_maps(
    findings: Sequence[Finding],
    monitor: Monitor,
    spec: LaunchSpec,
    regions: Sequence[Region],
    known: Set[str],
) -> Iterator[TensorMap]:
    """Yield a map for each tensor that an error or warning of one launch refers to.

    Args:
        findings: Findings of the launch.
        monitor: Records of the launch; if it has no accesses, there are no maps.
        spec: Grid and arguments of the launch.
        regions: Memory of the arguments, in order.
        known: Names of the arguments that already have a map.
    """
    wanted = {f.argument.name for f in findings if f.argument and f.severity != "note"} - known
    if not wanted:
        return
    accesses, _ = monitor.records()
    if not len(accesses):
        return
    writes = np.array([site.kind == "store" for site in monitor.sites], np.bool_)
    for index, name in enumerate(spec.names):
        start, end = regions[index].storage
        if name in wanted and regions[index].item > 0 and start < end:
            argument = spec.argument(index)
            assert argument is not None
            item = regions[index].item
            touches = _touches(accesses, writes, start, end, item)
            if not len(touches):
                continue  # loads from memory that is never stored to are not recorded
            yield fold(spec.kernel, argument, -(-(end - start) // item), touches)


def _touches(
    accesses: Records, writes: NDArray[np.bool_], start: int, end: int, item: int
) -> Touches:
    """Return the accesses to `[start, end)`, with positions counted in elements of `item` bytes."""
    inside = accesses[(accesses["start"] < end) & (accesses["end"] > start)]
    touches = np.empty(len(inside), TOUCH)
    touches["start"] = (inside["start"] - start) // item
    touches["stop"] = -((start - inside["end"]) // item)
    touches["program"] = inside["program"]
    touches["writes"] = writes[inside["site"]]
    return touches
