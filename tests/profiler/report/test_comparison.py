"""Comparisons of profiles report real changes, and no noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ttools.core.errors import UsageError
from ttools.profiler.intervals import ratio_interval, verdict
from ttools.profiler.report.comparison import (
    Key,
    Times,
    compare,
    compare_profiles,
    read_profile,
)

KEY: Key = ((), "k", "")


def _key(kernel: str, config: str = "") -> Key:
    return (), kernel, config


def launches(generator: np.random.Generator, factor: float = 1.0, count: int = 50) -> list[float]:
    """Draw times with a long tail, as launches have."""
    return list(factor * 1e-4 * (1 + generator.gamma(2.0, 0.01, count)))


def runs(
    generator: np.random.Generator, number: int, spread: float, factor: float = 1.0
) -> list[list[float]]:
    """Draw runs, in each of which all launches have a common deviation."""
    return [
        launches(generator, factor * float(np.exp(generator.normal(0, spread))))
        for _ in range(number)
    ]


def verdict_of(
    base: list[list[float]],
    new: list[list[float]],
    threshold: float = 0.05,
    *,
    on_cpu: bool = False,
) -> str:
    (change,) = compare({KEY: base}, {KEY: new}, threshold, on_cpu=on_cpu)
    return change.verdict


def test_a_planted_slowdown_is_found() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        base, slow = [launches(generator)], [launches(generator, 1.08)]
        (change,) = compare({KEY: base}, {KEY: slow}, 0.05)
        assert change.verdict == "slower"
        assert change.low is not None
        assert change.high is not None
        assert change.low < 1.08 < change.high
        assert (change.base_runs, change.new_runs) == (1, 1)
        (back,) = compare({KEY: slow}, {KEY: base}, 0.05)
        assert back.verdict == "faster"


def test_unchanged_pairs_raise_no_alarm() -> None:
    generator = np.random.default_rng(2)
    for _ in range(200):
        pair = [launches(generator)], [launches(generator)]
        assert verdict_of(*pair) == "same"
        # No interval of width greater than 0 fits into a threshold of 0.
        assert verdict_of(*pair, threshold=0.0) == "inconclusive"


def test_a_slowdown_by_the_threshold_is_found() -> None:
    generator = np.random.default_rng(3)
    times = launches(generator)
    assert verdict_of([times], [[1.05 * time for time in times]]) == "slower"
    verdicts = [verdict_of([launches(generator)], [launches(generator, 1.05)]) for _ in range(200)]
    assert verdicts.count("slower") >= 196
    less = [verdict_of([launches(generator)], [launches(generator, 1.02)]) for _ in range(200)]
    assert less.count("slower") <= 2


@pytest.mark.parametrize("on_cpu", [False, True])
@pytest.mark.parametrize("spread", [0.0, 0.005, 0.03, 0.2])
@pytest.mark.parametrize("number", [2, 3, 6])
def test_the_rule_over_several_runs(number: int, spread: float, on_cpu: bool) -> None:
    """Check that runs of one program are rarely distinguished, and 30% more work always is."""
    generator = np.random.default_rng(number)
    equal = [
        verdict_of(runs(generator, number, spread), runs(generator, number, spread), on_cpu=on_cpu)
        for _ in range(80)
    ]
    # Half of the misses of a 99% interval are at each end.
    assert equal.count("faster") <= 2
    assert equal.count("slower") <= 2
    planted = [
        verdict_of(
            runs(generator, number, spread), runs(generator, number, spread, 1.3), on_cpu=on_cpu
        )
        for _ in range(80)
    ]
    assert planted.count("same") == planted.count("faster") == 0
    if spread <= 0.005 and number >= 3:
        assert planted.count("slower") == 80
        assert on_cpu or equal.count("same") >= 72


@pytest.mark.parametrize("spread", [0.1, 0.25])
def test_one_run_on_a_busy_cpu_concludes_nothing(spread: float) -> None:
    generator = np.random.default_rng(4)
    for factor in (1.0, 1.3):
        verdicts = {
            verdict_of(runs(generator, 1, spread), runs(generator, 1, spread, factor), on_cpu=True)
            for _ in range(200)
        }
        assert verdicts == {"inconclusive"}
    assert verdict_of([[1e-3] * 9], [[6e-3] * 9], on_cpu=True) == "slower"


def test_a_single_run_has_the_variance_of_the_other_side() -> None:
    generator = np.random.default_rng(5)
    several, alone = runs(generator, 4, 0.1), runs(generator, 1, 0.0)
    assert verdict_of(several, alone) == "inconclusive"
    assert verdict_of(alone, several) == "inconclusive"
    assert verdict_of(runs(generator, 4, 0.001), runs(generator, 1, 0.001, 1.3)) == "slower"


def test_many_kernels_of_one_program_raise_no_alarm() -> None:
    generator = np.random.default_rng(6)
    for _ in range(10):
        base, new = ({_key(f"k{n}"): runs(generator, 3, 0.05) for n in range(40)} for _ in range(2))
        verdicts = [change.verdict for change in compare(base, new, 0.0)]
        assert set(verdicts) == {"inconclusive"}


@given(
    low=st.floats(0.01, 100), width=st.floats(1, 100), threshold=st.floats(0, 2, exclude_min=True)
)
def test_a_verdict_holds_for_the_whole_interval(low: float, width: float, threshold: float) -> None:
    high = low * width
    decision = verdict(low, high, threshold)
    if low <= 1 <= high:
        assert decision in ("same", "inconclusive")
    if decision == "same":
        assert 1 / (1 + threshold) <= low
        assert high <= 1 + threshold
    opposite = {"slower": "faster", "faster": "slower"}
    away = abs(high - 1 - threshold) > 1e-6 and abs(low - 1 / (1 + threshold)) > 1e-6
    if away:
        assert verdict(1 / high, 1 / low, threshold) == opposite.get(decision, decision)


def test_the_interval_is_that_of_welch() -> None:
    """Check that the interval agrees with scipy's if runs differ more than a run's launches."""
    generator = np.random.default_rng(7)
    base, new = ([[float(x)] for x in generator.uniform(1, 2, n)] for n in (4, 7))
    ratio, interval = ratio_interval(base, new, 0.95)
    assert interval is not None
    logs = [np.log(np.ravel(side)) for side in (new, base)]
    expected = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    assert np.log(interval) == pytest.approx([expected.low, expected.high])
    assert np.log(ratio) == pytest.approx(logs[0].mean() - logs[1].mean())


def test_kernels_that_cannot_be_compared() -> None:
    base = {_key("gone"): [[1e-3] * 9], _key("few", "B=1"): [[1e-3] * 4]}
    new = {_key("few", "B=1"): [[2e-3] * 9], _key("fresh"): [[1e-3]]}
    changes = {change.kernel: change for change in compare(base, new, 0.05)}
    assert list(changes) == ["gone", "few", "fresh"]
    assert {kernel: change.verdict for kernel, change in changes.items()} == {
        "gone": "removed",
        "few": "too few launches",
        "fresh": "new",
    }
    assert changes["few"].ratio == pytest.approx(2.0)
    assert verdict_of([[0.0] * 9], [[1e-3] * 9]) == "inconclusive"


def test_times_of_cpu_and_gpu_are_not_compared() -> None:
    cpu, gpu = (Times(seconds={KEY: [1e-3] * 9}, scoped=True, timed_on=p) for p in ("CPU", "GPU"))
    with pytest.raises(UsageError, match="timed on the same device"):
        compare_profiles([cpu], [gpu], 0.05)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not a profile"),
        ("[]", "has schema None"),
        ('{"schema": "other/1"}', "has schema 'other/1', not 'ttools.profile/1'"),
        (
            '{"schema": "ttools.profile/1", "kernels": [{"kernel": "k"}]}',
            "required field `config`",
        ),
    ],
)
def test_invalid_profiles(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_profile(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_profile(tmp_path / "gone.json")


def test_a_written_profile_can_be_read(tmp_path: Path) -> None:
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
    verdicts = {change.scope: change.verdict for change in compare_profiles([base], [new], 0.05)}
    # Lines in Python stacks may move.
    assert verdicts == {
        ("step", "forward (model.py)"): "slower",
        ("step", "backward (model.py)"): "same",
        ("step", "gone (model.py)"): "removed",
    }
    (whole,) = compare_profiles([base], [new], 0.05, scopes=False)
    assert (whole.scope, whole.base_s, whole.new_s) == ((), 1e-3, 3.5e-3)


def test_an_older_profile_is_compared_without_scopes(tmp_path: Path) -> None:
    new = read_profile(scoped_file(tmp_path / "b.json", forward=1e-3, backward=1e-3))
    rows = [{"kernel": "k", "config": "", "seconds": [1e-3] * 9}]
    (tmp_path / "a.json").write_text(json.dumps({"schema": "ttools.profile/1", "kernels": rows}))
    base = read_profile(tmp_path / "a.json")
    assert [c.verdict for c in compare_profiles([base], [new], 0.05)] == ["same"]
