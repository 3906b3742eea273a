"""The words that mark memory as never written: a word of its own for each storage.

A storage is filled with one word of 64 bits over and over. The word is drawn for that storage, so
no program can know it: data do not hold it by chance, nor because somebody put it there on purpose.
Memory that holds its word is a candidate for memory that nobody wrote; `evidence.py` decides which
candidates are certain.
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
#: From this many words on, the threads that run kernels fill them.
_MANY_WORDS = 1 << 12
#: Memory of at most this many bytes is searched in Python faster than native code is called.
_FEW = 1 << 12
#: Elements of one and two bytes are compared one by one in storages of at most this many bytes.
_LARGEST = 1 << 26
#: In storages of at most this many bytes a single such element is a candidate.
SMALL = 1 << 16

#: The values of 16 bits that words consist of, by kind. As integers of any width they are negative,
#: so that loops up to such a bound end at once. As an f16 they lie between -512 and -32,000, as a
#: bf16 and f32 they are below -1e19.
_DATA = tuple(high << 8 | low for high in range(0xE0, 0xF8) for low in range(0x80, 0x100))
#: For floats where unwritten memory is to be poison: NaN in f16, bf16, f32 and f64, and every other
#: byte in 8 bits. Arithmetic does not produce these payloads; x86 gives 0xFFC0 as a bf16.
_POISON = tuple(0xFF00 | low for low in range(0x81, 0xFF) if low != 0xC0)
#: The last of a word, which has the exponent of an f64.
_POISON_LAST = tuple(each for each in _POISON if each >= 0xFFF0)


_INTEGERS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class Grain(Enum):
    """How many elements must hold the pattern before it is worth asking whether they were written.

    The numbers are the bytes of an element, how many such elements it takes, and for how many
    others one more: several times what random bits would have.
    """

    BYTE = (1, 1, None)  #: Booleans, which are 0 or 1.
    BYTES = (1, 5, 64)
    PAIR = (2, 1, None)  #: bf16, where the pattern is an unusual number.
    PAIRS = (2, 2, 1024)
    WORD = (4, 1, None)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        size: int = self.value[0]
        return size

    def suspects(self, held: Bools, *, fewest: bool = True) -> bool:
        """Return whether so many elements hold the pattern that some may be unwritten.

        Args:
            held: A mark for each byte of some memory that holds the pattern.
            fewest: Whether a single element is enough in small memory.
        """
        size = self.size
        count = len(held) // size
        # All bytes of an element are marked: an integer of as many bytes, each of which is 1.
        whole = held[: count * size].view(_INTEGERS[size])
        alone = int(np.count_nonzero(whole == int.from_bytes(b"\1" * size, sys.byteorder)))
        return self.makes_candidates(alone, len(held), fewest=fewest)

    def makes_candidates(self, alone: int, nbytes: int, *, fewest: bool = True) -> bool:
        """Return whether so many of the elements in some memory are too many for chance.

        Args:
            alone: How many hold the pattern.
            nbytes: The size of the memory.
            fewest: Whether a single element is enough in small memory.
        """
        size, least, one_in = self.value
        if fewest and nbytes <= SMALL:
            return alone > 0
        return bool(alone >= least + (nbytes // size // one_in if one_in else 0))


def grain_of(tensor: Any) -> Grain:
    """Return the grain of a tensor's elements; words for anything else."""
    return _grain_of_type(getattr(tensor, "dtype", None))


@functools.cache
def _grain_of_type(dtype: Any) -> Grain:
    named = {"torch.bool": Grain.BYTE, "torch.bfloat16": Grain.PAIR}.get(str(dtype))
    sized = {1: Grain.BYTES, 2: Grain.PAIRS}.get(getattr(dtype, "itemsize", 0), Grain.WORD)
    return named or sized


def new_word(random: Random, *, poison: bool = False) -> bytes:
    """Return a word for a storage.

    No two of its values of 16 bits are equal, so memory that is filled with a number of at most 4
    bytes never holds the word. The second and the fourth value follow from the first and the
    third, so that `word_in` recognises words that were drawn elsewhere; those of poison do not.

    Args:
        random: Where to draw it from.
        poison: Whether the word is to be NaN as a float.
    """
    if poison:
        last = random.choice(_POISON_LAST)
        values = [*random.sample([each for each in _POISON if each != last], 3), last]
        return b"".join(each.to_bytes(2, sys.byteorder) for each in values)
    halves = _halves()
    # There is one for each allocation: `random.sample` takes several times as long.
    first = int(random.random() * len(halves))
    other = (first + 1 + int(random.random() * (len(halves) - 1))) % len(halves)
    return halves[first] + halves[other]


