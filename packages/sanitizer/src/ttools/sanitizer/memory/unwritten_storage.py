"""One storage that was allocated uninitialised, and which of its bytes were never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.core.spec import view_spec
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.evidence import certain
from ttools.sanitizer.memory.pattern import SMALL, WORD, Grain, holding, may_be_missing
from ttools.sanitizer.memory.unwritten_elements import by_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ttools.sanitizer.memory.pattern import Bools, Bytes

    Ranges = tuple[NDArray[np.int64], NDArray[np.int64]]

#: For storages of more bytes than this, writes of operators are recorded only if there is a shadow
#: already, because a shadow takes as much memory as its storage.
_LARGEST_REMEMBERED = 1 << 28
#: Sizes in bytes of the first and of the largest chunk in which a range is searched.
_LOOKED_AT_FIRST, _LOOKED_THROUGH = 1 << 12, 1 << 20
#: If there are more ranges than this, they are marked in one pass.
_FEW_RANGES = 1 << 10


class UnwrittenStorage:
    """One storage that was allocated uninitialised, or has received unwritten elements.

    Attributes:
        reference: A weak reference; its `expired` returns whether the storage was freed.
        start: Address of the storage.
        nbytes: Size of the storage.
        pattern: The word with which it was filled.
        grain: Determines how many elements must hold the pattern to be candidates.
        is_whole: True if the whole storage was written, except for the bytes that the shadow marks.
        is_output: True if reads of unwritten elements are reported as those of an output.
        shadow: 1 for each byte that no observed event has written. None means that all bytes from
            `first` on are marked or, if `is_whole`, that no bytes are marked.
        content: The content of unwritten bytes that contain copies of other unwritten bytes instead
            of the pattern.
        carried: The bytes to which the last launch has stored copies of unwritten elements.
        writers: The launches that may have stored here, in order: the name of the kernel and the
            line that launched it, if known. Each pair occurs once.
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
        "writers",
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
        self.writers: dict[tuple[str, str | None], None] = {}

    #: True if the storage is in the host's memory.
    is_on_host = True

    def current_bytes(self, first: int, end: int) -> Bytes:
        """Return the current content of a range of bytes."""
        return memory(self.start + first, self.start + end)

    def take_over(self, other: UnwrittenStorage) -> None:
        """Copy the state of another storage, of which this storage is a copy."""
        self.is_whole, self.content, self.carried = other.is_whole, other.content, other.carried
        self.shadow = None if other.shadow is None else other.shadow.copy()
        self.writers = dict(other.writers)

    @property
    def may_be_unwritten(self) -> bool:
        """Return whether any byte may be unwritten, without examining the memory itself."""
        return not self.is_whole or self.shadow is not None

    def suspects(self, first: int, end: int) -> bool:
        """Determine by a cheap test whether bytes from `first` to `end` may be unwritten."""
        if self.shadow is not None:
            return bool(self.shadow[first:end].view(np.bool_).any())
        if self.is_whole:
            return False
        first -= first % WORD
        return may_be_missing(self.current_bytes(first, end), self.pattern, self.grain)

    def may_hold_unwritten(self, first: int, end: int) -> bool:
        """Determine from memory and shadow whether bytes from `first` to `end` may be unwritten."""
        if self.shadow is None:
            return self.suspects(first, end)
        if self.nbytes <= SMALL:
            return bool(self.refresh()[first:end].any())
        at, size = first - first % WORD, _LOOKED_AT_FIRST
        while at < end:
            marked = self.shadow[at : min(at + size, end)].view(np.bool_)
            if marked.any() and (marked & self._unchanged(at, at + len(marked))).any():
                return True
            at, size = at + size, min(2 * size, _LOOKED_THROUGH)
        return False

    def ensure_shadow(self) -> Bytes:
        """Return the current shadow; create it if there is none yet."""
        if self.shadow is None:
            self.shadow = all_written(self.nbytes)
            if not self.is_whole:
                self.shadow[self.first :] = 1
        return self.shadow

    def refresh(self) -> Bytes:
        """Remove the marks of bytes that may have been written meanwhile, and return the shadow."""
        shadow = self.ensure_shadow()
        kept = certain(shadow.view(np.bool_), self._unchanged())
        np.bitwise_and(shadow, kept.view(np.uint8), out=shadow)
        return shadow

    def _unchanged(self, first: int = 0, end: int | None = None) -> Bools:
        """Return, for each byte from `first` (a multiple of 8) on, whether it is unchanged."""
        end = self.nbytes if end is None else end
        own = self.current_bytes(first, end)
        if self.content is not None:
            return np.asarray(own == self.content[first:end], np.bool_)
        return holding(own, self.pattern)

    def needs_second_run(self, is_cheap: bool) -> bool:
        """Return whether to run a launch again to determine what it has stored in this storage.

        Args:
            is_cheap: If True, run it again even if the content of memory already shows that bytes
                are unwritten.
        """
        marked, unchanged = self.ensure_shadow().view(np.bool_), self._unchanged()
        kept = certain(marked, unchanged)
        if is_cheap and kept.any():
            return True
        # In all other cases, more candidates are needed than a coincidence could produce.
        return self.grain.suspects(marked & unchanged & ~kept, fewest=False)

    # ---- events
    @property
    def remembers_writes(self) -> bool:
        """Return whether the elements that operators write are recorded."""
        if self.is_whole:
            return self.shadow is not None
        return self.shadow is not None or self.nbytes <= _LARGEST_REMEMBERED

    def write(self, tensor: Any) -> None:
        """Mark the elements of a tensor as written."""
        if tensor.nbytes == self.nbytes and tensor.is_contiguous():
            self.write_all()
        elif self.remembers_writes:
            view = view_spec(tensor)
            if view.span[1] <= self.nbytes:
                by_element(view, self.ensure_shadow())[...] = 0

    def write_some(self, tensor: Any, written: Bools) -> None:
        """Mark some elements of a tensor as written."""
        view = view_spec(tensor)
        if view.span[1] <= self.nbytes:
            by_element(view, self.ensure_shadow())[written] = 0

    def write_all(self) -> None:
        """Mark all of the storage as written."""
        self.is_whole, self.shadow, self.content = True, None, None

    def store(self, stored: Ranges) -> None:
        """Mark the bytes to which a launch has stored as written.

        Args:
            stored: The starts and the ends of the ranges of bytes.
        """
        firsts, ends = (np.clip(bounds, 0, self.nbytes) for bounds in stored)
        shadow = self.ensure_shadow()
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
        """Mark elements of a tensor as unwritten, because they hold copies of unwritten elements.

        Args:
            tensor: A tensor of this storage.
            marks: The marked elements, in a shape that broadcasts to the tensor's shape.
            poison: A word with which these elements are filled, because a copy to another type
                contains ordinary numbers. By default, the elements are not changed.
        """
        view = view_spec(tensor)
        if view.span[1] > self.nbytes:
            return
        self.refresh()
        marked = self.ensure_shadow().view(np.bool_)
        by_element(view, marked)[np.broadcast_to(marks, view.shape)] = True
        if poison:
            word = np.frombuffer(poison, np.uint8)
            self.current_bytes(0, self.nbytes)[marked] = np.resize(word, self.nbytes)[marked]
        self.is_whole = False
        self.content = self.current_bytes(0, self.nbytes).copy()

    def settle(self, *, carries: bool) -> None:
        """Update the state after a launch whose kernel kept the shadow.

        Args:
            carries: If True, marked bytes that have changed hold copies of unwritten elements. If
                False, they count as written, like bytes that an atomic has changed.
        """
        marked = self.ensure_shadow().view(np.bool_)
        changed = marked & ~self._unchanged()
        self.carried = None
        if not changed.any():
            return
        if not carries:
            marked[changed] = False
            return
        self.carried, self.is_whole = changed, False
        self.content = self.current_bytes(0, self.nbytes).copy()


def all_written(nbytes: int) -> Bytes:
    """Return a shadow without marks, padded to whole words, because kernels read it by words."""
    return np.zeros((nbytes + WORD - 1) // WORD, np.uint64).view(np.uint8)[:nbytes]
