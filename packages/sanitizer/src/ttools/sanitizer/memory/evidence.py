"""Decides which bytes of a storage were certainly never written.

Memory that nobody has written still holds what it was left with, but the reverse need not be true.
So each storage has a *shadow*: a mark for each byte that no event is known to have written. Events
are stores that kernels make (by their log, by shadows that the kernel itself keeps, or by running
the launch again) and operators of torch that fill memory. Other writers are not seen: NumPy, C
libraries, most operators. They show by what they change:

- If all marked bytes are unchanged, there was no such writer, and every mark is right: who writes
  data changes bytes, as the words that storages are filled with are not known to the program.
- Else somebody has written, and a marked byte that is unchanged may have been written with the
  value it had. A whole word of 8 bytes is certain all the same. So is half a word beside a certain
  one, or among several such halves. What is smaller is not, and counts as written.

The functions work on arrays, so that memory of a GPU can be judged by the same rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttools.sanitizer.memory.pattern import HALF, WORD

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bools

#: So many halves of words, each by itself, are no chance: one in four billion holds the pattern.
_SEVERAL = 3
_ALL_OF_A_HALF = np.uint32(0x01010101)


def certain(marked: Bools, held: Bools) -> Bools:
    """Return which marked bytes are certainly unwritten.

    Args:
        marked: A mark for each byte of a storage that no known event has written.
        held: A mark for each byte that holds what it was left with.
    """
    kept = marked & held
    if np.count_nonzero(kept) == np.count_nonzero(marked):
        return kept
    return certain_by_words(kept)


def certain_by_words(kept: Bools) -> Bools:
    """Return which bytes are certainly unwritten although there may have been unseen writers.

    Args:
        kept: A mark for each byte of a storage that holds its word.
    """
    count = -(-len(kept) // WORD)
    padded = np.zeros(count * WORD, np.bool_)
    padded[: len(kept)] = kept
    # The last word may be shorter: what there is of it counts, if it is half a word or more.
    if len(kept) % WORD >= HALF:
        padded[len(kept) :] = True
    # Words and halves as integers, of which each byte is 1 if it is marked.
    halves = (padded.view(np.uint32) == _ALL_OF_A_HALF).reshape(-1, 2)
    sure = halves[:, 0] & halves[:, 1]
    alone = halves & ~sure[:, None]
    if alone.any():
        beside = np.zeros_like(halves)
        beside[1:, 0], beside[:-1, 1] = sure[:-1], sure[1:]
        if np.count_nonzero(alone) < _SEVERAL:
            alone &= beside
    marks = (alone | sure[:, None]) * _ALL_OF_A_HALF
    return np.asarray(marks.reshape(-1).view(np.bool_)[: len(kept)], np.bool_)
