"""Interface through which an observer changes the values that read-only synchronising accesses see.

An access that does not change memory could have taken effect earlier than it did in a run. For
example, a program that polls a flag could have read an older value of the flag. The race check also
explores these executions: `Rereads.seen` is called for each such access, and the access then
returns the value that `seen` returned.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Protocol


class Synchronised(NamedTuple):
    """A synchronising access that has just taken effect; a lock makes all other such accesses wait.

    Attributes:
        program: The linear index of the program.
        site: The number of the probe.
        size: The size of the word in bytes.
        value: The value that the access returned, as an unsigned integer; 0 if it is not an
            integer.
        address: The address of the word.
        flags: Bits such as `probe_layout.ACQUIRES`.
        seq: The position of the access in the order of all synchronising accesses.
    """

    program: int
    site: int
    size: int
    value: int
    address: int
    flags: int
    seq: int


class Rereads(Protocol):
    """An observer that chooses the values that accesses with `REREADS` return."""

    def seen(self, access: Synchronised) -> int | None:
        """Return the value that an access reads; None if this launch needs no further calls."""


def replace_seen(rereads: Rereads, program: int, site: int, size: int, payload: int) -> bool:
    """Replace the value that an access read with the value that the observer chooses.

    Args:
        rereads: The observer of the launch.
        program: The linear index of the program.
        site: The number of the probe.
        size: The size of the word in bytes.
        payload: The address of the callback's four words: value, which is replaced, address, flags
            and position.

    Returns:
        False if the observer needs no further calls in this launch.
    """
    words = (ctypes.c_int64 * 4).from_address(payload)
    value, address, flags, seq = words
    value &= (1 << 8 * size) - 1
    replacement = rereads.seen(Synchronised(program, site, size, value, address, flags, seq))
    if replacement is not None:
        words[0] = replacement
    return replacement is not None
