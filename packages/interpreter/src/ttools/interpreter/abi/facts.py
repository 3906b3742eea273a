"""Finds the pointer parameters whose memory a launch never writes; compiled code relies on this.

A load may be fused into its users or executed again only if no store of the same launch can change
the value that it reads. A pointer parameter is read-only if the kernel never writes through it and
its storage overlaps no storage that the kernel writes. For example, in a launch of `add(out, x,
y)`, `x` and `y` are read-only unless one of them shares its storage with `out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttools.core.spec import Extent, storage_extent
from ttools.interpreter.abi.module import Facts, MemoryEffects

_NOTHING = Facts()
#: Maximum number of cached results. Allocators reuse addresses, so the same sets of storages recur.
#: For example, a loop that allocates a small tensor for each launch has about a hundred such sets.
_MAX_CACHED = 256


class FactFinder:
    """Computes the `Facts` of each launch of one kernel.

    Args:
        effects: The parameters that the kernel may write through.
        pointers: The indices of all pointer parameters of the kernel.
    """

    def __init__(self, effects: MemoryEffects, pointers: frozenset[int]) -> None:
        self._pointers = tuple(sorted(pointers))
        written = sorted(effects.written & pointers)
        # Candidates are the parameters that the kernel never writes through. If there are none,
        # every launch has the same facts, and no storage is examined.
        self._candidates = (
            () if effects.unknown_writes else tuple(sorted(pointers - effects.written))
        )
        self._written_places = tuple(map(self._pointers.index, written))
        self._candidate_places = tuple(map(self._pointers.index, self._candidates))
        self._interned: dict[frozenset[int], Facts] = {}
        self._cached: dict[tuple[Extent, ...], Facts] = {}

    def facts(self, arguments: Sequence[Any]) -> Facts:
        return self.facts_of(self.extents(arguments)) if self._candidates else _NOTHING

    def extents(self, arguments: Sequence[Any]) -> tuple[Extent, ...]:
        """Return the storage behind each pointer, in the order of the parameters."""
        return tuple(map(storage_extent, map(arguments.__getitem__, self._pointers)))

    def facts_of(self, extents: tuple[Extent, ...]) -> Facts:
        """Return the facts of arguments whose storages are `extents`."""
        if not self._candidates:
            return _NOTHING
        facts = self._cached.get(extents)
        if facts is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            facts = self._cached[extents] = self._facts(extents)
        return facts

    def _facts(self, extents: Sequence[Extent]) -> Facts:
        written = [extents[n] for n in self._written_places]
        bounded = [extent for extent in written if extent is not None]
        if len(bounded) < len(written):
            return _NOTHING  # a written pointer of unknown extent may point anywhere
        candidates = zip(self._candidates, self._candidate_places, strict=True)
        readonly = frozenset(index for index, n in candidates if _is_disjoint(extents[n], bounded))
        return self._interned.setdefault(readonly, Facts(readonly=readonly))


def _is_disjoint(extent: Extent, written: list[tuple[int, int]]) -> bool:
    if extent is None:
        return False
    start, end = extent
    return all(end <= low or high <= start for low, high in written)
