"""The readable report of a tuning: shortened tables, common values, the present configuration."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ttools.cli.tune.report import write_as_json, write_as_t4, write_as_text
from ttools.core.errors import UsageError
from ttools.tuner.cost.limits import StaticResources
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


def test_the_ten_fastest_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    text = text_of(96, 12, tmp_path / "text")
    assert "86 slower and 9 more that cannot win left out; `ttools tune export` has all" in text
    assert text.count("BLOCK=") == 13
    assert len(text.splitlines()) <= 40
    assert "BLOCK=9 " in text
    assert "BLOCK=10 " not in text


def test_short_tables_are_complete(tmp_path: Path) -> None:
    text = text_of(10, 1, tmp_path / "text")
    assert "left out" not in text
    assert text.count("BLOCK=") == 11


VALUES = {"BLOCK_N": 128, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}


def trial(n: int, seconds: float | None) -> Trial:
    return Trial(
        values={"BLOCK_M": 2**n, **VALUES},
        status="wrong" if seconds is None else "ok",
        reason="100 of 1,000 elements of `c_ptr` differ, " * 3 if seconds is None else "",
        samples=() if seconds is None else (seconds,) * 9,
    )


def test_common_values_are_shown_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    trials = [*(trial(n, 1e-3 * (9 - n)) for n in range(6)), trial(7, None)]
    entry = TuningEntry(
        problem=PROBLEM,
        trials=trials,
        winner=trials[5].key,
        present=trials[3].key,
        location=("kernels.py", 7),
    )
    write_as_text([entry], None)
    text = capfd.readouterr().out
    assert text.startswith("k  kernels.py:7\n")
    assert "  in all  BLOCK_N=128, GROUP_M=8, num_warps=4, num_stages=3\n" in text
    assert re.search(r"\n  winner  BLOCK_M=32 .*4 ms .* 1\.00\n", text)
    assert text.count("BLOCK_N=128") == 1
    assert "  BLOCK_M=128  wrong: 100 of 1,000 elements of `c_ptr` differ" in text
    table, line = text.split("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    assert line == (
        "# k, 2.25 times as fast as the first configuration, 1.50 times as fast as the "
        "present configuration\n"
        "triton.Config({'BLOCK_M': 32, 'BLOCK_N': 128, 'GROUP_M': 8}, num_warps=4, num_stages=3)\n"
    )


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        (5, "equal to the present configuration"),
        (7, "the present configuration was not timed"),
    ],
)
def test_the_present_configuration(
    capfd: pytest.CaptureFixture[str], present: int, sentence: str
) -> None:
    trials = [*(trial(n, 1e-3 * (9 - n)) for n in range(6)), trial(7, None)]
    key = config_key({"BLOCK_M": 2**present, **VALUES})
    write_as_text(
        [TuningEntry(problem=PROBLEM, trials=trials, winner=trials[5].key, present=key)], None
    )
    assert f", {sentence}\n" in capfd.readouterr().out


def test_each_tuning_has_a_t4_file_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    entries = [
        TuningEntry(problem=replace(PROBLEM, kernel=name), trials=[trial(1, 1e-3)])
        for name in ("first", "second")
    ]
    with pytest.raises(UsageError, match=r"contains one tuning, but there are 2: give --output"):
        write_as_t4(entries, None)
    write_as_t4(entries, tmp_path / "all.json")
    documents = [json.loads((tmp_path / f"all-{n}.json").read_text()) for n in (1, 2)]
    assert [document["metadata"]["kernel"] for document in documents] == ["first", "second"]
    assert f"{tmp_path}/all-2.json: second" in capfd.readouterr().err.replace("\n", "")
    write_as_t4(entries[:1], None)
    assert json.loads(capfd.readouterr().out) == documents[0]


def test_importances_are_shown(tmp_path: Path) -> None:
    trials = [
        Trial(
            values={"BLOCK_M": 2**m, "num_warps": w},
            status="ok",
            samples=(1e-6 * 2**m,) * 9,
        )
        for m in range(8)
        for w in (1, 2, 4)
    ]
    entry = TuningEntry(problem=PROBLEM, trials=trials, winner=trials[0].key)
    write_as_text([entry], tmp_path / "text", importance=True)
    assert "matter  BLOCK_M 100%, num_warps 0%; the model" in (tmp_path / "text").read_text()
    write_as_json([entry], tmp_path / "json", importance=True)
    (problem,) = json.loads((tmp_path / "json").read_text())["problems"]
    assert problem["importance"]["shares"]["BLOCK_M"] > 0.95
    assert problem["importance"]["explained"] > 0.9


RESOURCES: StaticResources = {"registers": 40, "spilled": 8, "shared": 1024, "occupancy": 0.5}


@pytest.mark.parametrize(
    ("timed", "sentence"),
    [
        (True, "in all rows: median 1 ms; timed alone; ratio 1.00; "),
        (False, "in all rows: projected 1 ms; ratio 1.00; "),
    ],
)
def test_only_predicted_times_are_called_predicted(
    tmp_path: Path, timed: bool, sentence: str
) -> None:
    own = trial(1, 1e-3 if timed else None)
    own = replace(own, status="ok", predicted=None if timed else 1e-3, resources=RESOURCES)
    trials = [own, replace(own, values={**own.values, "BLOCK_M": 4})]
    write_as_text([TuningEntry(problem=PROBLEM, trials=trials, winner=own.key)], tmp_path / "t")
    text = " ".join((tmp_path / "t").read_text().split())
    assert f"{sentence}registers 40; spilled 8 B" in text
