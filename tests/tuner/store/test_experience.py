"""Results for other keys of a kernel guide a search: the nearest key first, no other kernels."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import config_key
from ttools.tuner.store.experience import distance, experience
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry


def entry(
    seconds: float | None, *, device: str = "d", source: str = "s", **key: Any
) -> TuningEntry:
    problem = Problem(
        kernel="k",
        source=source,
        key=json.dumps({**key, "dtypes": []}),
        device=device,
        versions="v",
    )
    samples = () if seconds is None else (seconds,) * 3
    trial = Trial(values={"B": 1}, status="ok" if samples else "failed", samples=samples)
    return TuningEntry(problem=problem, trials=[trial])


sizes = st.dictionaries(st.sampled_from("mnk"), st.integers(1, 4096), min_size=1)


@settings(max_examples=50)
@given(sizes, sizes, sizes)
def test_distances_are_symmetric_and_satisfy_the_triangle_inequality(
    one: Any, two: Any, three: Any
) -> None:
    assert distance(one, one) == 0
    assert abs(distance(one, two) - distance(two, one)) < 1e-9
    if one.keys() == two.keys() == three.keys():
        assert distance(one, three) <= distance(one, two) + distance(two, three) + 1e-9


def test_the_nearest_key_comes_first_and_other_kernels_are_ignored() -> None:
    own = entry(9.0, n=64).problem
    ordered = experience(
        own,
        [
            entry(1.0, n=4096),
            entry(7.0, n=32),
            entry(2.0, n=32),  # again, in this run
            entry(3.0, n=64),  # the problem itself
            entry(4.0, n=65, device="another"),
            entry(5.0, n=65, source="changed"),
            entry(None, n=128),
        ],
    )
    key = config_key({"B": 1})
    assert ordered == [{key: 2.0}, {key: 1.0}]
    assert distance({"dtypes": ["float16"], "n": 2}, {"dtypes": ["float32"], "n": 4}) == 5.0
