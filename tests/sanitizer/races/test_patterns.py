"""Usual patterns of synchronisation: message passing, locks, last block, grid barrier."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from race_launches import FLAG, LOCK, Launch

from ttools.sanitizer.races import ACCESS, ACQUIRE, RELEASE, RMW, SCALAR, SYNC, Site, find_conflicts
from ttools.sanitizer.races.records import AccessKind

YES_NO = (False, True)


def conflicts(launch):
    return find_conflicts(launch.records()[0], launch.sites, launch.records()[1])


def kinds(launch):
    return {(c.kind, *sorted((c.first.site, c.second.site))) for c in conflicts(launch)}


@pytest.mark.parametrize("tile", YES_NO, ids=["scalar", "tile"])
@pytest.mark.parametrize("access", ["ww", "wr", "rw", "aw", "ar", "ra"])
def test_message_passing(access, tile):
    """Let one program store data and set a flag that another program polls before it loads."""
    names: dict[str, AccessKind] = {"w": "store", "r": "load", "a": "atomic"}
    shape = (8,) if tile else ()
    data = [Site(names[letter], 4, shape) for letter in access]
    for barrier, release, acquire, rmw, same_address in itertools.product(YES_NO, repeat=5):
        launch = Launch([*data, Site("atomic", 4), Site("atomic", 4)])
        launch.access(0, 0, 0)
        if barrier:
            launch.barrier(0)
        launch.sync(0, 2, FLAG, (RELEASE * release) | (RMW * rmw) | SCALAR)
        address = FLAG if same_address else LOCK
        launch.sync(1, 3, address, (ACQUIRE * acquire) | RMW | SCALAR)
        launch.access(1, 1, 0)

        ordered = release and acquire and same_address and (not tile or barrier)

        case = (barrier, release, acquire, rmw, same_address)
        found_conflicts = conflicts(launch)
        assert bool(found_conflicts) == (not ordered), case
        if found_conflicts:
            (conflict,) = found_conflicts
            only_barrier = release and acquire and same_address
            error = "overlapping_store" if access == "ww" else "race"
            assert conflict.kind == ("intra_program_race" if only_barrier else error), case
            assert conflict.missing_barrier_site == (2 if only_barrier else None)
            assert (conflict.first.program, conflict.second.program) == (0, 1)


LOCK_SITES = [
    Site("atomic", 4),
    Site("load", 4, (32,)),
    Site("store", 4, (32,)),
    Site("atomic", 4),
]


def add_under_lock(launch, program, *, barrier):
    launch.lock(program, 0)
    launch.access(program, 1, 0, elements=32)
    launch.access(program, 2, 0, elements=32)
    if barrier:
        launch.barrier(program)
    launch.unlock(program, 3)


def test_a_lock_orders_the_programs_that_take_it():
    launch = Launch(LOCK_SITES)
    for program in (3, 0, 2, 1):
        add_under_lock(launch, program, barrier=True)
    assert conflicts(launch) == []


def test_a_lock_released_without_a_barrier_publishes_no_tile():
    launch = Launch(LOCK_SITES)
    for program in range(6):
        add_under_lock(launch, program, barrier=False)
    found_conflicts = conflicts(launch)
    assert {c.kind for c in found_conflicts} == {"intra_program_race"}
    assert {c.missing_barrier_site for c in found_conflicts} == {3}
    assert {c.count for c in found_conflicts} == {32}


def test_a_program_that_takes_no_lock_races_with_those_that_do():
    launch = Launch(LOCK_SITES)
    for program in range(3):
        add_under_lock(launch, program, barrier=True)
    launch.access(3, 2, 0, elements=32)
    assert kinds(launch) == {("overlapping_store", 2, 2), ("race", 1, 2)}


def test_two_locks_do_not_order_each_other():
    launch = Launch(LOCK_SITES)
    launch.lock(0, 0, LOCK)
    launch.access(0, 2, 0)
    launch.barrier(0)
    launch.unlock(0, 3, LOCK)
    launch.lock(1, 0, FLAG)
    launch.access(1, 2, 0)
    launch.barrier(1)
    launch.unlock(1, 3, FLAG)
    assert kinds(launch) == {("overlapping_store", 2, 2)}


def test_a_plain_flag_is_ordered_by_the_lock_around_it():
    """Guard the first store and the later additions of a layer-norm backward pass by a lock."""
    flag, part = 0, 128
    launch = Launch(
        [
            Site("atomic", 4),
            Site("load", 4),
            Site("atomic", 4),
            Site("load", 4, (16,)),
            Site("store", 4, (16,)),
            Site("atomic", 4),
        ]
    )
    for program in range(4):
        launch.lock(program, 0)
        launch.access(program, 1, flag)
        if program == 0:
            launch.access(program, 2, flag)
            launch.sync(program, 2, flag, RELEASE | RMW | SCALAR)
        else:
            launch.access(program, 3, part, elements=16)
        launch.access(program, 4, part, elements=16)
        launch.barrier(program)
        launch.unlock(program, 5)
    assert conflicts(launch) == []


def last_block(*, used, barrier, programs=8):
    """Store a partial result from every program and count it; the last program reads them all."""
    launch = Launch([Site("store", 4), Site("atomic", 4), Site("load", 4, (8,)), Site("atomic", 4)])
    flags = RELEASE | RMW | SCALAR | (ACQUIRE * used)
    for program in range(programs):
        launch.access(program, 0, 4 * program)
        if barrier:
            launch.barrier(program)
        launch.access(program, 1, FLAG)
        launch.sync(program, 1, FLAG, flags)
    launch.access(programs - 1, 2, 0, elements=programs)
    launch.access(programs - 1, 3, FLAG)
    return launch


def test_the_last_block_may_read_all_partial_results():
    assert conflicts(last_block(used=True, barrier=True)) == []


def test_scalar_partial_results_need_no_barrier():
    assert conflicts(last_block(used=True, barrier=False)) == []


def test_a_counter_whose_result_is_unused_orders_nothing():
    (conflict,) = (c for c in conflicts(last_block(used=False, barrier=True)) if c.kind == "race")
    assert (conflict.count, conflict.programs) == (7, 8)
    assert (conflict.first.program, conflict.second.program) == (0, 7)


def grid_barrier(*, wait, rounds=2, programs=4):
    """Store one element per program, synchronise, read all elements, and synchronise again."""
    launch = Launch([Site("store", 4), Site("atomic", 4), Site("load", 4, (4,)), Site("atomic", 4)])
    for meeting in range(2 * rounds):
        for program in range(programs):
            if meeting % 2 == 0:
                launch.access(program, 0, 4 * program)
            launch.barrier(program)
            launch.sync(program, 1, FLAG, RELEASE | RMW | SCALAR)
        for program in reversed(range(programs)):
            if wait:
                launch.sync(program, 3, FLAG, ACQUIRE | RELEASE | RMW | SCALAR)
            if meeting % 2 == 0:
                launch.access(program, 2, 0, elements=programs)
    return launch


def test_a_grid_barrier_orders_rounds():
    assert conflicts(grid_barrier(wait=True)) == []


def test_counting_without_waiting_is_no_barrier():
    assert ("race", 0, 2) in kinds(grid_barrier(wait=False))


@pytest.mark.parametrize("left_out", [None, 5])
def test_many_atomics_then_many_loads(left_out):
    """Settle all pairs of two long runs by one comparison, unless a program does not wait."""
    launch = Launch([Site("atomic", 4, (8,)), Site("atomic", 4), Site("load", 4, (8,))])
    for program in range(40):
        launch.access(program, 0, 0, elements=8)
        launch.barrier(program)
        launch.sync(program, 1, FLAG, RELEASE | RMW | SCALAR)
    for program in range(40):
        if program != left_out:
            launch.sync(program, 1, FLAG, ACQUIRE | SCALAR)
        launch.access(program, 2, 0, elements=8)
    expected = set() if left_out is None else {("race", 0, 2)}
    assert {key for key in kinds(launch) if key[0] == "race"} == expected


def test_a_run_of_atomics_is_published_after_a_barrier_only():
    launch = Launch([Site("atomic", 4, (8,)), Site("atomic", 4), Site("load", 4, (8,))])
    for program in range(40):
        launch.access(program, 0, 0, elements=8)
        if program != 5:
            launch.barrier(program)
        launch.sync(program, 1, FLAG, RELEASE | RMW | SCALAR)
    for program in range(40):
        launch.sync(program, 1, FLAG, ACQUIRE | SCALAR)
        launch.access(program, 2, 0, elements=8)
    (conflict,) = conflicts(launch)
    assert (conflict.kind, conflict.missing_barrier_site) == ("intra_program_race", 1)
    assert (conflict.first.program, conflict.second.program) == (5, 0)


def test_known_releases_are_passed_on():
    launch = Launch([Site("store", 4), Site("load", 4), Site("atomic", 4)])
    launch.access(0, 0, 0)
    launch.sync(0, 2, FLAG, RELEASE | RMW | SCALAR)
    launch.sync(1, 2, FLAG, ACQUIRE | SCALAR)
    launch.sync(1, 2, LOCK, RELEASE | RMW | SCALAR)
    launch.sync(2, 2, LOCK, ACQUIRE | SCALAR)
    launch.access(2, 1, 0)
    assert conflicts(launch) == []


def test_a_second_acquire_adds_to_the_first():
    launch = Launch([Site("store", 4), Site("load", 4), Site("atomic", 4)])
    for program, flag in ((0, FLAG), (1, LOCK)):
        launch.access(program, 0, 4 * program)
        launch.sync(program, 2, flag, RELEASE | RMW | SCALAR)
    for flag in (FLAG, LOCK):
        launch.sync(2, 2, flag, ACQUIRE | SCALAR)
    for program in (0, 1):
        launch.access(2, 1, 4 * program)
    assert conflicts(launch) == []


def test_a_plain_release_discards_earlier_releases():
    launch = Launch([Site("store", 4), Site("load", 4), Site("atomic", 4)])
    launch.access(0, 0, 0)
    launch.sync(0, 2, FLAG, RELEASE | RMW | SCALAR)
    launch.sync(1, 2, FLAG, RELEASE | SCALAR)
    launch.sync(2, 2, FLAG, ACQUIRE | SCALAR)
    launch.access(2, 1, 0)
    assert kinds(launch) == {("race", 0, 1)}


def test_flags_pass_messages_along_a_chain():
    """Let each program wait for the flag of the previous program, as decoupled look-back does."""
    launch = Launch([Site("store", 4), Site("load", 4), Site("atomic", 4)])
    for program in range(50):
        if program:
            launch.sync(program, 2, -8 * program, ACQUIRE | SCALAR)
            launch.access(program, 1, 0)
        launch.access(program, 0, 0)
        launch.sync(program, 2, -8 * (program + 1), RELEASE | RMW | SCALAR)
    assert conflicts(launch) == []


def test_a_tile_of_releases_publishes_its_own_lanes():
    launch = Launch([Site("store", 4, (8,)), Site("atomic", 4, (8,)), Site("load", 4)])
    launch.access(0, 0, 0, elements=8)
    for lane in range(8):
        launch.sync(0, 1, -64 + 4 * lane, RELEASE | RMW)
    launch.sync(1, 1, -64 + 4 * 3, ACQUIRE | SCALAR)
    launch.access(1, 2, 12)
    assert conflicts(launch) == []


def test_ten_thousand_acquisitions_of_a_lock():
    programs = 10_000
    syncs = np.zeros(2 * programs, SYNC)
    syncs["address"], syncs["end"] = LOCK, LOCK + 4
    syncs["seq"] = np.arange(2 * programs)
    syncs["program"] = np.repeat(np.random.default_rng(0).permutation(programs), 2)
    syncs["epoch"] = np.tile([0, 1], programs)
    syncs["flags"] = np.tile([ACQUIRE | RELEASE | RMW | SCALAR, RELEASE | RMW | SCALAR], programs)
    syncs["barrier"] = np.tile([0, 2], programs)
    stores = np.zeros(programs, ACCESS)
    stores["end"], stores["program"] = 128, np.arange(programs)
    stores["epoch"] = stores["barrier"] = 1
    sites = [Site("store", 4, (32,))]
    assert find_conflicts(stores, sites, syncs) == []
    syncs["flags"][1001] = RMW | SCALAR  # one release is missing
    before, after = syncs["program"][1001], syncs["program"][1002]
    (conflict,) = find_conflicts(stores, sites, syncs)
    assert (conflict.first.program, conflict.second.program) == (before, after)
