"""What a launch's arguments decide before code is compiled: which storages it never writes.

A load may be fused or recomputed only when no store of the launch can change what it reads
(ARCHITECTURE, memory order). Must not know how arguments reach native code nor what is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttools.core.spec import Extent, storage_extent
from ttools.interpreter.abi.module import Facts, MemoryEffects

_NOTHING = Facts()
#: Results of calls move between a few places, so a kernel's launches have a few sets of storages.
_MOST_KNOWN = 16


class FactFinder:
    """Finds the facts of the launches of one kernel.

    Args:
        effects: which parameters the kernel may write through.
        pointers: the indices of all its pointer parameters.
    """

    def __init__(self, effects: MemoryEffects, pointers: frozenset[int]) -> None:
        self._pointers = tuple(sorted(pointers))
        written = sorted(effects.written & pointers)
        # With no candidate every launch has the same facts and no storage is looked at.
        self._candidates = (
            () if effects.unknown_writes else tuple(sorted(pointers - effects.written))
        )
        self._written_places = tuple(map(self._pointers.index, written))
        self._candidate_places = tuple(map(self._pointers.index, self._candidates))
        self._interned: dict[frozenset[int], Facts] = {}
        self._known: dict[tuple[Extent, ...], Facts] = {}

    def facts(self, arguments: Sequence[Any]) -> Facts:
        return self.facts_of(self.extents(arguments)) if self._candidates else _NOTHING

    def extents(self, arguments: Sequence[Any]) -> tuple[Extent, ...]:
        """Return the storage behind each pointer, in the order of the parameters."""
        return tuple(map(storage_extent, map(arguments.__getitem__, self._pointers)))

    def facts_of(self, extents: tuple[Extent, ...]) -> Facts:
        """Return the facts of arguments with these storages, see `extents`."""
        if not self._candidates:
            return _NOTHING
        facts = self._known.get(extents)
        if facts is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            facts = self._known[extents] = self._facts(extents)
        return facts

    def _facts(self, extents: Sequence[Extent]) -> Facts:
        written = [extents[n] for n in self._written_places]
        known = [extent for extent in written if extent is not None]
        if len(known) < len(written):
            return _NOTHING  # one of them may point anywhere
        others = zip(self._candidates, self._candidate_places, strict=True)
        readonly = frozenset(index for index, n in others if _is_apart(extents[n], known))
        return self._interned.setdefault(readonly, Facts(readonly=readonly))


def _is_apart(extent: Extent, written: list[tuple[int, int]]) -> bool:
    if extent is None:
        return False
    start, end = extent
    return all(end <= low or high <= start for low, high in written)
