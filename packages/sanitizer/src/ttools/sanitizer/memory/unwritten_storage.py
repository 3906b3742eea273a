"""One storage that was handed out uninitialised, and which of its bytes were never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.pattern import WORD, Grain, common, grain_of, held, unwritten
from ttools.sanitizer.memory.unstored import Logged

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bytes


class UnwrittenStorage:
    """One storage that was handed out uninitialised.

    Attributes:
        pattern: marks its unwritten bytes.
        grain: how much of it tells.
        is_whole: whether all of it was found written once; copies may have come since.
        is_output: whether reads of it are judged as those of an output.
        logged: what logs of launches tell; None if nothing.
        shadow: 1 for each byte that is not known to be written; made when first asked for.
    """

    __slots__ = (
        "first",
        "grain",
        "is_output",
        "is_whole",
        "logged",
        "nbytes",
        "pattern",
        "reference",
        "shadow",
        "start",
    )

    def __init__(
        self, reference: Any, start: int, nbytes: int, first: int, pattern: bytes, grain: Grain
    ) -> None:
        self.reference, self.start, self.nbytes = reference, start, nbytes
        self.first, self.pattern, self.grain = first, pattern, grain
        self.is_whole = self.is_output = False
        self.logged: Logged | None = None
        self.shadow: Bytes | None = None

    def refresh(self, tensor: Any) -> Bytes:
        """The shadow, less what was written since, perhaps through a tensor of another type."""
        own = memory(self.start, self.start + self.nbytes)
        self.grain = common(self.grain, grain_of(tensor))
        kept = unwritten(own, self.pattern, self.grain)
        if self.logged is not None:
            marks = held(own, self.pattern, 1)
            kept = self.logged.among(kept != 0, marks).view(np.uint8)
        shadow = self.known()
        np.bitwise_and(shadow, kept, out=shadow)
        return shadow

    def known(self) -> Bytes:
        """The shadow as it is, with what was written since."""
        if self.shadow is None:
            self.shadow = all_written(self.nbytes)
            self.shadow[self.first :] = 1
        return self.shadow


def all_written(nbytes: int) -> Bytes:
    """A shadow of so many bytes with no mark; kernels address it by words, as the storage."""
    return np.zeros((nbytes + WORD - 1) // WORD, np.uint64).view(np.uint8)[:nbytes]
