"""Random synchronising launches: the analysis agrees with sets of releases known to programs."""

from __future__ import annotations

from itertools import combinations
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from race_launches import Launch, unordered_pairs

from ttools.sanitizer.races import (
    ACQUIRE,
    RELEASE,
    RMW,
    SCALAR,
    Site,
    find_conflicts,
    happens_before,
)
from ttools.sanitizer.races.clocks import Clocks
from ttools.sanitizer.races.overlap import BLOCK
from ttools.sanitizer.races.records import BLIND, LOOKS

LOAD, STORE, ATOMIC, POLL, LOCAL, SYNCHRONISE = range(6)
FLAGS = [
    ACQUIRE,
    RELEASE,
    RMW,
    RELEASE | RMW,
    ACQUIRE | RMW,
    ACQUIRE | RELEASE | RMW,
    LOOKS | RMW,
    BLIND | RELEASE | RMW,
]
event = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["access", "access", "sync", "sync", "barrier"]),
    st.integers(LOAD, LOCAL),
    st.integers(0, 1),
    st.sampled_from(FLAGS),
    st.sampled_from([0, 0, 0, 1, 2, 5]),
)


def sites(shape):
    return [
        Site("load", 4, shape),
        Site("store", 4, shape),
        Site("atomic", 4, shape),
        Site("load", 4, shape, volatile=True),
        Site("atomic", 4, shape, local=True),
        Site("atomic", 4),
    ]


def play(events, shape):
    launch = Launch(sites(shape))
    for program, kind, site, where, flags, back in events:
        if kind == "access":
            launch.access(program, site, 4 * where)
        elif kind == "sync":
            launch.sync(program, SYNCHRONISE, -8 * (where + 1), flags | SCALAR, back=back)
        else:
            launch.barrier(program)
    return launch


def found(conflicts):
    return {(c.kind, *sorted((c.first.site, c.second.site))): c for c in conflicts if _crosses(c)}


def _crosses(conflict):
    return conflict.first.program != conflict.second.program


launches = st.builds(play, st.lists(event, max_size=30), st.sampled_from([(), (8,)]))


@given(launches)
def test_a_byte_is_reported_exactly_if_a_pair_on_it_is_unordered(launch):
    """Allow missing pairs of sites at bytes with another conflict, but no false ones."""
    accesses, syncs = launch.records()
    if not len(Clocks(syncs).syncs):
        return  # nothing is synchronised, so that another analysis applies
    for byte in (0, 4):
        here = accesses[accesses["start"] == byte]
        reported = found(find_conflicts(here, launch.sites, syncs, launch.earlier))
        expected = {key for key, where in unordered_pairs(launch).items() if byte in where}
        assert reported.keys() <= expected
        assert bool(reported) == bool(expected)
        if any(kind != "intra_program_race" for kind, *_ in expected):
            assert any(kind != "intra_program_race" for kind, *_ in reported)


@given(launches)
def test_a_missing_barrier_names_the_release(launch):
    accesses, syncs = launch.records()
    for key, conflict in found(
        find_conflicts(accesses, launch.sites, syncs, launch.earlier)
    ).items():
        expected = SYNCHRONISE if key[0] == "intra_program_race" else None
        assert conflict.missing_barrier_site == expected


@given(launches)
def test_the_order_of_records_changes_nothing(launch):
    accesses, syncs = launch.records()
    plain = find_conflicts(accesses, launch.sites, syncs, launch.earlier)
    assert find_conflicts(accesses[::-1], launch.sites, syncs[::-1], launch.earlier) == plain


@given(launches)
def test_clocks_know_the_latest_release_of_every_program(launch):
    _, syncs = launch.records()
    clocks = Clocks(syncs, launch.earlier)
    for program in range(4):
        for access in launch.played:
            if access.program == program:
                continue
            moment = clocks.moments(np.array([access.program]), np.array([access.epoch]))
            latest = int(clocks.latest_releases(np.array([program]), moment)[0])
            releases = [i for i in access.known if launch.syncs[i][2] == program]
            assert (clocks.syncs["seq"][latest] if latest >= 0 else -1) == max(releases, default=-1)


@given(launches)
def test_accesses_are_ordered_by_the_latest_release_unless_one_before_publishes_them(launch):
    _, syncs = launch.records()
    clocks = Clocks(syncs, launch.earlier)
    pairs = [
        (one, other)
        for one, other in combinations(launch.played, 2)
        if one.program != other.program
    ]
    columns = [(one.program, one.epoch, one.barrier, *_of(other)) for one, other in pairs]
    program, epoch, barrier, *later = np.array(columns, np.int64).reshape(-1, 5).T
    found_releases = clocks.ordering_releases(program, epoch, barrier, clocks.moments(*later))
    for (one, other), release in zip(pairs, found_releases.tolist(), strict=True):
        releases = [i for i in other.known if launch.syncs[i][2] == one.program]
        ordering = [i for i in releases if launch.syncs[i][5] >= one.epoch]
        publishing = [i for i in ordering if launch.syncs[i][6] > one.barrier]
        seq = int(clocks.syncs["seq"][release]) if release >= 0 else -1
        assert seq in publishing if publishing else seq == max(ordering, default=-1)


