"""The pattern that marks bytes never written.

Owns how memory is filled with it and how it is recognised. Must not know which memory it is.
"""

from __future__ import annotations

import ctypes
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ttools.interpreter.runtime.support.native_fill import fill_words
from ttools.interpreter.runtime.support.native_search import holds_word

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
#: So many bytes are searched faster than native code is called.
_FEW = 1 << 12
#: Half a word by itself is evidence where there are so few that none is expected by chance, or
#: where there are several.
FEW_BYTES, _SEVERAL = 1 << 22, 3
#: Less than half a word is looked for in smaller storages only: it takes memory.
_LARGEST = 1 << 26


class Grain(Enum):
    """How much of the pattern tells that elements were never written.

    The numbers are how many bytes of it, how many such elements it takes, and for how many others
    one more: several times what random bits would have.
    """

    BYTE = (1, 1, None)  #: Of booleans, which are 0 or 1.
    BYTES = (1, 5, 64)
    PAIR = (2, 1, None)  #: Of bf16, where it is -4.9e20.
    PAIRS = (2, 2, 1024)
    WORD = (4, 1, None)

    @property
    def size(self) -> int:
        """Bytes."""
        size: int = self.value[0]
        return size

    def among(self, memory: Bytes, marks: bytes, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which bytes hold the pattern `marks` by themselves, if that is evidence.

        Args:
            memory: all of a storage.
            known: the bytes for which more than this speaks.
        """
        none = np.zeros(len(memory), np.bool_)
        if self is Grain.WORD or len(memory) > _LARGEST:
            return none
        size, least, one_in = self.value
        alone = held(memory, marks, size) & ~known
        count = np.count_nonzero(alone) // size
        if count < least + (len(memory) // size // one_in if one_in else 0):
            return none
        if self is Grain.BYTES:
            # Data have these two bytes as often the other way around, and a channel only one.
            turned = np.count_nonzero(held(memory, marks[1::-1], 1))
            even = np.count_nonzero(alone[::2])
            return none if turned * 8 > count or min(even, count - even) * 4 < count else alone
        return alone


def grain_of(tensor: Any) -> Grain:
    """That of the elements of a tensor; of anything else, words."""
    dtype = getattr(tensor, "dtype", None)
    named = {"torch.bool": Grain.BYTE, "torch.bfloat16": Grain.PAIR}.get(str(dtype))
    sized = {1: Grain.BYTES, 2: Grain.PAIRS}.get(getattr(dtype, "itemsize", 0), Grain.WORD)
    return named or sized


def common(grain: Grain, other: Grain) -> Grain:
    """What tells of memory that is seen as elements of two types."""
    return grain if grain is other else Grain.WORD


def word_of(pattern: bytes) -> int:
    """A pattern as an unsigned integer of 64 bits."""
    return int.from_bytes(pattern, sys.byteorder)


def fill(start: int, nbytes: int, first: int = 0, pattern: bytes = PATTERN) -> None:
    """Writes the pattern from byte `first` of a storage on, in step with its words.

    Args:
        start: address of the storage.
        first: at most that.
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
    return holds_run(memory[: len(memory) // WORD * WORD], pattern)


def holds_run(memory: Bytes, pattern: bytes = PATTERN) -> bool:
    """Whether any four bytes, counted from the first, hold the pattern."""
    if len(memory) <= _FEW and pattern[: WORD // 2] not in memory.tobytes():
        return False
    half = int.from_bytes(pattern[: WORD // 2], sys.byteorder)
    return holds_word(memory.ctypes.data, len(memory) * 2 // WORD, half)


def held(memory: Bytes, marks: bytes, size: int) -> NDArray[np.bool_]:
    """Which bytes hold the pattern `marks`, one by one or in aligned pairs, as `size` is 1 or 2."""
    found = np.zeros(len(memory), np.bool_)
    if size == 1:
        found[::2], found[1::2] = memory[::2] == marks[0], memory[1::2] == marks[1]
        return found
    pairs = len(memory) // 2
    equal = memory[: pairs * 2].view(np.uint16) == np.frombuffer(marks, np.uint16)[0]
    found[: pairs * 2] = np.repeat(equal, 2)
    return found


def unwritten(memory: Bytes, marks: bytes = PATTERN, grain: Grain = Grain.WORD) -> Bytes:
    """1 for each byte of the words, and halves of words, that hold the pattern `marks`.

    A whole word never holds it by chance. A half may, once in four billion; see `FEW_BYTES`.
    Less than that counts where `grain` says so, and in memory of two or three bytes.
    """
    result = _unwritten_words(memory, marks)
    if len(memory) < Grain.WORD.size and grain is not Grain.BYTE:
        grain = Grain.PAIR
    if grain is not Grain.WORD:
        result[grain.among(memory, marks, result != 0)] = 1
    return result


def _unwritten_words(memory: Bytes, marks: bytes) -> Bytes:
    whole = len(memory) // WORD * WORD
    pattern = np.frombuffer(marks, np.uint8)
    result = np.zeros(len(memory), np.uint8)
    if holds_half(memory, marks):
        _mark_words(result[:whole], memory[:whole], pattern, few=len(memory) <= FEW_BYTES)
    rest = len(memory) - whole
    if rest >= WORD // 2 and bytes(memory[whole : whole + 4]) == marks[:4]:
        result[whole : whole + 4] = 1
    if rest % 4 and bytes(memory[whole:]) == marks[:rest]:
        # Too few bytes to be recognised by themselves: as those before them.
        result[whole:] = 1 if rest > 4 or (whole and result[whole - 1]) else 0
    return result


def _mark_words(result: Bytes, memory: Bytes, pattern: Bytes, *, few: bool) -> None:
    """Marks words, and halves of words, that hold the pattern; of `few` each half is evidence."""
    words = memory.view(np.uint64) == pattern.view(np.uint64)[0]
    result[:] = np.repeat(words, WORD)
    changed = np.flatnonzero(~words)
    if len(changed):
        halves = memory.view(np.uint32).reshape(-1, 2)[changed] == pattern.view(np.uint32)
        if few or halves.sum() >= _SEVERAL:
            kept = np.repeat(halves, WORD // 2, axis=1).astype(np.uint8)
            result.reshape(-1, WORD)[changed] = kept
