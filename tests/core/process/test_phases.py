"""Phases of work: their limits, their progress, and how they are stopped. No test waits."""

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


def test_outside_of_work_nothing_is_stopped() -> None:
    with phase("anything"):
        tick(1, 2, "records")
    assert works() == []
    assert wait_for(lambda: threading.get_ident()) == threading.get_ident()


def test_a_phase_is_stopped_when_its_time_is_over(clock: Clock) -> None:
    with Work("k", 3, 10.0, "run") as work:
        assert works() == [work]
        clock.now += 9
        tick()
        work.begin("race analysis")  # which has a time of its own
        clock.now += 9
        tick(5, 20, "records")
        assert (work.phase.done, work.phase.total, work.phase.unit) == (5, 20, "records")
        clock.now += 2
        with pytest.raises(PhaseStopped) as stopped:
            tick()
    error = stopped.value
    assert (error.phase, error.reason, error.seconds) == ("race analysis", "timeout", 11)
    assert not isinstance(error, Exception), "handlers of failures must let it pass"
    assert works() == []


def test_the_clock_stands_still_during_an_inner_phase(clock: Clock) -> None:
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
            pytest.fail("its time is over")
        assert work.broken is not None
        assert work.broken.name == "compilation"


def test_without_a_limit_no_time_is_over(clock: Clock) -> None:
    with Work("k", 1, None, "run"):
        clock.now = math.inf
        tick()


def test_the_works_of_other_threads_are_stopped() -> None:
    begun, asked = threading.Event(), threading.Event()
    caught: list[str] = []

    def works_on() -> None:
        try:
            with Work("k", 1, None, "race analysis"):
                begun.set()
                asked.wait(60)
                tick()
        except PhaseStopped as error:
            caught.append(error.reason)

    thread = threading.Thread(target=works_on)
    with Work("k", 2, None, "run"):
        thread.start()
        begun.wait(60)
        stop_other_works("interrupt")
        asked.set()
        thread.join(60)
        tick()  # this thread goes on
    assert caught == ["interrupt"]


def waits_for(event: threading.Event) -> Callable[[], str]:
    def call() -> str:
        event.wait(60)
        return "ended"

    return call


def test_a_call_that_cannot_be_stopped_is_left_behind(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[bool] = []
    monkeypatch.setattr(background, "leave_abruptly", lambda: left.append(True))
    ends = threading.Event()
    with Work("k", 1, 10.0, "compilation"):
        clock.now += 11
        with pytest.raises(PhaseStopped):
            wait_for(waits_for(ends))
    assert left == [True]
    ends.set()
    with Work("k", 1, 10.0, "compilation"):
        assert wait_for(waits_for(ends)) == "ended"
        with pytest.raises(ZeroDivisionError):
            wait_for(lambda: 1 // 0)
    assert left == [True]
