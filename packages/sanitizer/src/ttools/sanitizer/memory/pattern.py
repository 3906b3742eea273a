"""The words that mark memory as never written: one for each storage.

A storage is filled by repeating one random word of 64 bits. A program cannot know the word, so it
is very unlikely that its data contain the word. Memory that still contains its word is a candidate
for unwritten memory; `evidence.py` decides which candidates are certain.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ttools.interpreter.runtime.support import native_search
from ttools.interpreter.runtime.support.native_fill import fill_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Bools: TypeAlias = NDArray[np.bool_]

WORD = 8
HALF = WORD // 2
#: Storages of at least this many words are filled by the threads that run kernels.
_MANY_WORDS = 1 << 12
#: In memory of up to this many bytes, a search in Python is faster than a call of native code.
_FEW = 1 << 12
#: In memory of up to this many bytes, elements of one and two bytes are compared one by one.
_LARGEST = 1 << 26
#: In memory of up to this many bytes, a single element that holds the pattern is a candidate.
SMALL = 1 << 16

#: The 16-bit values of which words consist. As integers of any width, they are negative, so that
#: loops with such a number as the upper bound end immediately. As f16, they are between -512 and
#: -32,000; as bf16 and f32, they are below -1e19.
_DATA = tuple(high << 8 | low for high in range(0xE0, 0xF8) for low in range(0x80, 0x100))
#: The 16-bit values for floats with `--poison`. They are NaN as f16, bf16, f32 and f64, and every
#: other byte is NaN as an 8-bit float. Arithmetic does not produce these payloads; x86 produces
#: 0xFFC0 as bf16.
_POISON = tuple(0xFF00 | low for low in range(0x81, 0xFF) if low != 0xC0)
#: The values for the end of a word, which holds the exponent of an f64.
_POISON_LAST = tuple(value for value in _POISON if value >= 0xFFF0)


_INTEGERS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class Grain(Enum):
    """The number of elements that must hold the pattern before it is worth looking for evidence.

    Each value consists of the size of an element in bytes, the minimum number of elements, and, if
    not None, the number of elements of the memory for each of which one more element is required.
    The required number is several times what random bits would produce.
    """

    BYTE = (1, 1, None)  #: Booleans, which are 0 or 1.
    BYTES = (1, 5, 64)
    PAIR = (2, 1, None)  #: bf16, where the pattern is an unusual number.
    PAIRS = (2, 2, 1024)
    WORD = (4, 1, None)

    @property
    def size(self) -> int:
        """Return the size of an element in bytes."""
        size: int = self.value[0]
        return size

    def suspects(self, holds_pattern: Bools, *, fewest: bool = True) -> bool:
        """Return whether enough elements hold the pattern for some to be unwritten.

        Args:
            holds_pattern: For each byte of some memory, True if it holds the pattern.
            fewest: If True, a single element is enough in memory of at most `SMALL` bytes.
        """
        size = self.size
        count = len(holds_pattern) // size
        # An element is fully marked if each of its bytes is 1, so elements are compared as
        # integers.
        whole = holds_pattern[: count * size].view(_INTEGERS[size])
        alone = int(np.count_nonzero(whole == int.from_bytes(b"\1" * size, sys.byteorder)))
        return self.makes_candidates(alone, len(holds_pattern), fewest=fewest)

    def makes_candidates(self, alone: int, nbytes: int, *, fewest: bool = True) -> bool:
        """Return whether more elements hold the pattern than coincidence explains.

        Args:
            alone: Number of elements that hold the pattern.
            nbytes: Size of the memory in bytes.
            fewest: If True, a single element is enough in memory of at most `SMALL` bytes.
        """
        size, least, one_in = self.value
        if fewest and nbytes <= SMALL:
            return alone > 0
        return bool(alone >= least + (nbytes // size // one_in if one_in else 0))


def grain_of(tensor: Any) -> Grain:
    """Return the grain of a tensor's elements; `WORD` for objects that are not tensors."""
    return _grain_of_type(getattr(tensor, "dtype", None))


@functools.cache
def _grain_of_type(dtype: Any) -> Grain:
    named = {"torch.bool": Grain.BYTE, "torch.bfloat16": Grain.PAIR}.get(str(dtype))
    sized = {1: Grain.BYTES, 2: Grain.PAIRS}.get(getattr(dtype, "itemsize", 0), Grain.WORD)
    return named or sized


def new_word(random: Random, *, poison: bool = False) -> bytes:
    """Return a random word for a storage.

    No two of its 16-bit values are equal, so memory filled with a number of at most 4 bytes never
    holds the word. Except for poison, the second and fourth values are functions of the first and
    third, so that `word_in` recognises words of other processes.

    Args:
        random: The source of randomness.
        poison: If True, the word is NaN as a float.
    """
    if poison:
        last = random.choice(_POISON_LAST)
        values = [*random.sample([value for value in _POISON if value != last], 3), last]
        return b"".join(value.to_bytes(2, sys.byteorder) for value in values)
    halves = _halves()
    # This function is called for each allocation, and `random.sample` would take several times as
    # long.
    first = int(random.random() * len(halves))
    other = (first + 1 + int(random.random() * (len(halves) - 1))) % len(halves)
    return halves[first] + halves[other]


@functools.cache
def _halves() -> list[bytes]:
    """Return all possible halves of words."""
    pairs = [(value, _DATA[_mate(n, len(_DATA))]) for n, value in enumerate(_DATA)]
    return [b"".join(value.to_bytes(2, sys.byteorder) for value in pair) for pair in pairs]


