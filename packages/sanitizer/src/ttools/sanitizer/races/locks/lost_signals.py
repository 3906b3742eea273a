"""Detection of signals that are lost because a second signal overwrites them before they are taken.

A wait such as `while tl.atomic_xchg(flag, 0) != 1` resets the flag, so each wait needs a signal of
its own. If a program stores 1 twice before a wait has reset the flag, one signal is lost, and a
later wait never ends.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ttools.interpreter.abi.probe_layout import REREADS
from ttools.sanitizer.races.records import RELEASE, Records


@dataclass(frozen=True)
class LostSignal:
    """A program that overwrites its own signals.

    Attributes:
        program: Linear index of the program in the grid.
        site: Site at which it stores the signal.
        count: Number of signals of all programs that were lost at the word.
    """

    program: int
    site: int
    count: int


def lost_signal(syncs: Records, waiter: int, giving: Collection[int]) -> LostSignal | None:
    """Find signals that were overwritten at the word for which a program waits.

    Args:
        syncs: `SYNC` records of the launch.
        waiter: Waiting program; its last sync record is the poll of its wait.
        giving: Sites that store a signal unconditionally.

    Returns:
        The first program that stored a signal twice in a row; None if no program did.
    """
    own = syncs[syncs["program"] == waiter]
    if not giving or not len(own):
        return None
    poll = own[np.argmax(own["seq"])]
    if poll["flags"] & REREADS:
        return None  # The poll leaves the signal in the word, so one signal can end several waits.
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
