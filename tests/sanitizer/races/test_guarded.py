"""Accesses that one lock guards do not race in any order of the programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from race_launches import LOCK, Launch

from ttools.sanitizer.races import Site, find_conflicts
from ttools.sanitizer.races.locks.guarded import all_guarded

TAKE, GIVE = 0, 1
SITES = [
    Site("atomic", 4),
    Site("atomic", 4),
    Site("load", 4, (8,)),
    Site("store", 4, (8,)),
    Site("store", 4, (2, 4)),
    Site("load", 4),
    Site("store", 4),
    Site("atomic", 4),
    Site("atomic", 4, local=True),
]
#: Elements of a tile of each site.
_TILE = [site.numel for site in SITES]

accesses = st.lists(
    st.tuples(st.integers(2, len(SITES) - 1), st.sampled_from([0, 0, 0, 32, 64, 48])), max_size=3
)
#: A lock or None, and the accesses that are made while it is held.
steps = st.tuples(st.sampled_from([None, 0, 0, 1]), accesses)
programs = st.lists(st.lists(steps, min_size=1, max_size=3), min_size=1, max_size=4)


def played(scripts: list, order: list[int]) -> Launch:
    """Return a launch of programs one after the other, each with sections of accesses."""
    launch = Launch(SITES)
    for program in order:
        for lock, touched in scripts[program]:
            if lock is not None:
                launch.lock(program, TAKE, LOCK + 8 * lock)
            for site, start in touched:
                launch.access(program, site, start, elements=_TILE[site])
            if lock is not None:
                launch.barrier(program)
                launch.unlock(program, GIVE, LOCK + 8 * lock)
    return launch


def is_guarded(launch: Launch) -> bool:
    records, syncs = launch.records()
    return all_guarded(records, syncs, SITES, {TAKE}, {GIVE})


@given(programs, st.data())
def test_guarded_accesses_race_in_no_order(scripts: list, data: st.DataObject) -> None:
    count = range(len(scripts))
    first = played(scripts, list(count))
    # Races inside one program are found in any order.
    assume(is_guarded(first) and not list(find_conflicts(*_found_in(first))))
    reordered = played(scripts, data.draw(st.permutations(count)))
    assert not list(find_conflicts(*_found_in(reordered)))
    assert is_guarded(reordered)


def _found_in(launch: Launch) -> tuple:
    records, syncs = launch.records()
    return records, SITES, syncs if len(syncs) else None


@given(programs)
def test_launches_that_race_in_some_order_are_not_guarded(scripts: list) -> None:
    """If one order of the programs races, nothing is guarded except for single programs."""
    launch = played(scripts, list(range(len(scripts))))
    found_conflicts = find_conflicts(*_found_in(launch))
    if any(conflict.kind != "intra_program_race" for conflict in found_conflicts):
        assert not is_guarded(launch)


TILE = [(2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("scripts", "guarded"),
    [
        ([[(0, TILE)]] * 4, True),
        ([[(0, TILE)], [(1, TILE)]], False),
        ([[(0, TILE)], [(1, [(2, 32), (3, 32)])]], True),
        ([[(0, TILE)], [(None, TILE)]], False),
        ([[(0, TILE), (None, [(3, 96)])]] * 2, False),
        ([[(0, [(3, 0), (4, 0)])]] * 2, False),
        ([[(0, [(3, 0)])], [(0, [(3, 16)])]], False),
        ([[(0, [(5, 0), (6, 0)])]] * 3, True),
        ([[(0, []), (None, [(7, 0)])]] * 3, True),
        ([[(0, []), (None, [(8, 0)])]] * 3, False),
        ([[(0, []), (None, [(2, 0)])]] * 3, True),
        ([[(0, [(7, 0)])], [(0, []), (None, [(7, 0)])]], False),
        ([[(0, [(6, LOCK)])]] * 2, False),
        ([[(None, TILE)]], False),
    ],
)
def test_guarded_launches(scripts: list, guarded: bool) -> None:
    assert is_guarded(played(scripts, list(range(len(scripts))))) == guarded


def test_locks_that_are_not_released_guard_nothing() -> None:
    launch = Launch(SITES)
    for program in range(2):
        launch.lock(program, TAKE)
        launch.access(program, 3, 0, elements=8)
    assert not is_guarded(launch)
    records, syncs = launch.records()
    assert not all_guarded(records[:0], syncs, SITES, {TAKE}, {GIVE})
    assert not all_guarded(records[:0], syncs[:0], SITES, {TAKE}, {GIVE})


def test_a_lock_must_be_released_by_its_holder() -> None:
    for mismatch in ({"program": 1, "address": LOCK}, {"program": 0, "address": LOCK + 8}):
        launch = Launch(SITES)
        launch.lock(0, TAKE, LOCK)
        launch.unlock(mismatch["program"], GIVE, mismatch["address"])
        assert not is_guarded(launch)


def test_records_may_be_in_any_order() -> None:
    launch = played([[(0, TILE)], [(0, TILE)], [(1, [(3, 64)])]], [2, 0, 1])
    records, syncs = launch.records()
    for seed in range(5):
        shuffled = np.random.default_rng(seed).permutation(len(records))
        assert all_guarded(records[shuffled], syncs, SITES, {TAKE}, {GIVE})
