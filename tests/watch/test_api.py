"""`watch()` as a context manager and decorator, and its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from watched_kernels import accumulate

from ttools.core.errors import UsageError
from ttools.watch import watch


def run_accumulate() -> None:
    accumulate[(1,)](torch.zeros(32), torch.ones(64), 32, 2, BLOCK=32)


def test_recordings_of_several_entries_are_combined() -> None:
    run = watch(["total", "nothing"])
    run(run_accumulate)()
    with run:
        run_accumulate()
    assert [record.launch.index for record in run.recording["total"]] == [0, 1]
    (stats,) = run.stats
    assert (stats.kernel, stats.launches) == ("accumulate", 2)
    assert run.unmatched == run.warnings != []


def test_everything_is_recorded_by_default() -> None:
    with watch() as run:
        run_accumulate()
    assert set(run.recording.names) >= {"n", "pid", "offs", "inside", "acc", "ptrs", "x", "total"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"names": "acc"}, r"must be a list of variables, as in watch\(\['acc'\]\)"),
        ({"programs": "first"}, "first"),
        ({"order": "other"}, "must be one of natural"),
        ({"limit": 0}, "limit=0: at least one byte is needed"),
        ({"trace": "no/such/file"}, "cannot write `no/such/file`"),
    ],
)
def test_usage_errors(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        watch(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"order": "other"}, {"threads": 0}, {"only": "k"}, {"names": ["a b"]}, {"limit": 0}],
)
def test_usage_errors_do_not_change_the_trace(tmp_path: Path, arguments: dict[str, Any]) -> None:
    trace = tmp_path / "t"
    trace.write_bytes(b"of another run")
    with pytest.raises(UsageError):
        watch(trace=trace, **arguments)
    assert trace.read_bytes() == b"of another run"
