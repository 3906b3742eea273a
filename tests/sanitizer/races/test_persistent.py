"""Persistent maps against dictionaries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ttools.sanitizer.races.persistent import depth_of, get, join, put

KEYS = 600
DEPTH = depth_of(KEYS)
entries = st.dictionaries(st.integers(0, KEYS - 1), st.integers(1, 9), max_size=20)


def build(content):
    tree = None
    for key, count in content.items():
        tree = put(tree, key, count, DEPTH)
    return tree


def test_depth_is_the_least_that_holds_the_keys():
    assert [depth_of(n) for n in (0, 1, 16, 17, 256, 257)] == [0, 0, 0, 1, 1, 2]


@given(entries)
def test_a_map_holds_what_was_put(content):
    tree = build(content)
    assert all(get(tree, key, DEPTH) == content.get(key, 0) for key in range(KEYS))


@given(entries, entries)
def test_a_join_is_the_larger_count_of_each_key(one, other):
    joined = join(build(one), build(other), DEPTH)
    for key in range(KEYS):
        assert get(joined, key, DEPTH) == max(one.get(key, 0), other.get(key, 0))


@given(entries, entries)
def test_a_join_with_less_is_the_map_itself(one, other):
    more = build(one)
    both = join(more, build(other), DEPTH)
    assert join(both, more, DEPTH) is both
    assert join(more, both, DEPTH) is both or more == both
