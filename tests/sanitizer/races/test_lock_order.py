"""Locks in opposite orders: the analysis agrees with all interleavings of the programs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies
from race_launches import LOCK, Launch

from ttools.sanitizer.races import RMW, Site, lock_cycle

TAKE, GIVE = 0, 1
SITES = [Site("atomic", 4), Site("atomic", 4)]
#: Steps of a program: take lock `n` (positive) or release it (negative); locks count from 1.
Program = tuple[int, ...]


def circle_of(programs: list[Program]) -> list[tuple[int, int, int]]:
    launch = Launch(SITES)
    for number, program in enumerate(programs):
        for step in program:
            address = LOCK + 4 * abs(step)
            if step > 0:
                launch.lock(number, TAKE, address)
            else:
                launch.unlock(number, GIVE, address)
    cycle = lock_cycle(launch.records()[1], {TAKE})
    return [(n.program, (n.held_lock - LOCK) // 4, (n.wanted_lock - LOCK) // 4) for n in cycle]


def can_block(programs: list[Program]) -> bool:
    """Return whether some interleaving of the steps leaves programs waiting for each other."""
    visited = set()
    pending = [(0,) * len(programs)]
    while pending:
        at = pending.pop()
        if at in visited:
            continue
        visited.add(at)
        held_locks = {lock for n, count in enumerate(at) for lock in _held(programs[n][:count])}
        able = [
            n
            for n, count in enumerate(at)
            if count < len(programs[n])
            and (programs[n][count] < 0 or programs[n][count] not in held_locks)
        ]
        if not able and any(count < len(programs[n]) for n, count in enumerate(at)):
            return True
        pending += [tuple(count + (n == m) for m, count in enumerate(at)) for n in able]
    return False


def _held(steps: Program) -> set[int]:
    locks: set[int] = set()
    for step in steps:
        locks = locks | {step} if step > 0 else locks - {-step}
    return locks


@strategies.composite
def programs(draw: strategies.DrawFn) -> Program:
    """Draw a program that takes locks that it does not hold, and releases all locks in the end."""
    steps: list[int] = []
    for _ in range(draw(strategies.integers(1, 5))):
        locks = _held(tuple(steps))
        free = sorted({1, 2, 3} - locks)
        if free and (not locks or draw(strategies.booleans())):
            steps.append(draw(strategies.sampled_from(free)))
        else:
            steps.append(-draw(strategies.sampled_from(sorted(locks))))
    return (*steps, *(-lock for lock in sorted(_held(tuple(steps)))))


@settings(max_examples=150, deadline=None)
@given(strategies.lists(programs(), min_size=1, max_size=3))
def test_a_cycle_is_found_if_programs_can_block(launched: list[Program]) -> None:
    assert bool(circle_of(launched)) == can_block(launched)


def test_the_cycle_names_each_program() -> None:
    assert circle_of([(1, 2, -2, -1), (2, 3, -3, -2), (3, 1, -1, -3)]) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 1),
    ]


def test_a_common_lock_keeps_programs_apart() -> None:
    assert circle_of([(3, 1, 2, -2, -1, -3), (3, 2, 1, -1, -2, -3)]) == []


def test_a_flag_that_is_only_polled_is_no_lock() -> None:
    assert circle_of([(1, 2, -2), (2, 1, -2)]) == []


def test_a_failed_exchange_takes_no_lock() -> None:
    launch = Launch(SITES)
    for program, order in enumerate([(1, 2), (2, 1)]):
        for lock in order:
            launch.sync(program, TAKE, LOCK + 4 * lock, 0)
        for lock in order:
            launch.unlock(program, GIVE, LOCK + 4 * lock)
    syncs = launch.records()[1]
    assert not (syncs["flags"][syncs["site"] == TAKE] & RMW).any()
    assert lock_cycle(syncs, {TAKE}) == []


def test_empty_records() -> None:
    assert lock_cycle(np.empty(0, Launch(SITES).records()[1].dtype), {TAKE}) == []
