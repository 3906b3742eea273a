"""Random launches that synchronise, against sets of releases known to each program."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from race_launches import Launch, unordered_pairs

from ttools.sanitizer.races import ACQUIRE, RELEASE, RMW, SCALAR, Site, find_conflicts
from ttools.sanitizer.races.clocks import Clocks
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
    for program, what, site, where, flags, back in events:
        if what == "access":
            launch.access(program, site, 4 * where)
        elif what == "sync":
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
    """The frontier may leave out pairs of sites once a byte has a conflict, and invents none."""
    accesses, syncs = launch.records()
    if not len(Clocks(syncs).syncs):
        return  # nothing is ordered, which is another module's business
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
            known = [i for i in access.known if launch.syncs[i][2] == program]
            assert (clocks.syncs["seq"][latest] if latest >= 0 else -1) == max(known, default=-1)


@given(launches)
def test_a_version_said_to_order_all_accesses_orders_each(launch):
    _, syncs = launch.records()
    clocks = Clocks(syncs, launch.earlier)
    earlier = launch.played[::2]
    columns = np.array([(a.program, a.epoch, a.barrier) for a in earlier]).reshape(-1, 3).T
    for access in launch.played:
        moment = clocks.moments(np.array([access.program]), np.array([access.epoch]))
        if not clocks.orders_all(columns[0], columns[1], columns[2], moment)[0]:
            continue
        for one in earlier:
            assert one.program == access.program or any(
                (sync := launch.syncs[i])[2] == one.program
                and sync[5] >= one.epoch
                and sync[6] > one.barrier
                for i in access.known
            )
