"""Decides which bytes of a storage were certainly never written.

Memory that was never written still contains the word that it was filled with, but memory that
contains the word may have been written. Therefore, each storage has a *shadow*: a mark for each
byte that no observed event has written. Events are stores of kernels (from their log, from shadows
that the kernel itself keeps, or from running the launch again) and operators of torch that fill
memory. Other writers (NumPy, C libraries, most operators) are not observed, but they can be
inferred from the bytes that they change:

- If all marked bytes are unchanged, there was no such writer, and every mark is correct: programs
  do not know the words with which storages are filled, so a writer changes bytes.
- Otherwise, there was an unobserved writer, and it may have written a marked byte with the value
  that the byte already had. Nevertheless, unchanged whole words of 8 bytes are certainly unwritten,
  and so are unchanged half words next to such a word, or if there are several such halves. Anything
  smaller counts as written.

For example, a storage of 16 bytes is filled with the word `w0…w7` twice. NumPy writes the number
`w0 w1` to the first two bytes by coincidence, and other data to bytes 2 to 5. Bytes 0, 1, 6 and 7
are unchanged but no whole half, so they count as written; bytes 8 to 15 are certainly unwritten.

The functions work on arrays, so that they apply to copies of GPU memory, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttools.sanitizer.memory.pattern import HALF, WORD

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bools

#: This many isolated half words cannot be a coincidence, because only one in four billion matches
#: by chance.
_SEVERAL = 3
_ALL_OF_A_HALF = np.uint32(0x01010101)


def certain(marked: Bools, unchanged: Bools) -> Bools:
    """Return which marked bytes are certainly unwritten.

    Args:
        marked: For each byte of a storage, True if no observed event has written it.
        unchanged: For each byte, True if it still holds its part of the word.
    """
    kept = marked & unchanged
    if np.count_nonzero(kept) == np.count_nonzero(marked):
        return kept
    return certain_by_words(kept)


def certain_by_words(kept: Bools) -> Bools:
    """Return which bytes are certainly unwritten even if there were unobserved writers.

    Args:
        kept: For each byte of a storage, True if it still holds its part of the word and no
            observed event has written it.
    """
    count = -(-len(kept) // WORD)
    padded = np.zeros(count * WORD, np.bool_)
    padded[: len(kept)] = kept
    # If the last word is cut off, it counts as whole if at least half of it is there.
    if len(kept) % WORD >= HALF:
        padded[len(kept) :] = True
    # A half word is fully marked if each of its 4 bytes is 1, so halves are compared as integers.
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
