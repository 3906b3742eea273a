"""Tests of the replay of synchronising accesses in native code, compared with Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.runtime.support.native_clocks import (
    QUESTION_COLUMNS,
    STEP_COLUMNS,
    WIDTH,
    replay,
)

CLOCKS = 5
clock = st.integers(0, CLOCKS - 1)
maybe_clock = st.integers(-1, CLOCKS - 1)
steps = st.lists(
    st.tuples(
        clock,
        maybe_clock,
        maybe_clock,
        st.sampled_from([-1, 0, 1, WIDTH - 1]),
        st.integers(1, 2**31 - 1),
        st.integers(0, 1),
        st.integers(0, 1),
        maybe_clock,
    ),
    max_size=12,
)


def answer(clock, key, needs):
    """Return the entry of a program's clock for a key, or whether the clock covers `needs`."""
    if needs is None:
        return int(clock[key])
    covered = clock >= needs
    if key >= 0:
        covered[key] = True
    return int(covered.all())


@given(steps, st.data())
def test_answers_depend_on_earlier_steps_only(rows, data):
    keys = st.sampled_from([0, 1, 2, WIDTH - 1])
    needs = np.zeros((3, WIDTH), np.int32)
    for row, key in data.draw(st.sets(st.tuples(st.integers(0, 2), keys))):
        needs[row, key] = data.draw(st.integers(0, 2**31 - 1))
    last = max(len(rows) - 1, 0)
    number = st.tuples(st.integers(0, last), keys, st.just(-1))
    coverage = st.tuples(st.integers(0, last), st.just(-1) | keys, st.integers(0, 2))
    questions = sorted(data.draw(st.sets(number | coverage, max_size=8))) if rows else []
    clocks = np.zeros((CLOCKS, WIDTH), np.int32)
    expected = []
    for n, (own, reads, writes, key, value, keeps, takes, copies) in enumerate(rows):
        if reads >= 0:
            clocks[own] = np.maximum(clocks[own], clocks[reads])
        if writes >= 0:
            before = clocks[writes] if keeps else np.zeros(WIDTH, np.int32)
            clocks[writes] = np.maximum(clocks[own], before)
            if key >= 0:
                clocks[writes, key] = value
            if takes:
                clocks[own] = clocks[writes]
            if copies >= 0:
                clocks[copies] = clocks[writes]
        expected += [
            answer(clocks[own], key, needs[row] if row >= 0 else None)
            for step, key, row in questions
            if step == n
        ]
    clocks[:] = 0
    answers = replay(
        np.array(rows, np.int32).reshape(-1, STEP_COLUMNS),
        clocks,
        np.array(questions, np.int32).reshape(-1, QUESTION_COLUMNS),
        needs,
    )
    assert answers.tolist() == expected
    assert not clocks.any()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", np.zeros((1, STEP_COLUMNS - 1), np.int32)),
        ("steps", np.zeros((1, STEP_COLUMNS), np.int64)),
        ("clocks", np.zeros((CLOCKS, WIDTH - 1), np.int32)),
        ("questions", np.zeros((1, QUESTION_COLUMNS - 1), np.int32)),
        ("questions", np.zeros((QUESTION_COLUMNS, 2), np.int32).T),
        ("needs", np.zeros(WIDTH, np.int32)),
    ],
)
def test_arrays_with_another_layout_are_errors(name, value):
    arguments = {
        "steps": np.zeros((1, STEP_COLUMNS), np.int32),
        "clocks": np.zeros((CLOCKS, WIDTH), np.int32),
        "questions": np.zeros((1, QUESTION_COLUMNS), np.int32),
        "needs": np.zeros((1, WIDTH), np.int32),
    }
    with pytest.raises(ValueError, match=name):
        replay(**{**arguments, name: value})
