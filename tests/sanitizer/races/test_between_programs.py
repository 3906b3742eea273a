"""Conflicts in launches without synchronisation agree with an analysis of single bytes."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from race_launches import Launch, meeting_bytes

from ttools.sanitizer.races import ACCESS, Site, find_conflicts, overlap
from ttools.sanitizer.races.conflicts import MAX_RANGES

KINDS = ("load", "store", "atomic")
site = st.builds(
    Site,
    kind=st.sampled_from(KINDS),
    size=st.sampled_from([1, 2, 4]),
    shape=st.sampled_from([(), (4,), (1, 4), (8,)]),
    volatile=st.booleans(),
    local=st.booleans(),
)


@st.composite
def launches(draw):
    launch = Launch(draw(st.lists(site, min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 14))):
        program = draw(st.integers(0, 3))
        if draw(st.integers(0, 7)) == 0:
            launch.barrier(program)
        at = draw(st.integers(0, len(launch.sites) - 1))
        size = launch.sites[at].size
        start = draw(st.integers(0, 24 // size)) * size
        elements = draw(st.integers(1, 5))
        launch.access(program, at, start, elements=elements, lane=draw(st.integers(0, 2)))
    return launch


def expected(launch):
    """Convert a `Conflict` to the form of the analysis of single bytes."""
    result = {}
    for (kind, a, b), byte_pairs in meeting_bytes(launch).items():
        size = launch.sites[b].size
        lowest = min(
            (min(pair), max(pair), byte) for byte, pairs in byte_pairs.items() for pair in pairs
        )
        touching = {
            played.program
            for played in launch.played
            if played.site in (a, b) and played.elements.keys() & byte_pairs.keys()
        }
        count = len({byte // size for byte in byte_pairs})
        lanes = sum(
            len(
                {(byte - min(played.elements)) // launch.sites[played.site].size for byte in shared}
            )
            for played in launch.played
            if played.site in (a, b) and (shared := played.elements.keys() & byte_pairs.keys())
        )
        result[kind, a, b] = (count, lanes, len(touching), *lowest)
    return result


def reported(conflicts):
    return {
        (c.kind, c.first.site, c.second.site): (
            c.count,
            c.lanes,
            c.programs,
            min(c.first.program, c.second.program),
            max(c.first.program, c.second.program),
            c.start,
        )
        for c in conflicts
    }


@given(launches())
def test_every_conflict_of_bytes_is_reported_with_count_and_witness(launch):
    accesses, _ = launch.records()
    conflicts = find_conflicts(accesses, launch.sites)
    assert reported(conflicts) == expected(launch)
    assert len(conflicts) == len(expected(launch)), "one conflict for each kind and pair of sites"


@given(launches())
def test_blocks_and_thinning_change_nothing(launch):
    accesses, _ = launch.records()
    with mock.patch.object(overlap, "BLOCK", 2), mock.patch.object(overlap, "THIN", 0):
        assert reported(find_conflicts(accesses, launch.sites)) == expected(launch)


@given(launches())
def test_witnesses_are_accesses_that_took_place(launch):
    accesses, _ = launch.records()
    for conflict in find_conflicts(accesses, launch.sites):
        assert conflict.start < conflict.end
        for ref in (conflict.first, conflict.second):
            assert ref.address == conflict.start
            assert any(
                (played.site, played.program, played.epoch) == (ref.site, ref.program, ref.epoch)
                and played.elements.get(ref.address) == ref.lane
                for played in launch.played
            )
        if conflict.kind == "intra_program_race":
            one, other = (
                (ref.program, ref.lane, launch.sites[ref.site].shape)
                for ref in (conflict.first, conflict.second)
            )
            assert one[0] == other[0]
            sizes = {launch.sites[ref.site].size for ref in (conflict.first, conflict.second)}
            shapes = {shape for _, _, shape in (one, other)}
            assert one[1] != other[1] or len(sizes) == 2 or len(shapes) == 2


@given(launches())
def test_a_replay_gets_all_bytes(launch):
    accesses, _ = launch.records()
    by_sites = meeting_bytes(launch)
    for conflict in find_conflicts(accesses, launch.sites):
        if conflict.kind != "overlapping_store":
            assert conflict.overlaps is None
            continue
        overlaps = conflict.overlaps
        touched = [byte for start, end in overlaps.ranges for byte in range(start, end)]
        bytes_in_conflict = by_sites[conflict.kind, conflict.first.site, conflict.second.site]
        assert touched == sorted(bytes_in_conflict)
        assert not overlaps.cut


@given(launches(), st.randoms())
def test_the_order_of_records_does_not_matter(launch, random):
    accesses, _ = launch.records()
    shuffled = accesses.copy()
    random.shuffle(order := list(range(len(accesses))))
    shuffled[:] = accesses[order]
    assert find_conflicts(shuffled, launch.sites) == find_conflicts(accesses, launch.sites)


def test_programs_that_only_touch_the_edge_of_a_conflict_are_not_counted():
    launch = Launch([Site("store", 4, (8,)), Site("load", 4, (8,))])
    for start in (0, 64):
        launch.access(0, 0, start)
        launch.access(1, 0, start)
    launch.access(2, 1, 4)
    launch.access(3, 0, 4)
    stores, race = find_conflicts(*_pair(launch))
    assert (stores.kind, stores.programs, race.kind, race.programs) == (
        "overlapping_store",
        2,
        "race",
        2,
    )


def test_the_witness_is_the_earliest_of_equal_accesses():
    rows = [
        (0, 4, 0, 0, 0, 1, 5, 0),
        (0, 4, 0, 0, 0, 7, 3, 0),
        (0, 4, 0, 0, 0, 6, 3, 0),
        (0, 4, 1, 0, 0, 0, 0, 0),
    ]
    (conflict,) = find_conflicts(np.array(rows, ACCESS), [Site("store", 4, (8,))])
    assert (conflict.first.epoch, conflict.first.lane) == (3, 6)


def test_empty_records_have_no_conflict():
    assert find_conflicts(np.empty(0, ACCESS), []) == []


def test_a_record_of_an_unknown_site_is_refused():
    with pytest.raises(ValueError, match="outside the 1 given"):
        find_conflicts(np.array([(0, 4, 0, 0, 1, 0, 0, 0)], ACCESS), [Site("store", 4)])


def test_ranges_for_a_replay_are_bounded_and_counts_are_not():
    cells = 2 * MAX_RANGES
    accesses = np.zeros(2 * cells, ACCESS)
    accesses["start"] = np.tile(np.arange(cells) * 8, 2)
    accesses["end"] = accesses["start"] + 4
    accesses["program"] = np.arange(2 * cells)
    (conflict,) = find_conflicts(accesses, [Site("store", 4)])
    assert conflict.count == cells
    assert conflict.programs == 2 * cells
    assert conflict.overlaps.cut
    assert len(conflict.overlaps.ranges) == MAX_RANGES


def test_wide_reads_over_many_stores_need_no_product():
    """Report one conflict if a thousand programs read the stores of a thousand others."""
    accesses = np.zeros(2000, ACCESS)
    accesses["program"] = np.arange(2000)
    accesses["start"][:1000] = np.arange(1000) * 4
    accesses["end"][:1000] = accesses["start"][:1000] + 4
    accesses["end"][1000:] = 4000
    accesses["site"][1000:] = 1
    (conflict,) = find_conflicts(accesses, [Site("store", 4), Site("load", 4, (1000,))])
    assert (conflict.kind, conflict.count, conflict.programs) == ("race", 1000, 2000)
    assert (conflict.first.program, conflict.second.program) == (0, 1000)


def test_a_volatile_load_conflicts_with_stores_only():
    launch = Launch([Site("store", 4), Site("atomic", 4), Site("load", 4, volatile=True)])
    for program, at in ((0, 1), (1, 2)):
        launch.access(program, at, 0)
    assert find_conflicts(launch.records()[0], launch.sites) == []
    launch.access(2, 0, 0)
    kinds = [(c.kind, c.first.site, c.second.site) for c in find_conflicts(*_pair(launch))]
    assert kinds == [("race", 0, 1), ("race", 0, 2)]


def test_an_atomic_of_local_scope_conflicts_with_all():
    others = [Site("atomic", 4), Site("load", 4), Site("load", 4, volatile=True), Site("store", 4)]
    launch = Launch([Site("atomic", 4, local=True), *others])
    launch.access(0, 0, 0)
    launch.access(0, 0, 0)
    assert find_conflicts(*_pair(launch)) == [], "conflicts inside one program"
    launch.access(1, 0, 0)
    for at in range(len(others)):
        launch.access(2 + at, at + 1, 0)
    reported = {(c.kind, c.second.site) for c in find_conflicts(*_pair(launch)) if not c.first.site}
    assert reported == {("race", site) for site in range(5)}


def _pair(launch):
    return launch.records()[0], launch.sites
