"""Simulated launches with their records, and a naive race analysis of single bytes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from ttools.sanitizer.races import ACCESS, ACQUIRE, RELEASE, RMW, SCALAR, SYNC, Site
from ttools.sanitizer.races.records import BLIND, LOOKS

LOCK, FLAG = -64, -32
"""Addresses of words that programs synchronise through; data begins at 0."""


@dataclass
class Played:
    """An access with the state that the naive analysis needs."""

    site: int
    program: int
    epoch: int
    barrier: int
    known: frozenset[int]
    elements: dict[int, int]
    """Byte address -> lane."""


@dataclass
class Launch:
    """Simulates the operations of programs, in the order of the calls, and records them.

    The records are those that the engine would write. `known` holds, for each program, the releases
    that happen before its next operation.
    """

    sites: list[Site]
    accesses: list[tuple] = field(default_factory=list)
    syncs: list[tuple] = field(default_factory=list)
    played: list[Played] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    barriers: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    known: dict[int, frozenset[int]] = field(default_factory=lambda: defaultdict(frozenset))
    published: dict[int, frozenset[int]] = field(default_factory=lambda: defaultdict(frozenset))
    history: dict[int, list[tuple[int, frozenset[int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    looked: set[tuple[int, int]] = field(default_factory=set)
    earlier: dict[int, int] = field(default_factory=dict)

    def access(self, program, site, start, *, elements=1, lane=0):
        size, numel = self.sites[site].size, self.sites[site].numel
        lane, end = lane % numel, start + elements * size
        seq, epoch, barrier = len(self.syncs), self.epochs[program], self.barriers[program]
        self.accesses.append((start, end, program, seq, site, lane, epoch, barrier))
        lanes = {byte: (lane + (byte - start) // size) % numel for byte in range(start, end)}
        self.played.append(Played(site, program, epoch, barrier, self.known[program], lanes))

    def barrier(self, program):
        self.barriers[program] += 1

    def sync(self, program, site, address, flags, *, back=0):
        """Record one lane of a synchronising operation, and the barrier that a used result implies.

        Args:
            program: Number of the program.
            site: Index of the operation.
            address: Address of the word, in bytes.
            flags: Flags of the operation.
            back: Acquire the state that was published this number of operations before.
        """
        me = len(self.syncs)
        end = address + 4
        epoch, barrier = self.epochs[program], self.barriers[program]
        self.syncs.append((address, end, program, me, site, epoch, barrier, flags))
        if flags & ACQUIRE or (flags & BLIND and (program, address) in self.looked):
            past = [frozenset(), *(s for i, s in self.history[address] if i < me - back)]
            self.known[program] |= past[-1]
            if back:
                self.earlier[me] = me - back - 1
        if flags & LOOKS:
            self.looked.add((program, address))
        if flags & RELEASE:
            kept = self.published[address] if flags & RMW else frozenset()
            self.published[address] = kept | self.known[program] | {me}
            self.history[address].append((me, self.published[address]))
        self.epochs[program] += 1
        if flags & ACQUIRE and flags & SCALAR:
            self.barrier(program)

    def lock(self, program, site, address=LOCK):
        self.sync(program, site, address, ACQUIRE | RELEASE | RMW | SCALAR)

    def unlock(self, program, site, address=LOCK):
        self.sync(program, site, address, RELEASE | RMW | SCALAR)

    def records(self):
        return np.array(self.accesses, ACCESS), np.array(self.syncs, SYNC)


def sites_clash(one: Site, other: Site) -> bool:
    kinds = {one.kind, other.kind}
    if "store" in kinds or any(site.kind == "atomic" and site.local for site in (one, other)):
        return True
    return kinds == {"atomic", "load"} and not any(
        site.kind == "load" and site.volatile for site in (one, other)
    )


def cross_kind(one: Site, other: Site) -> str:
    return "overlapping_store" if one.kind == other.kind == "store" else "race"


def meeting_bytes(launch: Launch) -> dict[tuple[str, int, int], dict[int, set[tuple[int, int]]]]:
    """Return the conflicts of all pairs of accesses, ignoring synchronisation.

    Returns:
        For each kind and pair of sites, and for each byte, the pairs of conflicting programs.
        The first program accesses the first site.
    """
    conflicts: dict = defaultdict(lambda: defaultdict(set))
    for one, other in combinations(launch.played, 2):
        if one.site > other.site:
            one, other = other, one
        a, b = launch.sites[one.site], launch.sites[other.site]
        for byte in one.elements.keys() & other.elements.keys():
            pair = (one.program, other.program)
            if one.program != other.program and sites_clash(a, b):
                if one.site == other.site:
                    pair = (min(pair), max(pair))
                conflicts[cross_kind(a, b), one.site, other.site][byte].add(pair)
            if threads_meet(one, other, a, b, byte):
                conflicts["intra_program_race", one.site, other.site][byte].add(pair)
    return conflicts


def threads_meet(one: Played, other: Played, a: Site, b: Site, byte: int) -> bool:
    """Return whether different threads of a program make two accesses with no barrier between."""
    if (one.program, one.barrier) != (other.program, other.barrier) or one.site == other.site:
        return False
    plain = [site.kind == "load" and not site.volatile for site in (a, b)]
    overtakes = a.kind == "atomic" and a.numel > 1 and plain[1]
    updates = plain[0] and (b.kind == "store" or (b.kind == "atomic" and b.numel > 1))
    if not overtakes and (not (updates or a.kind == "store") or max(a.numel, b.numel) == 1):
        return False
    # A tile whose dimensions are 1 is only broadcast, and lies in other threads.
    same = (a.shape, a.size, one.elements[byte]) == (b.shape, b.size, other.elements[byte])
    return not same


def unordered_pairs(launch: Launch) -> dict[tuple[str, int, int], set[int]]:
    """Return the bytes of unordered conflicts, by kind and sites.

    A pair of accesses is ordered if a release after the first access is known at the second access.
    """
    conflicts: dict = defaultdict(set)
    for one, other in combinations(launch.played, 2):
        a, b = launch.sites[one.site], launch.sites[other.site]
        shared = one.elements.keys() & other.elements.keys()
        if one.program == other.program or not shared or not sites_clash(a, b):
            continue
        releases = [i for i in other.known if launch.syncs[i][2] == one.program]
        kind = cross_kind(a, b)
        if any(launch.syncs[i][5] >= one.epoch for i in releases):
            if a.numel == 1 or one.barrier < launch.syncs[max(releases)][6]:
                continue
            kind = "intra_program_race"
        conflicts[kind, min(one.site, other.site), max(one.site, other.site)] |= shared
    return conflicts
