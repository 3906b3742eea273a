"""One storage that was handed out uninitialised, and which of its bytes were never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.evidence import certain
from ttools.sanitizer.memory.missing import View
from ttools.sanitizer.memory.pattern import SMALL, WORD, Grain, holding, may_be_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ttools.sanitizer.memory.pattern import Bools, Bytes

    Ranges = tuple[NDArray[np.int64], NDArray[np.int64]]

#: The writes of operators are not remembered for larger storages unless they have a shadow already:
#: it takes as much memory as the storage.
_LARGEST_REMEMBERED = 1 << 28
#: So many bytes are looked at before it is asked whether any of them may be unwritten.
_LOOKED_AT_FIRST, _LOOKED_THROUGH = 1 << 12, 1 << 20
#: More ranges are written at once.
_FEW_RANGES = 1 << 10


class UnwrittenStorage:
    """One storage that was handed out uninitialised, or that has received unwritten elements.

    Attributes:
        reference: Tells whether the storage is freed (`expired`).
        start: Address of the storage.
        nbytes: Size of the storage.
        pattern: The word that it was filled with.
        grain: How much of the pattern makes elements candidates.
        is_whole: Whether all of it was written, but for what its shadow says.
        is_output: Whether reads of it are judged as those of an output.
        shadow: 1 for each byte that no known event has written; None where that is all from
            `first` on, or nothing if the storage is whole.
        content: What unwritten bytes hold, where that is not the pattern: copies of others.
        carried: The bytes that the last launch has stored copies of unwritten elements to.
    """

    __slots__ = (
        "carried",
        "content",
        "first",
        "grain",
        "is_output",
        "is_whole",
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
        self.shadow: Bytes | None = None
        self.content: Bytes | None = None
        self.carried: Bools | None = None

    #: Whether its memory is the host's.
    is_on_host = True

    def held_bytes(self, first: int, end: int) -> Bytes:
        """Return what a range of bytes holds now."""
        return memory(self.start + first, self.start + end)

    def take_over(self, other: UnwrittenStorage) -> None:
        """Take over what is known of another storage, of which this one is a copy."""
        self.is_whole, self.content, self.carried = other.is_whole, other.content, other.carried
        self.shadow = None if other.shadow is None else other.shadow.copy()

    @property
    def may_be_unwritten(self) -> bool:
        """Whether any byte may be unwritten, before its memory is looked at."""
        return not self.is_whole or self.shadow is not None

    def suspects(self, first: int, end: int) -> bool:
        """Return whether it is worth asking whether bytes of a range are unwritten.

        Args:
            first: Byte of the storage.
            end: The byte behind the last one.
        """
        if self.shadow is not None:
            return bool(self.shadow[first:end].view(np.bool_).any())
        if self.is_whole:
            return False
        first -= first % WORD
        return may_be_missing(self.held_bytes(first, end), self.pattern, self.grain)

    def may_hold_left(self, first: int, end: int) -> bool:
        """Return whether any byte of a range may be unwritten, by its memory and the shadow.

        Args:
            first: Byte of the storage.
            end: The byte behind the last one.
        """
        if self.shadow is None:
            return self.suspects(first, end)
        if self.nbytes <= SMALL:
            return bool(self.refresh()[first:end].any())
        at, size = first - first % WORD, _LOOKED_AT_FIRST
        while at < end:
            marked = self.shadow[at : min(at + size, end)].view(np.bool_)
            if marked.any() and (marked & self._held(at, at + len(marked))).any():
                return True
            at, size = at + size, min(2 * size, _LOOKED_THROUGH)
        return False

    def known(self) -> Bytes:
        """Return the shadow as events have left it, made if there is none yet."""
        if self.shadow is None:
            self.shadow = all_written(self.nbytes)
            if not self.is_whole:
                self.shadow[self.first :] = 1
        return self.shadow

    def refresh(self) -> Bytes:
        """Return the shadow without the marks of bytes that may have been written since."""
        shadow = self.known()
        kept = certain(shadow.view(np.bool_), self._held())
        np.bitwise_and(shadow, kept.view(np.uint8), out=shadow)
        return shadow

    def _held(self, first: int = 0, end: int | None = None) -> Bools:
        """Return a mark for each byte of a range that holds what it was left with.

        Args:
            first: A multiple of 8.
            end: The byte behind the last one; the end of the storage by default.
        """
        end = self.nbytes if end is None else end
        own = self.held_bytes(first, end)
        if self.content is not None:
            return np.asarray(own == self.content[first:end], np.bool_)
        return holding(own, self.pattern)

    def asks_for_a_run(self, is_cheap: bool) -> bool:
        """Return whether to run a launch again to learn what it has stored here.

        Args:
            is_cheap: Whether that is to be done although it is certain already, by what the memory
                holds, which bytes are unwritten.
        """
        marked, held = self.known().view(np.bool_), self._held()
        kept = certain(marked, held)
        if is_cheap and kept.any():
            return True
        # Elements that may be unwritten: it takes more of them than chance leaves.
        return self.grain.suspects(marked & held & ~kept, fewest=False)

    # ---- events
    @property
    def remembers_writes(self) -> bool:
        """Whether it is remembered which elements operators write."""
        if self.is_whole:
            return self.shadow is not None
        return self.shadow is not None or self.nbytes <= _LARGEST_REMEMBERED

    def write(self, tensor: Any) -> None:
        """Take the elements of a tensor as written."""
        if tensor.nbytes == self.nbytes and tensor.is_contiguous():
            self.write_all()
        elif self.remembers_writes:
            view = View.of(tensor)
            if view.end <= self.nbytes:
                view.elements(self.known())[...] = 0

    def write_some(self, tensor: Any, written: Bools) -> None:
        """Take some elements of a tensor as written."""
        view = View.of(tensor)
        if view.end <= self.nbytes:
            view.elements(self.known())[written] = 0

    def write_all(self) -> None:
        """Take all of it as written."""
        self.is_whole, self.shadow, self.content = True, None, None

    def store(self, stored: Ranges) -> None:
        """Take bytes as written that a launch has stored to.

        Args:
            stored: The first byte of each range of them, and the byte behind its last one.
        """
        firsts, ends = (np.clip(each, 0, self.nbytes) for each in stored)
        shadow = self.known()
        if len(firsts) <= _FEW_RANGES:
            for first, end in zip(firsts, ends, strict=True):
                shadow[first:end] = 0
            return
        lowest, highest = int(firsts.min()), int(ends.max())
        steps = np.zeros(highest - lowest + 1, np.int32)
        np.add.at(steps, firsts - lowest, 1)
        np.add.at(steps, ends - lowest, -1)
        shadow[lowest:highest][np.cumsum(steps[:-1]) > 0] = 0

    def copy_to(self, tensor: Any, marks: Bools, poison: bytes = b"") -> None:
        """Take elements of a tensor as unwritten: copies of unwritten ones were put there.

        Args:
            tensor: A tensor of this storage.
            marks: Which of its elements, in a shape that broadcasts to that of the tensor.
            poison: A word to fill these elements with; by default they stay as they are. A copy to
                another type holds an ordinary number.
        """
        view = View.of(tensor)
        if view.end > self.nbytes:
            return
        self.refresh()
        marked = self.known().view(np.bool_)
        view.elements(marked)[np.broadcast_to(marks, view.shape)] = True
        if poison:
            word = np.frombuffer(poison, np.uint8)
            self.held_bytes(0, self.nbytes)[marked] = np.resize(word, self.nbytes)[marked]
        self.is_whole = False
        self.content = self.held_bytes(0, self.nbytes).copy()

    def settle(self, *, carries: bool) -> None:
        """Take over what a kernel that kept the shadow has left.

        Args:
            carries: Whether marked bytes that it has changed hold copies of unwritten elements;
                else they count as written, as those that an atomic has changed.
        """
        marked = self.known().view(np.bool_)
        changed = marked & ~self._held()
        self.carried = None
        if not changed.any():
            return
        if not carries:
            marked[changed] = False
            return
        self.carried, self.is_whole = changed, False
        self.content = self.held_bytes(0, self.nbytes).copy()


def all_written(nbytes: int) -> Bytes:
    """Return a shadow without a mark; kernels address it by words, as the storage."""
    return np.zeros((nbytes + WORD - 1) // WORD, np.uint64).view(np.uint8)[:nbytes]
