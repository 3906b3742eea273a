"""Waits that end as early as they may: what a poll sees if its program had looked sooner.

In the order that is run, a program may look at a flag when the others have long done all they do,
and then it is ordered after all of it. It may as well have looked before: a poll that leaves the
word as it is may be moved back to any value that the word has had, but none that lies before what
its program knows of the word already. So a poll is shown the oldest such value and, if it looks
again, the next one, until the wait ends: the earliest release that satisfies it. Polls that others
have made of the same value come later then, so what these publish is not learned. What races then
may race, though memory holds what the order run has left. Must not know kernels, nor what races.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TypeAlias

from ttools.interpreter.abi.probe_layout import REREADS
from ttools.interpreter.abi.rereads import Synchronised
from ttools.sanitizer.races.records import ACQUIRE, BLIND, OVERWRITES, RELEASE

#: Accesses of a launch that are looked at, and words of what programs know that are passed on.
_MOST_ACCESSES, _MOST_KNOWN = 1 << 14, 1 << 20
#: Polls of a launch that find what they found before: each takes a call of Python's.
_MOST_WAITS = 1 << 15
#: So many values are shown one by one, and then ever larger steps are taken.
_ONE_BY_ONE = 64
#: A loop that does other things between its polls is not shown one version more often than this.
_MOST_SHOWN = 8
#: Words of up to so many bytes are distinguished by their addresses.
_LARGEST = 8

_Known: TypeAlias = dict[int, int]
"""Which value of each word is known to have been there: addresses and indices of versions."""


@dataclass(slots=True)
class _Word:
    """The values that a word has had.

    Attributes:
        size: bytes.
        values: from the oldest to the one that is there.
        since: the place, in the order of all accesses, of what made each.
        published: what who sees it knows by that.
        floor: the oldest that may be seen: before it something was stored that is not in order.
        pollers: programs whose polls of the latest value release.
        passed_on: what these publish: known to who sees a later value.
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
        return len(self.values) - 1


@dataclass(frozen=True, slots=True)
class _Poll:
    """How a place in a program looked at a word last.

    Attributes:
        version: that it saw.
        others: how many other accesses that synchronise the program had made.
        steps: how many versions it has been shown in a row.
        shown: how often it has been shown this one before.
    """

    version: int
    others: int
    steps: int = 0
    shown: int = 0


@dataclass
class EarliestReads:
    """The accesses of one launch; it is asked for each of them, in their order.

    Attributes:
        earlier: for accesses that saw what was there before, by their place in the order: the
            place of what they saw.
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
        """What the access returns; None where it is enough."""
        word = self._word(access)
        if word is None or self._is_enough:
            return None
        known = self._known.setdefault(access.program, {})
        if access.flags & REREADS:
            key = access.program, access.site, access.address
            before = self._polls.get(key)
            poll = self._polls[key] = self._next(access, before, word, known)
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
        known[access.address] = version
        if access.flags & (ACQUIRE | BLIND):
            self._learn(known, word.published[version])
        self._change(access, word, known)
        return word.values[version] if access.flags & REREADS else access.value

    @property
    def _is_enough(self) -> bool:
        return (
            self._accesses > _MOST_ACCESSES
            or self._waits > _MOST_WAITS
            or self._passed_on > _MOST_KNOWN
        )

    def _word(self, access: Synchronised) -> _Word | None:
        """The word as the access has found it; None if others overlap it."""
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
            # Something else has stored: nobody may see what was there before.
            word.add(access.value, access.seq - 1, {})
            word.floor = word.latest
        return word if word.size == access.size else None

    def _next(self, access: Synchronised, last: _Poll | None, word: _Word, known: _Known) -> _Poll:
        """What a poll sees: the oldest version, or the next one if it goes on waiting."""
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
        """What the access leaves in the word, and what it publishes there."""
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
    """The word as the access has left it, without a sign."""
    return int.from_bytes(ctypes.string_at(access.address, access.size), "little")