@given(launches)
def test_a_version_that_orders_all_accesses_orders_each(launch):
    _, syncs = launch.records()
    clocks = Clocks(syncs, launch.earlier)
    # Compare two runs of accesses with all accesses.
    runs = [run for run in (launch.played[::2], launch.played[1::2]) if run]
    if not runs or not len(clocks.syncs):
        return
    before = [(n, a.program, a.epoch, a.barrier) for n, run in enumerate(runs) for a in run]
    number, program, epoch, barrier = np.array(before).T
    later = [(n, access) for n in range(len(runs)) for access in launch.played]
    moment = clocks.moments(*np.array([_of(access) for _, access in later]).T)
    runs_of_later = np.array([n for n, _ in later])
    ordered = clocks.orders_all(number, program, epoch, barrier, runs_of_later, moment)
    for (n, access), is_ordered in zip(later, ordered.tolist(), strict=True):
        for one in runs[n] if is_ordered else ():
            assert one.program == access.program or any(
                (sync := launch.syncs[i])[2] == one.program
                and sync[5] >= one.epoch
                and sync[6] > one.barrier
                for i in access.known
            )


@given(launches)
def test_all_of_a_run_is_published_exactly_if_each_access_is(launch):
    _, syncs = launch.records()
    clocks = Clocks(syncs, launch.earlier)
    runs = [{a.program: a for a in run} for run in (launch.played[::2], launch.played[1::2]) if run]
    if not runs or not len(clocks.syncs):
        return
    before = [
        (n, a.program, a.epoch, a.barrier) for n, run in enumerate(runs) for a in run.values()
    ]
    number, program, epoch, barrier = np.array(before).T
    later = [(n, access) for n in range(len(runs)) for access in launch.played]
    moment = clocks.moments(*np.array([_of(access) for _, access in later]).T)
    runs_of_later = np.array([n for n, _ in later])
    published = clocks.publish_all(number, program, epoch, barrier, runs_of_later, moment)
    for (n, access), is_published in zip(later, published.tolist(), strict=True):
        is_each_published = [
            any(
                (sync := launch.syncs[i])[2] == one.program
                and sync[5] >= one.epoch
                and sync[6] > one.barrier
                for i in access.known
            )
            for one in runs[n].values()
            if one.program != access.program
        ]
        if is_published:
            assert all(is_each_published)
        elif all(
            is_each_published
        ):  # `publish_all` additionally requires a release of the access's own program
            assert access.program in runs[n]


def _of(access):
    return access.program, access.epoch


@st.composite
def phases(draw):
    """Draw programs that update a few words, synchronise, and then load these words."""
    launch = Launch(sites(draw(st.sampled_from([(), (8,)]))))
    count = draw(st.integers(10, 70))
    words = draw(st.integers(1, 2))
    kinds = st.sampled_from([(ATOMIC, LOAD), (LOAD, ATOMIC), (ATOMIC, LOAD)])
    random = draw(st.randoms(use_true_random=False))
    missing = draw(st.sampled_from([0, 0, 1, 2]))
    late = set(random.sample(range(count), missing))
    groups = draw(st.sampled_from([1, 1, 3]))
    first, second = draw(kinds)
    for program in range(count):
        for _ in range(random.choice([1, 1, 2])):
            launch.access(program, first, 4 * random.randrange(words))
        if random.random() < 0.9:
            launch.barrier(program)
        if program not in late:
            _release(launch, program, program % groups)
    # With several groups, the programs pass on the work of a group one after the other.
    for group in range(groups if groups > 1 else 0):
        _acquire(launch, group, group)
        _release(launch, group, groups)
    for program in random.sample(range(count), count):
        if random.random() < 0.95:
            _acquire(launch, program, groups if groups > 1 else 0)
        for _ in range(random.choice([1, 1, 2])):
            launch.access(program, second, 4 * random.randrange(words))
    return launch


def _release(launch, program, word):
    launch.sync(program, SYNCHRONISE, -8 * (word + 1), RELEASE | RMW | SCALAR)


def _acquire(launch, program, word):
    launch.sync(program, SYNCHRONISE, -8 * (word + 1), ACQUIRE | SCALAR)


@settings(max_examples=120)
@given(phases(), st.sampled_from([1, 50, BLOCK]), st.booleans())
def test_long_runs_of_atomics_and_loads_race_where_a_pair_is_unordered(launch, block, by_replay):
    accesses, syncs = launch.records()
    many = 0 if by_replay else happens_before._MANY_PAIRS
    with (
        mock.patch.object(happens_before, "BLOCK", block),
        mock.patch.object(happens_before, "_MANY_PAIRS", many),
    ):
        for byte in (0, 4):
            here = accesses[accesses["start"] == byte]
            reported = found(find_conflicts(here, launch.sites, syncs))
            expected = {key for key, where in unordered_pairs(launch).items() if byte in where}
            assert reported.keys() <= expected
            assert bool(reported) == bool(expected)
