"""Earlier values that polls may see agree with sets of the writes that each program knows of."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.abi.probe_layout import LOOKS, REREADS
from ttools.interpreter.abi.reread_values import Synchronised
from ttools.sanitizer.races import ACQUIRE, RELEASE, RMW, SCALAR, EarliestReads

POLL = REREADS | LOOKS | SCALAR
ORDERS = [0, ACQUIRE, RELEASE, ACQUIRE | RELEASE]


class Memory:
    """Words that every write increments, so that a value is the number of preceding writes."""

    def __init__(self) -> None:
        self.words = np.zeros(3, np.int32)
        self.reads = EarliestReads()
        self.seq = 0

    def access(self, program: int, word: int, flags: int, site: int = 0) -> int:
        """Return the value that the access sees."""
        before = int(self.words[word])
        if flags & RMW:
            self.words[word] += 1
        self.seq += 1
        address = self.words.ctypes.data + 4 * word
        access = Synchronised(program, site, 4, before, address, flags | SCALAR, self.seq)
        value = self.reads.seen(access)
        assert value is not None
        return value


accesses = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.booleans(), st.sampled_from(ORDERS), st.integers(0, 1)
)


@given(st.lists(accesses, max_size=40))
def test_polls_do_not_see_values_older_than_known_writes(events) -> None:
    memory = Memory()
    known_writes: dict[int, np.ndarray] = defaultdict(
        lambda: np.zeros(3, int)
    )  # number of known writes to each word, by program
    published = {(word, 0): np.zeros(3, int) for word in range(3)}
    for program, word, writes, order, site in events:
        before = int(memory.words[word])
        flags = (RMW if writes else POLL) | (order & RELEASE if writes else 0) | (order & ACQUIRE)
        value = memory.access(program, word, flags, site)
        assert value == before if writes else known_writes[program][word] <= value <= before
        known_writes[program][word] = max(value, known_writes[program][word])
        if order & ACQUIRE:
            known_writes[program] = np.maximum(known_writes[program], published[word, value])
        if writes:
            known_writes[program][word] = before + 1
            published[word, before + 1] = published[word, before].copy()
            published[word, before + 1][word] = before + 1
            if order & RELEASE:
                published[word, before + 1] = np.maximum(
                    published[word, before + 1], known_writes[program]
                )


@given(st.integers(0, 300))
def test_repeated_polls_see_all_values_up_to_the_newest(writes: int) -> None:
    memory = Memory()
    for _ in range(writes):
        memory.access(0, 0, RMW | RELEASE)
    values = [memory.access(1, 0, POLL | ACQUIRE) for _ in range(100)]
    assert values[:50] == [min(n, writes) for n in range(50)]
    assert values[-1] == writes
    assert sorted(values) == values


def test_acquires_are_limited_to_the_value_seen() -> None:
    memory = Memory()
    for _ in range(3):
        memory.access(0, 0, RMW | RELEASE)
    assert [memory.access(1, 0, POLL | ACQUIRE) for _ in range(4)] == [0, 1, 2, 3]
    assert memory.reads.earlier == {4: 0, 5: 1, 6: 2}


def test_other_stores_hide_earlier_values() -> None:
    memory = Memory()
    memory.access(0, 0, RMW | RELEASE)
    memory.words[0] = 7
    assert memory.access(1, 0, POLL | ACQUIRE) == 7
    memory.access(0, 0, RMW | RELEASE)
    assert [memory.access(2, 0, POLL | ACQUIRE) for _ in range(2)] == [7, 8]


def test_overlapping_words_have_no_earlier_values() -> None:
    words = np.zeros(2, np.int32)
    reads = EarliestReads()
    narrow = Synchronised(0, 0, 4, 0, words.ctypes.data + 4, RMW | SCALAR, 1)
    wide = Synchronised(1, 1, 8, 0, words.ctypes.data, POLL, 2)
    assert reads.seen(narrow) is not None
    assert reads.seen(wide) is None


def test_polls_of_others_are_not_acquired() -> None:
    memory = Memory()
    memory.access(0, 0, RMW | RELEASE)
    # The second program polls after the first one, but may also have polled before it.
    for program in (1, 2):
        values = [memory.access(program, 0, POLL | ACQUIRE | RELEASE) for _ in range(3)]
        assert values == [0, 1, 1]
    assert memory.reads.earlier == {2: 0, 5: 0, 6: 1, 7: 1}
