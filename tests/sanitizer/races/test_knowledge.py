"""Knowledge without playing access by access is the knowledge that playing them gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.sanitizer.races.knowledge import Chains, Trees, are_chains
from ttools.sanitizer.races.records import ACQUIRE, RELEASE, RMW

_FLAGS = [ACQUIRE, RMW, ACQUIRE | RMW, RELEASE | RMW, ACQUIRE | RELEASE | RMW]
_PROGRAMS = 6


@st.composite
def turns(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Locations, programs and flags of accesses; each program has one location."""
    home = draw(st.lists(st.integers(0, 3), min_size=_PROGRAMS, max_size=_PROGRAMS))
    access = st.tuples(st.integers(0, _PROGRAMS - 1), st.sampled_from(_FLAGS))
    rows = draw(st.lists(access, max_size=40))
    programs = np.array([program for program, _ in rows], np.int64)
    flags = np.array([flag for _, flag in rows], np.int64)
    return np.array([home[program] for program, _ in rows], np.int64), programs, flags


@settings(max_examples=200)
@given(turns())
def test_chains_know_what_trees_know(rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    assert are_chains(*rows)
    chains, trees = Chains(*rows), Trees(*rows)
    for one, other in zip(chains.releases, trees.releases, strict=True):
        np.testing.assert_array_equal(one, other)
    count = len(rows[0])
    sequence = np.tile(np.arange(4), count + 1)
    moment = np.repeat(np.arange(-1, count), 4)
    np.testing.assert_array_equal(chains.known(sequence, moment), trees.known(sequence, moment))


def test_only_one_location_for_each_program_makes_chains() -> None:
    once = np.array([ACQUIRE | RMW, RELEASE | RMW])
    assert not are_chains(np.array([0, 1]), np.array([5, 5]), once)
    assert are_chains(np.array([0, 1]), np.array([5, 6]), once)
    assert are_chains(np.array([0, 0]), np.array([5, 6]), once)
    assert not are_chains(np.array([0, 0]), np.array([5, 6]), np.array([ACQUIRE, RELEASE]))
