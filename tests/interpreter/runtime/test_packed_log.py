"""Tests that a packed log returns the records that were appended to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.interpreter.runtime import packed_log
from ttools.interpreter.runtime.access_log import access_dtype
from ttools.interpreter.runtime.packed_log import PackedLog

numbers = st.sampled_from([0, 1, 3, 2**30, -1])
rows = st.tuples(
    st.integers(0, 2**47), st.sampled_from([4, 4, 4, 64]), numbers, numbers, *[numbers] * 4
)
# Rows can have the same address and different lengths.
blocks = st.lists(
    st.lists(rows, max_size=4)
    | st.lists(rows, max_size=3).map(lambda part: [(2**40, *row[1:]) for row in part])
    | rows.map(lambda row: [row] * 3),
    max_size=4,
)


@settings(max_examples=60)
@given(blocks)
def test_records_are_returned_unchanged(blocks):
    log, parts = PackedLog(), [np.zeros(0, access_dtype())]
    for block in blocks:
        records = np.array(
            [(start, start + size, *others) for start, size, *others in block], access_dtype()
        )
        parts.append(records.copy())
        log.add(records)
        records["lane"] = 9  # the log must have copied the records: their memory is reused
    expected = np.concatenate(parts)
    assert len(log) == len(expected)
    assert np.array_equal(log.records(), expected)
    for name in access_dtype().names:
        if name != "end":
            assert np.array_equal(log.column(name), expected[name])
            pieces = [np.zeros(0, np.int64), *log.pieces(name)]
            assert np.array_equal(np.concatenate(pieces), expected[name])
    if len(expected):
        sizes = expected["end"] - expected["start"]
        assert log.bounds("bytes") == (sizes.min(), sizes.max())
        assert log.bounds("site") == (expected["site"].min(), expected["site"].max())


def test_the_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_log, "MOST_RECORDS", 5)
    log = PackedLog()
    log.add(np.zeros(3, access_dtype()))
    assert not log.is_full
    log.add(np.zeros(3, access_dtype()))
    assert (len(log), log.is_full) == (3, True)


def test_the_log_can_be_shortened() -> None:
    log = PackedLog()
    for lane in range(3):
        records = np.zeros(2, access_dtype())
        records["lane"] = lane
        log.add(records)
    log.shorten(6)
    assert (len(log), log.is_full) == (6, False)
    log.shorten(3)
    assert (log.records()["lane"].tolist(), log.is_full) == ([0, 0], True)
