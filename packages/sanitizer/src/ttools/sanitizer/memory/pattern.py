"""The pattern that marks bytes never written.

Owns how memory is filled with it and how it is recognised. Must not know which memory it is.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ttools.interpreter.runtime.native_fill import fill_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]

#: Two bytes over and over, so that elements of two bytes and more may be copied in any order. As
#: integers of any width they are negative: loops up to such a bound end at once. As an f16 they are
#: -747.5, as an i16 -7721, which rarely stand beside each other in data.
PATTERN = bytes.fromhex("d7e1") * 4
WORD = len(PATTERN)
_PATTERN_WORD = int(np.frombuffer(PATTERN, np.uint64)[0])
_PATTERN_HALF = np.frombuffer(PATTERN, np.uint32)[0]
#: From this many words on, the threads that run kernels fill them.
_MANY_WORDS = 1 << 12
#: Half a word by itself is evidence where there are so few that none is expected by chance, or
#: where there are several.
FEW_BYTES, _SEVERAL = 1 << 22, 3


def fill(start: int, nbytes: int, first: int = 0) -> None:
    """Writes the pattern from byte `first` of a storage on, in step with its words.

    Args:
        start: address of the storage.
        nbytes: its size.
        first: at most that.
    """
    head = min(-first % WORD, nbytes - first)
    words, tail = divmod(nbytes - first - head, WORD)
    address = start + first
    ctypes.memmove(address, PATTERN[first % WORD :], head)
    address += head
    if words >= _MANY_WORDS and address % WORD == 0:
        fill_words(address, words, _PATTERN_WORD)
    else:
        ctypes.memmove(address, PATTERN * words, words * WORD)
    ctypes.memmove(address + words * WORD, PATTERN, tail)


def holds_half(memory: Bytes) -> bool:
    """Whether any word has half of the pattern: else none is a copy of an unwritten one."""
    halves = memory[: len(memory) // WORD * WORD].view(np.uint32)
    return bool((halves == _PATTERN_HALF).any())


def unwritten(memory: Bytes) -> Bytes:
    """1 for each byte of the words, and halves of words, that hold the pattern.

    A whole word never holds it by chance. A half may, once in four billion; see `FEW_BYTES`.
    """
    whole = len(memory) // WORD * WORD
    pattern = np.frombuffer(PATTERN, np.uint8)
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
    if rest >= WORD // 2 and bytes(memory[whole : whole + 4]) == PATTERN[:4]:
        result[whole : whole + 4] = 1
    if rest % 4 and bytes(memory[whole:]) == PATTERN[:rest]:
        # Too few bytes to be recognised by themselves: as those before them.
        result[whole:] = 1 if rest > 4 or (whole and result[whole - 1]) else 0
    return result
