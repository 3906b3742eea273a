"""Signals that are raised twice before they are consumed once."""

from __future__ import annotations

import pytest
from race_launches import LOCK, Launch

from ttools.interpreter.abi.probe_layout import REREADS
from ttools.sanitizer.races import Site
from ttools.sanitizer.races.locks.lost_signals import LostSignal, lost_signal

GIVE, TAKE, OTHER = 0, 1, 2
SITES = [Site("atomic", 4)] * 3
PRODUCER, CONSUMER = 3, 5


def lost(steps: str, *, looks: bool = False) -> LostSignal | None:
    """Return the signal that is lost in a sequence of steps.

    Args:
        steps: `g` raises the signal, `o` raises another word, and `t` consumes the signal.
        looks: If True, the last step only reads the word.
    """
    launch = Launch(SITES)
    for step in steps:
        if step == "t":
            launch.lock(CONSUMER, TAKE)
        else:
            launch.unlock(PRODUCER, GIVE, LOCK if step == "g" else LOCK + 4)
    if looks:
        address, end, program, seq, site, epoch, barrier, flags = launch.syncs[-1]
        launch.syncs[-1] = address, end, program, seq, site, epoch, barrier, flags | REREADS
    return lost_signal(launch.records()[1], CONSUMER, {GIVE, TAKE})


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ("ggt", 1),
        ("ggggt", 3),
        ("tgtggt", 1),
        ("gtogtgot", 0),
        ("gtgtt", 0),
        ("oogt", 0),
        ("gg", 0),
    ],
)
def test_how_many_are_lost(steps: str, count: int) -> None:
    assert lost(steps) == (LostSignal(PRODUCER, GIVE, count) if count else None)


def test_a_wait_that_only_reads_loses_no_signal() -> None:
    assert lost("ggt", looks=True) is None
