"""Tests of phases of work: time limits, progress and stopping, with a simulated clock."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from ttools.core.process import background, phases
from ttools.core.process.background import wait_for
from ttools.core.process.phases import PhaseStopped, Work, phase, stop_other_works, tick, works


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(phases, "time", clock)
    return clock


def test_nothing_is_stopped_outside_of_work() -> None:
    with phase("anything"):
        tick(1, 2, "records")
    assert works() == []
    assert wait_for(lambda: threading.get_ident()) == threading.get_ident()


def test_a_phase_is_stopped_when_its_time_is_over(clock: Clock) -> None:
    with Work("k", 3, 10.0, "run") as work:
        assert works() == [work]
        clock.now += 9
        tick()
        work.begin("race analysis")  # starts the time limit anew
        clock.now += 9
        tick(5, 20, "records")
        assert (work.phase.done, work.phase.total, work.phase.unit) == (5, 20, "records")
        clock.now += 2
        with pytest.raises(PhaseStopped) as stopped:
            tick()
    error = stopped.value
    assert (error.phase, error.reason, error.seconds) == ("race analysis", "timeout", 11)
    assert not isinstance(error, Exception), "`except Exception` must not catch it"
    assert works() == []


def test_time_limits_exclude_inner_phases(clock: Clock) -> None:
    with Work("k", 1, 10.0, "race analysis") as work:
        clock.now += 6
        with phase("run in another order"):
            clock.now += 8
            tick()
        assert work.phase.name == "race analysis"
        clock.now += 3
        tick()
        assert work.broken is None
        with suppress(PhaseStopped), phase("compilation"):
            clock.now += 11
            tick()
            pytest.fail("the inner phase was not stopped")
        assert work.broken is not None
        assert work.broken.name == "compilation"


def test_nothing_is_stopped_without_a_limit(clock: Clock) -> None:
    with Work("k", 1, None, "run"):
        clock.now = math.inf
        tick()


def test_work_of_other_threads_is_stopped() -> None:
    begun, resume = threading.Event(), threading.Event()
    caught: list[str] = []

    def work_and_tick() -> None:
        try:
            with Work("k", 1, None, "race analysis"):
                begun.set()
                resume.wait(60)
                tick()
        except PhaseStopped as error:
            caught.append(error.reason)

    thread = threading.Thread(target=work_and_tick)
    with Work("k", 2, None, "run"):
        thread.start()
        begun.wait(60)
        stop_other_works("interrupt")
        resume.set()
        thread.join(60)
        tick()  # this thread is not stopped
    assert caught == ["interrupt"]


def waits_for(event: threading.Event) -> Callable[[], str]:
    def call() -> str:
        event.wait(60)
        return "ended"

    return call


def test_calls_that_cannot_be_stopped_are_abandoned(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned: list[bool] = []
    monkeypatch.setattr(background, "leave_abruptly", lambda: abandoned.append(True))
    ends = threading.Event()
    with Work("k", 1, 10.0, "compilation"):
        clock.now += 11
        with pytest.raises(PhaseStopped):
            wait_for(waits_for(ends))
    assert abandoned == [True]
    ends.set()
    with Work("k", 1, 10.0, "compilation"):
        assert wait_for(waits_for(ends)) == "ended"
        with pytest.raises(ZeroDivisionError):
            wait_for(lambda: 1 // 0)
    assert abandoned == [True]