@functools.cache
def _halves() -> list[bytes]:
    """Return what halves of words can be."""
    pairs = [(value, _DATA[_mate(n, len(_DATA))]) for n, value in enumerate(_DATA)]
    return [b"".join(each.to_bytes(2, sys.byteorder) for each in pair) for pair in pairs]


def _mate(index: Any, count: int) -> Any:
    """Return the index of the value that stands behind that of an index."""
    return (index * 1237 + 977) % count


def word_in(memory: Bytes) -> bytes | None:
    """Return the word that most words of some memory hold, if that is one to mark storages with.

    Used for memory that another process filled. Poison is not recognised.
    """
    if len(memory) < WORD:
        padded = memory.tobytes()
        repeated = (padded + padded)[:WORD]
        return repeated if len(padded) == HALF and _are_words(_as_words(repeated))[0] else None
    words = memory[: len(memory) // WORD * WORD].view(np.uint64)
    found = words[(words & _SIGNS) == _SIGNS]
    found = found[_are_words(found)]
    if not len(found):
        return None
    values, counts = np.unique(found, return_counts=True)
    return bytes(values[counts.argmax()].tobytes())


def look_unwritten(elements: Bytes, *, poison: bool) -> Bools:
    """Return which elements of a wrong result are most probably unwritten.

    That explains a value that is known to be wrong; it is no evidence against one that may be
    right.

    Args:
        elements: A row of bytes for each element.
        poison: Whether unwritten elements are NaN.
    """
    count, size = elements.shape
    if size < 2:
        return np.zeros(count, np.bool_)
    values = np.ascontiguousarray(elements).view(np.uint16)
    if poison:
        return np.asarray(np.isin(values, _POISON).all(axis=1), np.bool_)
    known = np.isin(values, _DATA).all(axis=1)
    if size == 2:
        # A storage holds four such values at most.
        few = len(np.unique(values[known])) <= WORD // size
        return np.asarray(known & (few and np.count_nonzero(known) > WORD // size), np.bool_)
    words = np.tile(elements, WORD // size).reshape(-1).view(np.uint64)
    return known & _are_words(words)


_SIGNS = np.uint64(0x8080808080808080)


def _as_words(data: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(data, np.uint64)


def _are_words(words: NDArray[np.uint64]) -> Bools:
    """Return which words could be marks of unwritten memory."""
    values = words.view(np.uint16).reshape(-1, 4)
    high, low = (values >> 8).astype(np.int64), (values & 0xFF).astype(np.int64)
    known = ((high >= 0xE0) & (high < 0xF8) & (low >= 0x80)).all(axis=1)
    index = (high - 0xE0) * 0x80 + low - 0x80
    mates = _mate(index[:, ::2], len(_DATA)) == index[:, 1::2]
    return np.asarray(known & mates.all(axis=1), np.bool_)


def word_of(pattern: bytes) -> int:
    """Return a pattern as an unsigned integer of 64 bits."""
    return int.from_bytes(pattern, sys.byteorder)


def fill(start: int, nbytes: int, first: int, pattern: bytes) -> None:
    """Write the pattern from byte `first` of a storage on, in step with its words.

    Args:
        start: Address of the storage.
        nbytes: Size of the storage.
        first: At most `nbytes`.
        pattern: The storage's word.
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
    """Return whether any half of a word holds the pattern, or the bytes behind the last one do.

    Args:
        memory: From a multiple of 8 bytes of the storage on.
        pattern: The storage's word.
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
    """Return a mark for each byte that holds the pattern.

    Args:
        memory: From a multiple of 8 bytes of the storage on.
        pattern: The storage's word.
    """
    whole = len(memory) // WORD * WORD
    word = np.frombuffer(pattern, np.uint8)
    found = np.empty(len(memory), np.bool_)
    np.equal(memory[:whole].reshape(-1, WORD), word, out=found[:whole].reshape(-1, WORD))
    np.equal(memory[whole:], word[: len(memory) - whole], out=found[whole:])
    return found


def may_be_missing(memory: Bytes, pattern: bytes, grain: Grain = Grain.WORD) -> bool:
    """Return whether elements may be unwritten: whether it is worth asking for evidence.

    Args:
        memory: From a multiple of 8 bytes of the storage on.
        pattern: The storage's word.
        grain: The grain of its elements.
    """
    if holds_half(memory, pattern):
        return True
    if grain is Grain.WORD or len(memory) > _LARGEST:
        return False
    # As `Grain.suspects`, in as few passes as possible: it is done after most launches.
    whole = len(memory) // WORD * WORD
    integers = _INTEGERS[grain.size]
    word = np.frombuffer(pattern, integers)
    same = memory[:whole].view(integers).reshape(-1, len(word)) == word
    rest = holding(memory[whole:], pattern)
    alone = np.count_nonzero(same) + np.count_nonzero(rest) // grain.size
    return grain.makes_candidates(int(alone), len(memory))
