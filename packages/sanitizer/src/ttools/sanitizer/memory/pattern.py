"""The pattern that marks bytes never written.

Owns how memory is filled with it and how it is recognised. Must not know which memory it is.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ttools.interpreter.runtime.support.native_fill import fill_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]

#: Two bytes over and over, so that elements of two bytes and more may be copied in any order. As
#: integers of any width they are negative: loops up to such a bound end at once. As an f16 they are
#: -747.5, as an i16 -7721, which rarely stand beside each other in data.
PATTERN = bytes.fromhex("d7e1") * 4
#: The same for floats where unwritten memory is to be poison: a NaN in f16, bf16, f32 and f64, and
#: every other byte in 8 bits. As an i16 it is -7, so it marks no integers.
NAN_PATTERN = bytes.fromhex("f9ff") * 4
WORD = len(PATTERN)
#: From this many words on, the threads that run kernels fill them.
_MANY_WORDS = 1 << 12
#: Half a word by itself is evidence where there are so few that none is expected by chance, or
#: where there are several.
FEW_BYTES, _SEVERAL = 1 << 22, 3


def word_of(pattern: bytes) -> int:
    """A pattern as an unsigned integer of 64 bits."""
    return int.from_bytes(pattern, sys.byteorder)


def fill(start: int, nbytes: int, first: int = 0, pattern: bytes = PATTERN) -> None:
    """Writes the pattern from byte `first` of a storage on, in step with its words.

    Args:
        start: address of the storage.
        nbytes: its size.
        first: at most that.
        pattern: which.
    """
    head = min(-first % WORD, nbytes - first)
    words, tail = divmod(nbytes - first - head, WORD)
    address = start + first
    ctypes.memmove(address, pattern[first % WORD :], head)
    address += head
    if words >= _MANY_WORDS and address % WORD == 0:
        fill_words(address, words, word_of(pattern))
    else:
        ctypes.memmove(address, pattern * words, words * WORD)
    ctypes.memmove(address + words * WORD, pattern, tail)


def holds_half(memory: Bytes, pattern: bytes = PATTERN) -> bool:
    """Whether any word has half of the pattern: else none is a copy of an unwritten one."""
    halves = memory[: len(memory) // WORD * WORD].view(np.uint32)
    return bool((halves == np.frombuffer(pattern, np.uint32)[0]).any())


def unwritten(memory: Bytes, marks: bytes = PATTERN) -> Bytes:
    """1 for each byte of the words, and halves of words, that hold the pattern `marks`.

    A whole word never holds it by chance. A half may, once in four billion; see `FEW_BYTES`.
    """
    whole = len(memory) // WORD * WORD
    pattern = np.frombuffer(marks, np.uint8)
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
    if rest >= WORD // 2 and bytes(memory[whole : whole + 4]) == marks[:4]:
        result[whole : whole + 4] = 1
    if rest % 4 and bytes(memory[whole:]) == marks[:rest]:
        # Too few bytes to be recognised by themselves: as those before them.
        result[whole:] = 1 if rest > 4 or (whole and result[whole - 1]) else 0
    return result
