"""How accesses that leave memory as it is are made to see what was there before.

Such an access may take effect earlier than it does in a run, so that one run stands for the orders
in which a program looked sooner. The interface between `monitor` and whoever explores them. Must
not know what is concluded.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Protocol


class Synchronised(NamedTuple):
    """One synchronising access that has just taken effect; no other one does meanwhile.

    Attributes:
        program: linear id.
        site: number of its probe.
        size: bytes of the word.
        value: what it returned, without a sign; 0 where that is no integer.
        flags: bits of `probe_layout.ACQUIRES` and the following.
        seq: its place in the order of all.
    """

    program: int
    site: int
    size: int
    value: int
    address: int
    flags: int
    seq: int


class Rereads(Protocol):
    """Who chooses what accesses see."""

    def seen(self, access: Synchronised) -> int | None:
        """What an access with `REREADS` returns; None to be asked no more in this launch."""


def replace_seen(rereads: Rereads, program: int, site: int, size: int, payload: int) -> bool:
    """Asks what an access sees; returns whether to ask again.

    Args:
        rereads: is asked.
        program: see `Synchronised`, and the following.
        site: of it.
        size: of it.
        payload: of the callback: the value, which may be replaced, address, flags, seq.
    """
    words = (ctypes.c_int64 * 4).from_address(payload)
    value, address, flags, seq = words
    value &= (1 << 8 * size) - 1
    seen = rereads.seen(Synchronised(program, site, size, value, address, flags, seq))
    if seen is not None:
        words[0] = seen
    return seen is not None
