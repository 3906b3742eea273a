"""The pattern that marks bytes nobody has written.

Owns how memory is filled with it and how it is recognised. Must not know whose memory it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]

#: Eight arbitrary bytes, all different; data are not expected to hold them by chance.
PATTERN = bytes.fromhex("d7a93e51c8f4b26d")
WORD = len(PATTERN)
#: What a copy holds that begins in the middle of a word.
SHIFTED = PATTERN[WORD // 2 :] + PATTERN[: WORD // 2]
#: Half a word by itself is evidence where there are so few that none is expected by chance, or
#: where there are several.
FEW_BYTES, _SEVERAL = 1 << 22, 3


def fill(memory: Bytes, first: int) -> None:
    """Writes the pattern from byte `first` on, in step with the words of the storage."""
    aligned = min(len(memory), (first + WORD - 1) // WORD * WORD)
    memory[first:aligned] = np.frombuffer(PATTERN, np.uint8)[first % WORD :][: aligned - first]
    words = (len(memory) - aligned) // WORD
    (word,) = np.frombuffer(PATTERN, np.uint64)
    memory[aligned : aligned + words * WORD].view(np.uint64)[:] = word
    rest = len(memory) - aligned - words * WORD
    if rest:
        memory[-rest:] = np.frombuffer(PATTERN, np.uint8)[:rest]


def unwritten(memory: Bytes, form: bytes = PATTERN) -> Bytes:
    """1 for each byte of the words, and halves of words, that hold the pattern.

    A whole word never holds it by chance. A half may, once in four billion; see `FEW_BYTES`.
    """
    whole = len(memory) // WORD * WORD
    pattern = np.frombuffer(form, np.uint8)
    result = np.zeros(len(memory), np.uint8)
    words = memory[:whole].view(np.uint64) == pattern.view(np.uint64)[0]
    result[:whole] = np.repeat(words, WORD)
    changed = np.flatnonzero(~words)
    if len(changed):
        halves = memory[:whole].view(np.uint32).reshape(-1, 2)[changed] == pattern.view(np.uint32)
        if len(memory) <= FEW_BYTES or halves.sum() >= _SEVERAL:
            kept = np.repeat(halves, WORD // 2, axis=1).astype(np.uint8)
            result[:whole].reshape(-1, WORD)[changed] = kept
    rest = len(memory) - whole
    if rest >= WORD // 2 and bytes(memory[whole : whole + 4]) == form[:4]:
        result[whole : whole + 4] = 1
    if rest % 4 and bytes(memory[whole:]) == form[:rest]:
        # Too few bytes to tell by themselves: as those before them.
        result[whole:] = 1 if rest > 4 or (whole and result[whole - 1]) else 0
    return result
