"""Comparisons: planted changes are found, noise is not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ttools.core.errors import UsageError
from ttools.profiler.report.comparison import Key, compare, compare_profiles, read_profile

KEY: Key = ((), "k", "")


def launches(generator: np.random.Generator, factor: float = 1.0, count: int = 50) -> list[float]:
    """Times with the long tail that launches have."""
    return list(factor * 1e-4 * (1 + generator.gamma(2.0, 0.01, count)))


def test_a_planted_slowdown_is_found() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        base, slow = launches(generator), launches(generator, 1.08)
        (change,) = compare({KEY: base}, {KEY: slow}, 0.05)
        assert change.verdict == "slower"
        assert change.low is not None
        assert change.high is not None
        assert change.low < 1.08 < change.high * 1.01
        (back,) = compare({KEY: slow}, {KEY: base}, 0.05)
        assert back.verdict == "faster"


def test_unchanged_pairs_raise_no_alarm() -> None:
    generator = np.random.default_rng(2)
    verdicts = [
        compare({KEY: launches(generator)}, {KEY: launches(generator)}, 0.0)[0].verdict
        for _ in range(200)
    ]
    # Without any threshold the interval alone decides: 99% of them hold 1.
    assert verdicts.count("same") >= 194
    quiet = [
        compare({KEY: launches(generator)}, {KEY: launches(generator)}, 0.05)[0].verdict
        for _ in range(200)
    ]
    assert quiet.count("same") == 200


def test_a_slowdown_of_the_threshold_is_caught() -> None:
    generator = np.random.default_rng(3)
    times = launches(generator)
    (same,) = compare({KEY: times}, {KEY: [1.05 * each for each in times]}, 0.05)
    assert same.verdict == "slower"
    verdicts = [
        compare({KEY: launches(generator)}, {KEY: launches(generator, 1.05)}, 0.05)[0].verdict
        for _ in range(200)
    ]
    assert verdicts.count("slower") >= 196
    less = [
        compare({KEY: launches(generator)}, {KEY: launches(generator, 1.02)}, 0.05)[0].verdict
        for _ in range(200)
    ]
    assert less.count("slower") <= 2


def test_kernels_that_cannot_be_compared() -> None:
    base: dict[Key, list[float]] = {((), "gone", ""): [1e-3] * 9, ((), "few", "B=1"): [1e-3] * 4}
    new: dict[Key, list[float]] = {((), "few", "B=1"): [2e-3] * 9, ((), "fresh", ""): [1e-3]}
    found = {change.kernel: change for change in compare(base, new, 0.05)}
    assert list(found) == ["gone", "few", "fresh"]
    assert {kernel: change.verdict for kernel, change in found.items()} == {
        "gone": "removed",
        "few": "too few launches",
        "fresh": "new",
    }
    assert found["few"].ratio == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no profile"),
        ("[]", "has schema None"),
        ('{"schema": "other/1"}', "has schema 'other/1', not 'ttools.profile/1'"),
        (
            '{"schema": "ttools.profile/1", "kernels": [{"kernel": "k"}]}',
            "required field `config`",
        ),
    ],
)
def test_files_that_are_no_profile(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_profile(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_profile(tmp_path / "gone.json")


def test_a_profile_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    rows = [{"kernel": "k", "config": "B=1", "seconds": [1e-3, 2e-3]}]
    path.write_text(json.dumps({"schema": "ttools.profile/1", "kernels": rows}))
    times = read_profile(path)
    assert (dict(times.seconds), times.scoped) == ({((), "k", "B=1"): [1e-3, 2e-3]}, False)


def scoped_file(path: Path, **seconds: float) -> Path:
    scopes = [
        {"scope": ["step", f"{name} (model.py:{len(seconds)})"], "seconds": [value] * 9}
        for name, value in seconds.items()
    ]
    every = [value for value in seconds.values() for _ in range(9)]
    rows = [{"kernel": "k", "config": "", "seconds": every, "scopes": scopes}]
    path.write_text(json.dumps({"schema": "ttools.profile/1", "kernels": rows}))
    return path


def test_kernels_are_matched_by_scope(tmp_path: Path) -> None:
    base = read_profile(scoped_file(tmp_path / "a.json", forward=1e-3, backward=5e-3, gone=1e-3))
    new = read_profile(scoped_file(tmp_path / "b.json", forward=2e-3, backward=5e-3))
    found = {change.scope: change.verdict for change in compare_profiles(base, new, 0.05)}
    # A line in Python's stack may move.
    assert found == {
        ("step", "forward (model.py)"): "slower",
        ("step", "backward (model.py)"): "same",
        ("step", "gone (model.py)"): "removed",
    }
    (whole,) = compare_profiles(base, new, 0.05, scopes=False)
    assert (whole.scope, whole.base_s, whole.new_s) == ((), 1e-3, 3.5e-3)


def test_an_older_profile_is_compared_without_scopes(tmp_path: Path) -> None:
    new = read_profile(scoped_file(tmp_path / "b.json", forward=1e-3, backward=1e-3))
    rows = [{"kernel": "k", "config": "", "seconds": [1e-3] * 9}]
    (tmp_path / "a.json").write_text(json.dumps({"schema": "ttools.profile/1", "kernels": rows}))
    base = read_profile(tmp_path / "a.json")
    assert [c.verdict for c in compare_profiles(base, new, 0.05)] == ["same"]
