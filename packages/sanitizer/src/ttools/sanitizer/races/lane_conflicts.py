"""Elements that several lanes of one store write, regardless of the values.

The log contains the accesses of a program in program order. Within one execution of a store, lane
numbers ascend. A lane number that does not ascend therefore begins a new execution. Consecutive
executions whose masks enable ascending, disjoint sets of lanes cannot be distinguished from a
single execution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ttools.interpreter.runtime.access_log import more_lanes
from ttools.sanitizer.races.integer_columns import changes, distinct, order_by
from ttools.sanitizer.races.records import AccessRef, Ints, Records, SharedLanes, Site


def shared_lanes(
    accesses: Records, sites: Sequence[Site], operations: Sequence[int]
) -> list[SharedLanes]:
    """Return the stores whose lanes share elements, one entry for each operation.

    Args:
        accesses: `ACCESS` records; the records of each program are in program order.
        sites: Sites of the launch; the records index them.
        operations: Operation to which each site belongs. Unrolled code has several sites for one
            operation.
    """
    tiles = np.array([site.kind == "store" and site.numel > 1 for site in sites], np.bool_)
    mine = accesses.take(np.flatnonzero(tiles[accesses["site"]]))
    if len(mine) < 2:
        return []
    operation = np.array(operations, np.int64)[mine["site"]]
    execution = _executions(mine, operation)
    order = order_by(execution, mine["start"])
    mine, execution, operation = mine.take(order), execution[order], operation[order]
    bounds = distinct(np.concatenate([mine["start"], mine["end"]]))
    base = execution * len(bounds)
    start = base + np.searchsorted(bounds, mine["start"])
    reach = np.maximum.accumulate(base + np.searchsorted(bounds, mine["end"]))
    meets = np.flatnonzero(start[1:] < reach[:-1]) + 1
    until = bounds[(reach[meets - 1] - base[meets]).clip(max=len(bounds) - 1)]
    shared = np.zeros(len(mine), np.int64)
    shared[meets] = np.minimum(until, mine["end"][meets]) - mine["start"][meets]
    return [_entry(mine, part, shared, sites) for part in _by_operation(meets, operation, mine)]


def _executions(mine: Records, operation: Ints) -> Ints:
    """Return, for each record, the number of the store execution to which it belongs."""
    program, site = mine["program"], mine["site"]
    order = order_by(program, site)
    lane = mine["lane"][order]
    again = np.zeros(len(order), np.bool_)
    again[1:] = lane[1:] <= lane[:-1]
    fresh = changes(program[order], site[order])
    again |= fresh
    for name in ("epoch", "barrier"):
        again |= changes(mine[name][order])
    ordinal: Ints = np.cumsum(again, dtype=np.int64)
    ordinal = ordinal - np.repeat(
        ordinal[fresh], np.diff(np.append(np.flatnonzero(fresh), len(order)))
    )
    ordinals = np.empty(len(order), np.int64)
    ordinals[order] = ordinal
    # The sites of an unrolled operation count as one execution if each site was executed only once.
    order = order_by(program, operation)
    heads = np.flatnonzero(changes(program[order], operation[order]))
    length = np.diff(np.append(heads, len(order)))
    repeated = np.repeat(np.maximum.reduceat(ordinals[order], heads) > 0, length)
    apart = np.empty(len(order), np.int64)
    apart[order] = np.where(repeated, site[order] + 1, 0)
    order = order_by(program, operation, apart, ordinals)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(
        changes(program[order], operation[order], apart[order], ordinals[order])
    )
    return numbers - 1


def _by_operation(meets: Ints, operation: Ints, mine: Records) -> list[Ints]:
    """Group the records that overlap an earlier record by operation, lowest program first."""
    order = order_by(operation[meets], mine["program"][meets])
    meets = meets[order]
    heads = np.flatnonzero(changes(operation[meets]))
    return np.split(meets, heads[1:]) if len(heads) else []


def _entry(mine: Records, meets: Ints, shared: Ints, sites: Sequence[Site]) -> SharedLanes:
    first = mine[meets[0]]
    site = sites[int(first["site"])]
    return SharedLanes(
        AccessRef(
            site=int(first["site"]),
            program=int(first["program"]),
            lane=int(first["lane"]) % site.numel,
            address=int(first["start"]),
            epoch=int(first["epoch"]),
        ),
        count=int((-(-shared[meets] // site.size) + more_lanes(mine[meets])).sum()),
        programs=len(distinct(mine["program"][meets].astype(np.int64))),
    )
