"""Races across the iterations of a loop agree with a comparison of every pair of accesses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from race_launches import Launch

from ttools.sanitizer.races import Site, find_conflicts
from ttools.sanitizer.races.iterations import STRETCH

ROWS, TILE = Site("load", 4, (32,)), Site("store", 4, (32,))
accesses = st.tuples(
    st.integers(0, 1),  # program
    st.integers(0, 3),  # site
    st.integers(0, 6),  # first element
    st.integers(1, 4),  # elements
    st.integers(0, 2),  # lane
)
events = st.lists(accesses | st.sampled_from(["turn", "exchange", "barrier"]), max_size=12)
sites = st.lists(
    st.sampled_from([ROWS, TILE, Site("load", 4), Site("store", 4), Site("atomic", 4, (32,))]),
    min_size=4,
    max_size=4,
)


def _found(launch: Launch, warps: int = 4) -> set[tuple[int, int]]:
    conflicts = find_conflicts(launch.records()[0], launch.sites, warps=warps)
    own = [c for c in conflicts if c.kind == "intra_program_race"]
    return {(c.first.site, c.second.site) for c in own}


def _naively(launch: Launch, warps: int) -> set[tuple[int, int]]:
    """Return the sites of loads and later stores of the kernel by which different threads race."""
    pairs = set()
    for one in launch.played:
        for two in launch.played:
            store, load = launch.sites[one.site], launch.sites[two.site]
            if two.site >= one.site or load.kind != "load" or store.kind == "load":
                continue
            if not store.shape and (not load.shape or store.kind == "atomic"):
                continue
            if (one.program, one.barrier) != (two.program, two.barrier):
                continue
            # Loaded values are exchanged before the values computed from them are stored, not
            # after.
            exchanged = one.epoch // STRETCH > two.epoch // STRETCH
            if warps > 1 and exchanged:
                continue
            shared = one.elements.keys() & two.elements.keys()
            alike = store.shape == load.shape
            if any(not alike or one.elements[b] != two.elements[b] for b in shared):
                pairs.add((two.site, one.site))
    return pairs


@settings(max_examples=150, deadline=None)
@given(sites, events, st.sampled_from([1, 4]))
def test_a_load_races_with_stores_of_the_same_or_other_iterations(sites, events, warps):
    launch = Launch(sites)
    for event in events:
        for program in (0, 1):
            if event == "turn":
                launch.epochs[program] += 1
            elif event == "exchange":
                launch.epochs[program] = (launch.epochs[program] // STRETCH + 1) * STRETCH
            elif event == "barrier":
                launch.barrier(program)
        if not isinstance(event, str):
            program, site, start, elements, lane = event
            # Conflicts between programs are tested elsewhere.
            elements = elements if sites[site].shape else 1
            launch.access(program, site, 4 * start + 1024 * program, elements=elements, lane=lane)
    pairs = {(min(pair), max(pair)) for pair in _found(launch, warps)}
    assert {(a, b) for a, b in pairs if sites[a].kind == "load"} == _naively(launch, warps)


@pytest.mark.parametrize("kind", ["load", "store"])
def test_the_store_is_the_first_access_of_the_finding(kind):
    launch = Launch([Site(kind, 4, (32,)), TILE])
    launch.access(0, 1, 0, elements=8, lane=0)
    launch.epochs[0] += 1
    launch.access(0, 0, 0, elements=8, lane=1)
    assert _found(launch) == ({(1, 0)} if kind == "load" else {(0, 1)})


@pytest.mark.parametrize(
    ("between", "exchanges", "warps", "expected"),
    [
        ("nothing", False, 4, {(0, 1)}),
        ("nothing", True, 1, {(0, 1)}),
        ("nothing", True, 4, set()),  # an exchange may be between the accesses
        ("release", False, 4, set()),
        ("barrier", False, 4, set()),
    ],
)
def test_operations_between_the_accesses_in_synchronising_launches(
    between, exchanges, warps, expected
) -> None:
    launch = Launch([ROWS, TILE, Site("atomic", 4)])
    launch.lock(0, 2)
    launch.access(0, 0, 0, elements=8, lane=0)
    if between == "barrier":
        launch.barrier(0)
    elif between == "release":
        launch.unlock(0, 2)
    launch.access(0, 1, 0, elements=8, lane=1)
    launch.lock(1, 2)
    records, syncs = launch.records()
    conflicts = find_conflicts(records, launch.sites, syncs, warps=warps, exchanges=exchanges)
    pairs = {(c.first.site, c.second.site) for c in conflicts if c.kind == "intra_program_race"}
    assert pairs == expected
