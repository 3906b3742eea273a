"""Tests that the functions timed by the compilation benchmark exist under the names it uses."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_all_that_is_timed_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from compile_time import Recorder

    wraps = Recorder().wraps()
    assert wraps
    assert not [(owner, name) for owner, name, _ in wraps if not callable(getattr(owner, name))]
