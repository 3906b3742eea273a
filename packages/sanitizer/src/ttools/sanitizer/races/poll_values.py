"""Values for polls in the second run of a launch, so that each wait ends as early as possible.

In the order that the interpreter runs, a program may poll a flag after the other programs have
finished. It is then ordered after everything that they did, which hides races. Example:

    program 0                     program 1
    store a                       poll flag until it is at least 1 (acquire)
    flag = 1 (release)            load b
    store b
    flag = 2 (release)

If program 0 runs to its end first, program 1 polls 2. Then it is ordered after the store of `b` and
no race is found. On a GPU, program 1 may poll 1 and load `b` too early.

Therefore the launch is run a second time, and `EarliestReads` chooses the values of polls, the
accesses that leave their word unchanged. A poll may return any value that the word has had, unless
its program already knows of a later one. The poll returns the oldest such value and, each time the
program polls again, the next one, until the wait ends: in this example 0, then 1. The wait
therefore acquires the earliest release that satisfies it, the load of `b` is not ordered after the
store of `b`, and the race is reported. Polls of the same value by other programs may come later in
the assumed order, so what they release is not acquired. Other memory keeps the contents that the
actual execution has produced: the load of `b` returns the stored value.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TypeAlias

from ttools.interpreter.abi.probe_layout import REREADS
from ttools.interpreter.abi.reread_values import Synchronised
from ttools.sanitizer.races.records import ACQUIRE, BLIND, OVERWRITES, RELEASE

#: Maximum number of accesses of a launch, and of updates of what programs know. When either is
#: exceeded, `EarliestReads` stops choosing values.
_MOST_ACCESSES, _MOST_KNOWN = 1 << 14, 1 << 20
#: Maximum number of polls of a launch that return the same version again. Each of these polls calls
#: a Python function.
_MOST_WAITS = 1 << 15
#: Number of versions that consecutive polls return one by one; after that, the steps double in
#: size.
_ONE_BY_ONE = 64
#: Maximum number of times that the oldest version is returned again to a poll whose loop executes
#: other synchronising accesses between polls.
_MOST_SHOWN = 8
#: Size in bytes of the largest words; it bounds the search for overlapping words.
_LARGEST = 8

_Known: TypeAlias = dict[int, int]
"""Maps the address of a word to the index of the latest version that is known."""


@dataclass(slots=True)
class _Word:
    """The history of the values of a word; a version is an index into this history.

    Attributes:
        size: Size of the word in bytes.
        values: Value of each version, from the oldest to the current one.
        since: `seq` of the access that wrote each version.
        published: Knowledge that a program acquires with each version.
        floor: Oldest version that a poll may return. It rises when a store that is not a
            synchronising access has changed the word.
        pollers: Programs that have released at the word with a poll since the current version was
            written.
        passed_on: Knowledge that these polls released; later versions publish it.
    """

    size: int
    values: list[int]
    since: list[int]
    published: list[_Known]
    floor: int = 0
    pollers: set[int] = field(default_factory=set)
    passed_on: _Known = field(default_factory=dict)

    def add(self, value: int, since: int, published: _Known) -> None:
        self.values.append(value)
        self.since.append(since)
        self.published.append(published)
        self.pollers, self.passed_on = set(), {}

    @property
    def latest(self) -> int:
        """Index of the current version."""
        return len(self.values) - 1


@dataclass(frozen=True, slots=True)
class _Poll:
    """The last poll of a word by a site of a program.

    Attributes:
        version: Version that the poll returned.
        others: Number of other synchronising accesses that the program had executed before this
            poll.
        steps: Number of times that the wait has advanced to a newer version.
        shown: Number of earlier polls that returned the same version after other accesses.
    """

    version: int
    others: int
    steps: int = 0
    shown: int = 0


@dataclass
class EarliestReads:
    """Chooses the values of the polls of one launch.

    `seen` is called for each synchronising access in memory order.

    Attributes:
        earlier: Maps the `seq` of a poll to the `seq` of the access that wrote the polled value. It
            contains the polls that returned an earlier value or did not acquire what polls by other
            programs had released.
    """

    earlier: dict[int, int] = field(default_factory=dict)
    _words: dict[int, _Word] = field(default_factory=dict)
    _known: dict[int, _Known] = field(default_factory=dict)
    _polls: dict[tuple[int, int, int], _Poll] = field(default_factory=dict)
    _others: dict[int, int] = field(default_factory=dict)
    _accesses: int = 0
    _waits: int = 0
    _passed_on: int = 0

    def seen(self, access: Synchronised) -> int | None:
        """Return the value that an access returns, or None for its actual value.

        None is returned for overlapping words, and for all accesses after a limit of this module is
        exceeded.
        """
        word = self._word(access)
        if word is None or self._is_enough:
            return None
        knowledge = self._known.setdefault(access.program, {})
        if access.flags & REREADS:
            key = access.program, access.site, access.address
            before = self._polls.get(key)
            poll = self._polls[key] = self._next(access, before, word, knowledge)
            version = poll.version
            waits_on = before is not None and version == before.version
            self._waits += waits_on
            self._accesses += not waits_on
            if version < word.latest or not word.pollers <= {access.program}:
                self.earlier[access.seq] = word.since[version]
        else:
            self._others[access.program] = self._others.get(access.program, 0) + 1
            self._accesses += 1
            version = word.latest
        knowledge[access.address] = version
        if access.flags & (ACQUIRE | BLIND):
            self._learn(knowledge, word.published[version])
        self._change(access, word, knowledge)
        return word.values[version] if access.flags & REREADS else access.value

    @property
    def _is_enough(self) -> bool:
        return (
            self._accesses > _MOST_ACCESSES
            or self._waits > _MOST_WAITS
            or self._passed_on > _MOST_KNOWN
        )

    def _word(self, access: Synchronised) -> _Word | None:
        """Return the history of the word up to the access, or None if other words overlap it."""
        word = self._words.get(access.address)
        if word is None:
            near = range(access.address - _LARGEST + 1, access.address + access.size)
            for address in near:
                other = self._words.get(address)
                if other is not None and address + other.size > access.address:
                    return None
            word = _Word(access.size, [access.value], [0], [{}])
            self._words[access.address] = word
            return word
        if access.value != word.values[-1]:
            # A store that is not a synchronising access has changed the word. Its place in the
            # order is unknown, so no poll may return an earlier value.
            word.add(access.value, access.seq - 1, {})
            word.floor = word.latest
        return word if word.size == access.size else None

    def _next(self, access: Synchronised, last: _Poll | None, word: _Word, known: _Known) -> _Poll:
        """Return the version for a poll: the oldest one or, if its wait continues, the next one.

        A wait continues if its program has executed no other synchronising access since the last
        poll. Otherwise, the poll begins a new wait. After `_MOST_SHOWN` repetitions of the oldest
        version, however, it continues the old wait, so that the loop makes progress.
        """
        lowest = max(word.floor, known.get(access.address, 0))
        others = self._others.get(access.program, 0)
        if last is None or (last.others != others and last.shown < _MOST_SHOWN):
            shown = last.shown + 1 if last is not None and last.version == lowest else 0
            return _Poll(lowest, others, shown=shown)
        if last.version == word.latest:
            return _Poll(max(lowest, last.version), others)
        steps = last.steps + 1
        version = last.version + (1 << max(0, steps - _ONE_BY_ONE))
        return _Poll(min(max(lowest, version), word.latest), others, steps)

    def _change(self, access: Synchronised, word: _Word, known: _Known) -> None:
        """Record the value that an access leaves in a word, and the knowledge that it publishes."""
        if access.flags & REREADS:
            if access.flags & RELEASE:
                word.pollers.add(access.program)
                self._learn(word.passed_on, known)
            return
        value = _read(access)
        if value == word.values[-1] and not access.flags & (RELEASE | OVERWRITES):
            return
        published = {} if access.flags & OVERWRITES else dict(word.published[-1])
        self._learn(published, word.passed_on)
        word.add(value, access.seq, published)
        known[access.address] = word.latest
        published[access.address] = word.latest
        if access.flags & RELEASE:
            self._learn(published, known)

    def _learn(self, known: _Known, news: _Known) -> None:
        for address, version in news.items():
            if known.get(address, -1) < version:
                known[address] = version
                self._passed_on += 1


def _read(access: Synchronised) -> int:
    """Return the value of the word after an access, as an unsigned integer."""
    return int.from_bytes(ctypes.string_at(access.address, access.size), "little")
