"""The text of a tuning: what a long table shows, and what it says of the rest."""

from __future__ import annotations

from pathlib import Path

from ttools.cli.tune.report import write_as_text
from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import config_key
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

PROBLEM = Problem(kernel="k", source="1", key='{"n": 5, "dtypes": []}', device="d", versions="v1")


def text_of(able: int, unable: int, path: Path) -> str:
    trials = [
        Trial(values={"BLOCK": n}, status="ok", samples=(1e-3 * (n + 1),) * 9) for n in range(able)
    ] + [Trial(values={"BLOCK": 1000 + n}, status="wrong", reason="differs") for n in range(unable)]
    winner = config_key({"BLOCK": 0})
    write_as_text([TuningEntry(problem=PROBLEM, trials=trials, winner=winner)], path)
    return path.read_text()


def test_the_ten_fastest_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    text = text_of(96, 12, tmp_path / "text")
    assert "86 slower and 2 more that cannot win left out; --format csv has all" in text
    assert text.count("BLOCK=") == 20
    assert "BLOCK=9 " in text
    assert "BLOCK=10 " not in text


def test_short_tables_are_whole(tmp_path: Path) -> None:
    text = text_of(10, 1, tmp_path / "text")
    assert "left out" not in text
    assert text.count("BLOCK=") == 11
