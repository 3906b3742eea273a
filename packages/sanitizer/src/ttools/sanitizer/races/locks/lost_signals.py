"""Signals that are given again before anybody has taken the last one, so that they are lost.

A wait that takes what it waits for, as `atomic_xchg(flag, 0) == 1` does, needs one signal for each
time that it ends. Reads records of synchronising operations only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ttools.interpreter.abi.probe_layout import REREADS
from ttools.sanitizer.races.records import RELEASE, Records


@dataclass(frozen=True)
class LostSignal:
    """A program that gives a signal again.

    Attributes:
        program: linear id.
        site: where it gives it.
    """

    program: int
    site: int
    count: int


def lost_signal(syncs: Records, waiter: int, giving: Collection[int]) -> LostSignal | None:
    """The signals for which a program waits in vain because they were overwritten.

    Args:
        syncs: `SYNC` records.
        waiter: the program, whose last access is that of its wait.
        giving: the sites that store a signal, whatever was there.

    Returns:
        Of the first program that gave one twice in a row; None if none did.
    """
    own = syncs[syncs["program"] == waiter]
    if not giving or not len(own):
        return None
    poll = own[np.argmax(own["seq"])]
    if poll["flags"] & REREADS:
        return None  # it leaves what it waits for to others
    word = syncs[(syncs["address"] == poll["address"]) & (syncs["end"] == poll["end"])]
    word = word[np.argsort(word["seq"], kind="stable")]
    gives = np.isin(word["site"], list(giving)) & (word["flags"] & RELEASE > 0)
    gives &= (word["site"] != poll["site"]) & (word["program"] != waiter)
    again = gives[1:] & gives[:-1]
    for column in ("site", "program"):
        again &= word[column][1:] == word[column][:-1]
    if not again.any():
        return None
    first = word[1:][again][0]
    return LostSignal(int(first["program"]), int(first["site"]), int(again.sum()))
