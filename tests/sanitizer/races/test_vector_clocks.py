"""Sets of known releases that are computed for many accesses at once agree with a simulation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ttools.interpreter.runtime.support.native_clocks import WIDTH
from ttools.sanitizer.races.records import ACQUIRE, RELEASE, RMW
from ttools.sanitizer.races.vector_clocks import Chains, Replay, are_chains, published

Ints: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = tuple[Ints, Ints, Ints]
"""Locations, programs and flags of accesses."""

_FLAGS = [
    ACQUIRE,
    RMW,
    RELEASE,
    ACQUIRE | RELEASE,
    ACQUIRE | RMW,
    RELEASE | RMW,
    ACQUIRE | RELEASE | RMW,
]
_CONTINUING = [flag for flag in _FLAGS if flag & RMW or not flag & RELEASE]
#: More programs than one clock has entries for.
_PROGRAMS = 2 * WIDTH + 3


def _columns(rows: list[tuple[int, int, int]]) -> Rows:
    locations, programs, flags = np.array(rows, np.int64).reshape(-1, 3).T
    return locations, programs, flags


@st.composite
def launches(draw: st.DrawFn) -> Rows:
    """Draw launches of few programs that meet often, or of more programs than fit in one clock."""
    programs, words = draw(st.sampled_from([(4, 2), (4, 6), (_PROGRAMS, 3)]))
    kinds = draw(st.sampled_from([_FLAGS, _CONTINUING, [ACQUIRE | RELEASE | RMW]]))
    row = st.tuples(st.integers(0, words - 1), st.integers(0, programs - 1), st.sampled_from(kinds))
    return _columns(draw(st.lists(row, max_size=40)))


@st.composite
def turns(draw: st.DrawFn) -> Rows:
    """Draw launches with one location per program, where releases continue earlier releases."""
    home = draw(st.lists(st.integers(0, 3), min_size=6, max_size=6))
    access = st.tuples(st.integers(0, 5), st.sampled_from(_CONTINUING))
    rows = draw(st.lists(access, max_size=40))
    locations, programs, flags = _columns([(home[p], p, flag) for p, flag in rows])
    # Locations are numbered without gaps.
    return np.unique(locations, return_inverse=True)[1], programs, flags


def _played(rows: Rows, seen: Mapping[int, int]) -> list[frozenset[int]]:
    """Return the releases that the program of each access knows after it, by simulation."""
    releases: dict[int, frozenset[int]] = defaultdict(frozenset)
    there: dict[int, frozenset[int]] = defaultdict(frozenset)
    past: dict[int, list[tuple[int, frozenset[int]]]] = defaultdict(list)
    result = []
    for moment, row in enumerate(zip(*(column.tolist() for column in rows), strict=True)):
        location, program, flags = row
        if flags & ACQUIRE:
            acquired = there[location]
            if moment in seen:
                old = [state for when, state in past[location] if when <= seen[moment]]
                acquired = old[-1] if old else frozenset()
            releases[program] |= acquired
        result.append(releases[program])
        if flags & RELEASE:
            before = there[location] if flags & RMW else frozenset()
            there[location] = before | releases[program] | {moment}
            past[location].append((moment, there[location]))
    return result


def _pairs(keys: Ints, moments: int) -> tuple[Ints, Ints]:
    return np.tile(keys, moments + 1), np.repeat(np.arange(-1, moments), len(keys))


@settings(max_examples=200)
@given(launches(), st.data())
def test_a_replay_agrees_with_the_simulation(rows: Rows, data: st.DataObject) -> None:
    locations, programs, flags = rows
    moments = len(programs)
    seen = data.draw(st.dictionaries(st.integers(0, max(moments - 1, 0)), st.integers(-1, 40)))
    # Programs can only see earlier moments.
    seen = {m: min(bound, m - 1) for m, bound in seen.items() if m < moments and flags[m] & ACQUIRE}
    played = _played(rows, seen)
    history = published(locations, flags)
    replay = Replay(*rows, history, seen)
    releasing = np.unique(programs[history.releases])
    program, moment = _pairs(releasing, moments)
    foreign = (moment < 0) | (programs[np.maximum(moment, 0)] != program)
    program, moment = program[foreign], moment[foreign]
    expected = [
        max((r for r in played[m] if programs[r] == p), default=-1) if m >= 0 else -1
        for p, m in zip(program.tolist(), moment.tolist(), strict=True)
    ]
    assert replay.latest(program, moment).tolist() == expected
    sequence, moment = _pairs(np.unique(history.sequence), moments)
    versions_known = replay.newest(sequence, moment)
    for s, m, version in zip(
        sequence.tolist(), moment.tolist(), versions_known.tolist(), strict=True
    ):
        releases = [] if m < 0 else [r for r in played[m] if history.sequence[r] == s]
        least = max((int(history.version[r]) for r in releases), default=0)
        assert least <= version
        # A program that knows a release may also know earlier releases of the releasing program,
        # and its own releases.
        latest = {int(programs[r]): r for r in sorted(played[m])} if m >= 0 else {}
        if m >= 0:
            latest[int(programs[m])] = m
        allowed = [r for r in history.releases.tolist() if r <= latest.get(int(programs[r]), -1)]
        versions = [int(history.version[r]) for r in allowed if history.sequence[r] == s]
        assert version <= max(versions, default=0)


@settings(max_examples=300)
@given(launches(), st.data())
def test_a_group_of_releases_is_known_exactly_if_each_is(rows: Rows, data: st.DataObject) -> None:
    locations, programs, flags = rows
    moments = len(programs)
    seen = data.draw(st.dictionaries(st.integers(0, max(moments - 1, 0)), st.integers(-1, 40)))
    seen = {m: min(bound, m - 1) for m, bound in seen.items() if m < moments and flags[m] & ACQUIRE}
    played = _played(rows, seen)
    history = published(locations, flags)
    releases = st.lists(st.sampled_from(history.releases.tolist() or [-1]), max_size=6)
    chosen = data.draw(st.lists(releases, max_size=4)) if len(history.releases) else []
    groups = [{int(programs[r]): r for r in group} for group in chosen]
    group = np.array([n for n, members in enumerate(groups) for _ in members], np.int64)
    needed = np.array([r for members in groups for r in members.values()], np.int64)
    groups_queried, moment = _pairs(np.arange(len(groups)), moments)
    are_known = Replay(*rows, history, seen).knows_all(group, needed, groups_queried, moment)
    for n, m, is_known in zip(
        groups_queried.tolist(), moment.tolist(), are_known.tolist(), strict=True
    ):
        mine = int(programs[m]) if m >= 0 else None
        there = played[m] if m >= 0 else frozenset()
        expected = all(
            any(programs[r] == program and r >= least for r in there)
            for program, least in groups[n].items()
            if program != mine
        )
        assert is_known == expected


@settings(max_examples=200)
@given(turns())
def test_chains_agree_with_a_replay(rows: Rows) -> None:
    locations, programs, flags = rows
    assert are_chains(*rows)
    history = published(locations, flags)
    chains, replay = Chains(programs, flags, history), Replay(*rows, history)
    sequence, moment = _pairs(np.unique(history.sequence), len(programs))
    np.testing.assert_array_equal(chains.newest(sequence, moment), replay.newest(sequence, moment))


@given(launches())
@example(_columns([(0, 0, RELEASE), (0, 1, ACQUIRE), (0, 1, RELEASE)]))
def test_versions_count_the_releases_since_the_last_plain_one(rows: Rows) -> None:
    locations, _, flags = rows
    history = published(locations, flags)
    sequences: dict[int, tuple[int, int]] = {}
    for moment, (location, flag) in enumerate(zip(locations.tolist(), flags.tolist(), strict=True)):
        sequence, version = int(history.sequence[moment]), int(history.version[moment])
        before = sequences.get(location)
        assert history.previous[moment] == (-1 if before is None else before[0])
        begins = bool(flag & RELEASE) and not flag & RMW
        if before is not None:
            assert (sequence == before[0]) != begins
        start = 0 if before is None or begins else before[1]
        assert version == start + bool(flag & RELEASE)
        sequences[location] = sequence, version
    assert len(np.unique(locations)) <= len(np.unique(history.sequence)) or not len(locations)


def test_only_one_location_for_each_program_makes_chains() -> None:
    once = np.array([ACQUIRE | RMW, RELEASE | RMW])
    assert not are_chains(np.array([0, 1]), np.array([5, 5]), once)
    assert are_chains(np.array([0, 1]), np.array([5, 6]), once)
    assert are_chains(np.array([0, 0]), np.array([5, 6]), once)
    assert not are_chains(np.array([0, 0]), np.array([5, 6]), np.array([ACQUIRE, RELEASE]))
