"""Causes of races: lanes that a mask wrongly admits, barriers, and updates that are not atomic.

The out-of-bounds accesses of a launch show which lanes a mask wrongly admits. A race is a
consequence of the mask if it disappears when the accesses of these lanes are ignored. Races between
the threads of a program have a common cause if one barrier would prevent all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from ttools.core.findings.causes import Cause
from ttools.core.location import source_line
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.analysis.lane_values import Numbers
from ttools.interpreter.analysis.launch_values import KernelValues, Pointer
from ttools.interpreter.analysis.linear import Linear
from ttools.interpreter.runtime.access_log import more_lanes
from ttools.ir import Operation, Value
from ttools.sanitizer.causes.failed_access import (
    accesses_at,
    lane_values,
    loops_around,
    scalars_of,
)
from ttools.sanitizer.causes.masks import WrongLanes
from ttools.sanitizer.causes.updates import cause_of_update
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.races.records import Conflict, Records

#: Maximum number of elements of an array; races of larger launches are not traced back to masks.
_MOST_ELEMENTS = 1 << 24


def causes_of(
    checked: CheckedLaunch,
    sites: Sequence[ProbeSite],
    records: Records,
    conflicts: Sequence[Conflict],
    find: Callable[[Records], Iterable[Conflict]],
) -> list[Cause | None]:
    """Return the cause of each conflict, or None.

    Args:
        sites: Sites of the launch; the records index them.
        records: The accesses in which the conflicts were found.
        find: Finds the conflicts in a subset of these accesses.
    """
    causes: list[Cause | None] = [None] * len(conflicts)
    for cause, wrong in _wrong_lanes(checked):
        rest = _without(checked, sites, records, wrong) if conflicts else None
        if rest is None:
            continue
        remaining = {_pair(conflict, sites) for conflict in find(rest)}
        for n, conflict in enumerate(conflicts):
            if causes[n] is None and _pair(conflict, sites) not in remaining:
                causes[n] = cause
    for n, conflict in enumerate(conflicts):
        pair = [sites[access.site] for access in (conflict.first, conflict.second)]
        if causes[n] is None:
            places = [site.location for site in pair]
            causes[n] = cause_of_update(checked, places, pair[1].parameter)
    for n, cause in _missing_barriers(checked, sites, conflicts).items():
        causes[n] = causes[n] or cause
    return causes


def _pair(conflict: Conflict, sites: Sequence[ProbeSite]) -> tuple[object, ...]:
    accesses = (conflict.first, conflict.second)
    return conflict.kind, *sorted(sites[access.site].operation for access in accesses)


# ---- masks


def _wrong_lanes(checked: CheckedLaunch) -> list[tuple[Cause, WrongLanes]]:
    """Return the masks and indices that admit lanes outside memory, each with all such lanes."""
    united: dict[Value, tuple[Cause, WrongLanes]] = {}
    for explained in checked.causes:
        wrong = explained.wrong
        if wrong is None:
            continue
        earlier = united.get(wrong.value)
        if earlier is None or wrong.threshold < earlier[1].threshold:
            united[wrong.value] = explained.cause, wrong
    return list(united.values())


def _without(
    checked: CheckedLaunch, sites: Sequence[ProbeSite], records: Records, wrong: WrongLanes
) -> Records | None:
    """Return the records without the lanes that a mask wrongly admits.

    Returns:
        None if no record has such lanes, if it is unknown which lanes they are, or if there are too
        many elements.
    """
    site = records["site"].astype(np.int64)
    size = np.array([max(1, probe.size) for probe in sites], np.int64)[site]
    elements = np.maximum(1, (records["end"].astype(np.int64) - records["start"]) // size)
    affected = {
        number: op
        for number in np.unique(site).tolist()
        if (op := _access_under(checked, sites[number], wrong)) is not None
    }
    is_affected = np.isin(site, list(affected))
    count = np.where(is_affected, elements, 1)
    if not affected or count.sum() > _MOST_ELEMENTS:
        return None
    origin = np.repeat(np.arange(len(records)), count)
    within = np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count)
    split = records.take(origin)
    apart = is_affected[origin]
    split["start"][apart] += (within * size[origin])[apart].astype(split["start"].dtype)
    split["end"][apart] = split["start"][apart] + size[origin][apart].astype(split["end"].dtype)
    split["lane"][apart] += within[apart].astype(split["lane"].dtype)
    keeps = np.ones(len(split), np.bool_)
    for number, op in affected.items():
        rows = np.flatnonzero(site[origin] == number)
        outside = _outside(checked, sites[number], op, wrong, split.take(rows))
        if outside is None:
            return None
        # A record of several lanes at one element is kept, because some of these lanes may be
        # inside.
        keeps[rows] = ~outside | (more_lanes(split.take(rows)) > 0)
    return split.take(np.flatnonzero(keeps))


def _access_under(checked: CheckedLaunch, probe: ProbeSite, wrong: WrongLanes) -> Operation | None:
    """Return the access of a site if it depends on the wrong value; None for other accesses."""
    operations = accesses_at(checked, probe.location)
    return operations[0] if len(operations) == 1 and wrong.is_in(operations[0]) else None


def _outside(
    checked: CheckedLaunch, probe: ProbeSite, op: Operation, wrong: WrongLanes, records: Records
) -> NDArray[np.bool_] | None:
    """Return which records, each of one element, belong to lanes that a mask wrongly admits."""
    programs, row = np.unique(records["program"].astype(np.int64), return_inverse=True)
    ids = np.array([checked.spec.coordinates(int(n)) for n in programs], np.int64).reshape(-1, 3)
    if len(programs) * prod(probe.shape) > _MOST_ELEMENTS:
        return None

    def of_records(tile: Numbers) -> NDArray[np.int64]:
        """Return the element of each record in an array of programs and lanes."""
        tile = np.broadcast_to(tile, (tile.shape[0], *probe.shape))
        walked = tile.transpose(0, *(1 + axis for axis in probe.walk)).reshape(tile.shape[0], -1)
        position = records["lane"].astype(np.int64) % walked.shape[1]
        chosen: NDArray[np.int64] = walked[row if len(walked) > 1 else np.zeros_like(row), position]
        return chosen

    lanes = wrong.in_access(op, lane_values(checked, ids))
    if lanes is not None:
        is_wrong: NDArray[np.bool_] = of_records(lanes.astype(np.int64)) != 0
        return is_wrong
    begin = lane_values(checked, ids, dict.fromkeys(loops_around(op), 0))
    steps = _steps(checked, op, wrong)
    distances, indices = begin.of(op.address), wrong.indices(op, begin)
    if steps is None or distances is None or indices is None:
        return None
    first = checked.launch.raw_parameters[probe.parameter] + of_records(distances)
    iterations, rest = np.divmod(records["start"].astype(np.int64) - first, steps[0])
    if rest.any() or (iterations < 0).any():
        return None
    is_outside: NDArray[np.bool_] = of_records(indices) + iterations * steps[1] >= wrong.threshold
    return is_outside


def _steps(checked: CheckedLaunch, access: Operation, wrong: WrongLanes) -> tuple[int, int] | None:
    """Return by how much an address and a wrong index increase in each iteration of a loop.

    The iteration of an access can then be computed from its address.

    Returns:
        The steps, in bytes and as an index; None if the address or the index is not a linear
        function of the program, the lane and the iteration of exactly one loop.
    """
    if not wrong.is_index:
        return None
    linear = KernelValues(checked.kernel.module.kernel, checked.spec.grid, scalars_of(checked))
    pointer, index = linear.of(access.address), linear.of(wrong.value)
    if not isinstance(pointer, Pointer) or not isinstance(index, Linear):
        return None
    terms = [pointer.distance.terms, index.terms]
    atoms = set(terms[0]) | set(terms[1])
    iterating = [atom for atom in atoms if atom[0] == "iteration"]
    others = {atom[0] for atom in atoms} - {"iteration", "program", "axis"}
    if others or len(iterating) != 1 or iterating[0] not in terms[0]:
        return None
    return terms[0][iterating[0]], terms[1].get(iterating[0], 0)


# ---- barriers


def _missing_barriers(
    checked: CheckedLaunch, sites: Sequence[ProbeSite], conflicts: Sequence[Conflict]
) -> dict[int, Cause]:
    """Return the barrier that would prevent each race between threads of a program."""
    causes: dict[int, Cause] = {}
    intervals: list[tuple[Operation, Operation, int]] = []
    for number, conflict in enumerate(conflicts):
        if conflict.kind != "intra_program_race":
            continue
        if conflict.missing_barrier_site is not None:
            causes[number] = _barrier(checked, sites[conflict.missing_barrier_site])
            continue
        causes[number] = _barrier(checked, sites[conflict.second.site])
        earlier = accesses_at(checked, sites[conflict.first.site].location)
        later = accesses_at(checked, sites[conflict.second.site].location)
        if len(earlier) == len(later) == 1:
            intervals.append((earlier[0], later[0], number))
    # For races within one block, place the barrier before the earliest second access. It prevents
    # all races whose first access precedes it.
    order = {id(op): n for n, op in enumerate(checked.kernel.module.kernel.walk())}
    straight = [
        (order[id(first)], order[id(second)], second, number)
        for first, second, number in intervals
        if first.parent is second.parent and order[id(first)] < order[id(second)]
    ]
    last: tuple[int, Operation, Cause] | None = None
    for first_at, at, second, number in sorted(straight, key=lambda entry: entry[1]):
        if last is not None and first_at < last[0] and second.parent is last[1].parent:
            causes[number] = last[2]
        else:
            last = at, second, causes[number]
    return causes


def _barrier(checked: CheckedLaunch, probe: ProbeSite) -> Cause:
    location = probe.location
    text = source_line(location.file, location.line).strip() if location is not None else ""
    return Cause(kind="barrier", kernel=checked.spec.kernel, source=text, location=location)