def _mate(index: Any, count: int) -> Any:
    """Return the index of the value that follows, in its word, the value with a given index."""
    return (index * 1237 + 977) % count


def word_in(memory: Bytes) -> bytes | None:
    """Return the word that occurs most often in some memory, if it may mark unwritten memory.

    This function is for memory that another process has filled. Poison is not recognised.
    """
    if len(memory) < WORD:
        padded = memory.tobytes()
        repeated = (padded + padded)[:WORD]
        return repeated if len(padded) == HALF and _are_words(_as_words(repeated))[0] else None
    words = memory[: len(memory) // WORD * WORD].view(np.uint64)
    candidates = words[(words & _SIGNS) == _SIGNS]
    candidates = candidates[_are_words(candidates)]
    if not len(candidates):
        return None
    values, counts = np.unique(candidates, return_counts=True)
    return bytes(values[counts.argmax()].tobytes())


def look_unwritten(elements: Bytes, *, poison: bool) -> Bools:
    """Return which elements of a wrong result are most probably unwritten.

    The result helps to explain a value that is known to be wrong. It is not evidence that a value
    is wrong.

    Args:
        elements: One row of bytes per element.
        poison: If True, unwritten elements are NaN.
    """
    count, size = elements.shape
    if size < 2:
        return np.zeros(count, np.bool_)
    values = np.ascontiguousarray(elements).view(np.uint16)
    if poison:
        return np.asarray(np.isin(values, _POISON).all(axis=1), np.bool_)
    is_data = np.isin(values, _DATA).all(axis=1)
    if size == 2:
        # The word of a storage contains at most four different 16-bit values.
        few = len(np.unique(values[is_data])) <= WORD // size
        return np.asarray(is_data & (few and np.count_nonzero(is_data) > WORD // size), np.bool_)
    words = np.tile(elements, WORD // size).reshape(-1).view(np.uint64)
    return is_data & _are_words(words)


_SIGNS = np.uint64(0x8080808080808080)


def _as_words(data: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(data, np.uint64)


def _are_words(words: NDArray[np.uint64]) -> Bools:
    """Return which words could be marks of unwritten memory."""
    values = words.view(np.uint16).reshape(-1, 4)
    high, low = (values >> 8).astype(np.int64), (values & 0xFF).astype(np.int64)
    is_data = ((high >= 0xE0) & (high < 0xF8) & (low >= 0x80)).all(axis=1)
    index = (high - 0xE0) * 0x80 + low - 0x80
    mates = _mate(index[:, ::2], len(_DATA)) == index[:, 1::2]
    return np.asarray(is_data & mates.all(axis=1), np.bool_)


def word_of(pattern: bytes) -> int:
    """Return a pattern as an unsigned 64-bit integer."""
    return int.from_bytes(pattern, sys.byteorder)


def fill(start: int, nbytes: int, first: int, pattern: bytes) -> None:
    """Write the pattern to a storage from byte `first` on, aligned with the storage's words.

    Args:
        start: Address of the storage.
        nbytes: Size of the storage.
        first: Number of bytes to skip, at most `nbytes`.
        pattern: The word of the storage.
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


def holds_half(memory: Bytes, pattern: bytes) -> bool:
    """Return whether any half word, or a shorter rest at the end, holds the pattern.

    Args:
        memory: Bytes of the storage; the offset of the first byte is a multiple of 8.
        pattern: The word of the storage.
    """
    halves, rest = divmod(len(memory), HALF)
    at = (len(memory) - rest) % WORD
    if rest and bytes(memory[-rest:]) == pattern[at : at + rest]:
        return True
    if len(memory) <= _FEW:
        data = memory.tobytes()
        if pattern[:HALF] not in data and pattern[HALF:] not in data:
            return False
    return native_search.holds_half(memory.ctypes.data, halves, word_of(pattern))


def holding(memory: Bytes, pattern: bytes) -> Bools:
    """Return, for each byte, whether it holds the pattern.

    Args:
        memory: Bytes of the storage; the offset of the first byte is a multiple of 8.
        pattern: The word of the storage.
    """
    whole = len(memory) // WORD * WORD
    word = np.frombuffer(pattern, np.uint8)
    marks = np.empty(len(memory), np.bool_)
    np.equal(memory[:whole].reshape(-1, WORD), word, out=marks[:whole].reshape(-1, WORD))
    np.equal(memory[whole:], word[: len(memory) - whole], out=marks[whole:])
    return marks


def may_be_missing(memory: Bytes, pattern: bytes, grain: Grain = Grain.WORD) -> bool:
    """Return whether elements may be unwritten, so that the search for evidence is worthwhile.

    Args:
        memory: Bytes of the storage, beginning at an offset that is a multiple of 8.
        pattern: Word that fills unwritten memory of the storage.
        grain: Grain of the storage's elements.
    """
    if holds_half(memory, pattern):
        return True
    if grain is Grain.WORD or len(memory) > _LARGEST:
        return False
    # This computes the same as `Grain.suspects` in fewer passes over memory, because most launches
    # get here.
    whole = len(memory) // WORD * WORD
    integers = _INTEGERS[grain.size]
    word = np.frombuffer(pattern, integers)
    same = memory[:whole].view(integers).reshape(-1, len(word)) == word
    rest = holding(memory[whole:], pattern)
    alone = np.count_nonzero(same) + np.count_nonzero(rest) // grain.size
    return grain.makes_candidates(int(alone), len(memory))
