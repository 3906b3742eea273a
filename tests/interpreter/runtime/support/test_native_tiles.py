"""Tests of the native survey of a log, i.e. of the memory of each site, compared with Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.abi.probe_layout import REPEAT_COUNT_BITS, REPEAT_LANE_BITS, REPEATED
from ttools.interpreter.runtime.access_log import access_dtype
from ttools.interpreter.runtime.support.native_tiles import survey

SITES = 4

#: Site, first byte, number of runs, distance of runs in lanes and in bytes, and bytes of a run.
records = st.tuples(
    st.integers(0, SITES - 1),
    st.integers(0, 1 << 40),
    st.integers(1, 5),
    st.sampled_from([0, 3, (1 << REPEAT_LANE_BITS) - 1]),
    st.sampled_from([64, 64, 128, 1 << 30]),
    st.integers(1, 64),
)


def logged(rows):
    """Return a log in the format of native code."""
    log = np.zeros(len(rows), access_dtype())
    for row, (site, start, count, lanes, stride, run) in zip(log, rows, strict=True):
        shift = REPEAT_COUNT_BITS + REPEAT_LANE_BITS
        word = count | lanes << REPEAT_COUNT_BITS | stride << shift
        row["start"], row["end"] = start, start + (count - 1) * stride + run
        row["site"] = site | (REPEATED if count > 1 else 0)
        row["seq"] = np.array(word if count > 1 else 9, np.uint64).view(np.int64)
    return log


@given(st.lists(records, max_size=12))
def test_each_site_is_described(rows):
    log = logged(rows)
    before = log.copy()
    spreads = survey(log, SITES)
    assert np.array_equal(log, before)
    assert spreads is not None
    for site, spread in enumerate(spreads):
        mine = [row[1:] for row in rows if row[0] == site]
        if not mine:
            assert spread.end == 0
            continue
        starts = [start for start, *_ in mine]
        assert (spread.low, spread.high) == (min(starts), max(starts))
        assert spread.end == max(start + (n - 1) * step + run for start, n, _, step, run in mine)
        assert spread.longest == max(run for *_, run in mine)
        assert spread.most == max(count for _, count, *_ in mine)
        steps = {step for _, count, _, step, _ in mine if count > 1}
        assert spread.step == (None if len(steps) > 1 else steps.pop() if steps else 0)


def test_synchronising_accesses_are_reported():
    log = logged([(0, 64, 1, 0, 64, 4), (1, 64, 1, 0, 64, 4)])
    log["site"][1] = -1
    assert survey(log, SITES) is None
