"""Steps that native code plays, against Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.runtime.support.native_clocks import STEP_COLUMNS, WIDTH, replay

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


@given(steps, st.data())
def test_each_question_is_answered_as_after_its_step(rows, data):
    places = st.tuples(st.integers(0, len(rows) - 1), st.sampled_from([0, 1, 2, WIDTH - 1]))
    questions = sorted(set(data.draw(st.lists(places, max_size=8)))) if rows else []
    clocks = np.zeros((CLOCKS, WIDTH), np.int32)
    expected = []
    for n, (own, reads, writes, key, value, keeps, takes, copies) in enumerate(rows):
        if reads >= 0:
            clocks[own] = np.maximum(clocks[own], clocks[reads])
        if writes >= 0:
            held = clocks[writes] if keeps else np.zeros(WIDTH, np.int32)
            clocks[writes] = np.maximum(clocks[own], held)
            if key >= 0:
                clocks[writes, key] = value
            if takes:
                clocks[own] = clocks[writes]
            if copies >= 0:
                clocks[copies] = clocks[writes]
        expected += [int(clocks[own, place]) for step, place in questions if step == n]
    clocks[:] = 0
    answers = replay(
        np.array(rows, np.int32).reshape(-1, STEP_COLUMNS),
        clocks,
        np.array(questions, np.int32).reshape(-1, 2),
    )
    assert answers.tolist() == expected
    assert not clocks.any()
