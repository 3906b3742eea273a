"""Screens a launch: prepares the exact values that a rewritten kernel computes, and collects them.

The pass `exact_values` rewrites the kernel. If none of its checks fails, no element that the launch
has stored has an error that needs an explanation, and the launch need not be followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttools.interpreter.abi.region import Region
from ttools.ir.numpy_types import numpy_type
from ttools.sanitizer.accuracy.memory import ShadowMemory, StorageShadow
from ttools.sanitizer.accuracy.sources import Array
from ttools.sanitizer.accuracy.verdicts import OutputErrors, errors_without_sources, settled_error

#: Maximum number of elements of an output from which the figures of the report are computed.
_MOST_COMPARED = 1 << 12
#: Maximum number of elements of a storage that can be screened.
_LARGEST = 1 << 26


@dataclass
class _Tracked:
    """A storage whose exact values a screened launch loads or stores.

    Attributes:
        shadow: Shadow of the storage.
        exact: Exact values of its elements.
        is_written: True if the launch may store to it.
        kept: The exact values of the elements from which figures are computed, if the launch only
            stores; they are NaN during the launch, so that the stored ones can be recognised.
    """

    shadow: StorageShadow
    exact: Array
    is_written: bool
    kept: Array | None = None

    @property
    def step(self) -> slice:
        """Return the elements from which figures are computed."""
        step = max(-(-len(self.exact) // _MOST_COMPARED), 1)
        # An odd distance reaches all columns of rows whose length is a power of two.
        return slice(0, None, step if step == 1 else step | 1)

    def put_back(self) -> None:
        """Put back the exact values of those elements that the launch has not stored."""
        if self.kept is not None:
            own = self.exact[self.step]
            missing = np.isnan(own)
            own[missing] = self.kept[missing]
            self.kept = None


class Screening:
    """The screening of one launch.

    Args:
        programs: Number of programs of the launch.

    Attributes:
        flags: For each program, 1 if a check of the program has failed.
        has_independent_programs: True if no program can load what another program has stored.
    """

    def __init__(self, programs: int) -> None:
        self.flags = np.zeros(programs, np.int32)
        self.has_independent_programs = False
        self._addresses: dict[int, tuple[int, int, int]] = {}
        self._storages: list[_Tracked] = []

    @classmethod
    def begin(
        cls,
        memory: ShadowMemory,
        regions: Mapping[int, Region],
        types: Mapping[int, str],
        programs: int,
        *,
        written: frozenset[int],
        loaded: frozenset[int],
    ) -> Screening | None:
        """Prepare the exact values of a launch's memory; None if the launch cannot be screened.

        Args:
            memory: The shadows of the run.
            regions: The memory of each pointer parameter.
            types: Types of the elements of those parameters that point to floats.
            programs: Number of programs of the launch.
            written: Parameters through which the kernel may write.
            loaded: Parameters through which the kernel may load.
        """
        by_storage: dict[tuple[int, int], list[int]] = {}
        for index, region in regions.items():
            by_storage.setdefault(region.storage, []).append(index)
        shadows: list[tuple[StorageShadow, list[int]]] = []
        for (start, end), indices in by_storage.items():
            kinds = {types.get(index) for index in indices}
            dtype = None if start >= end else numpy_type(str(next(iter(kinds))))
            if kinds == {None} or start >= end:
                continue
            if len(kinds) > 1 or dtype is None:
                return None
            if written.isdisjoint(indices) and not memory.may_know((start, end), dtype):
                continue
            if start % dtype.itemsize or (end - start) // dtype.itemsize > _LARGEST:
                return None
            shadows.append((memory.of((start, end), dtype), indices))
        screening = cls(programs)
        screening.has_independent_programs = all(
            written.isdisjoint(indices) or loaded.isdisjoint(indices)
            for indices in by_storage.values()
        )
        for shadow, indices in shadows:
            is_written, is_loaded = (not some.isdisjoint(indices) for some in (written, loaded))
            screening._add(shadow, indices, is_written, is_loaded)
        return screening

    def _add(
        self, shadow: StorageShadow, indices: Sequence[int], is_written: bool, is_loaded: bool
    ) -> None:
        """Prepare the exact values of a storage, unless the launch only loads and all are exact."""
        error = settled_error(shadow.dtype) if shadow.dtype.itemsize <= 2 else 0.0
        exact = shadow.begin_screening(settled_error=error, is_loaded=is_loaded)
        if not is_written and not shadow.has_screened():
            return
        tracked = _Tracked(shadow, exact, is_written)
        if not is_loaded:
            tracked.kept = exact[tracked.step].copy()
            exact[tracked.step] = np.nan
        self._storages.append(tracked)
        own = int(exact.ctypes.data), shadow.start, shadow.end - shadow.start
        self._addresses.update(dict.fromkeys(indices, own))

    @property
    def parameters(self) -> tuple[int, ...]:
        """Return the indices of the parameters whose memory has shadows."""
        return tuple(sorted(self._addresses))

    @property
    def hidden(self) -> Sequence[int]:
        """Return the values of the parameters that the pass appends."""
        own = [number for index in self.parameters for number in self._addresses[index]]
        return [*own, int(self.flags.ctypes.data)]

    def end(self, launch: int) -> Iterator[tuple[StorageShadow, OutputErrors, int]]:
        """Keep the exact values that a launch without defects has stored.

        For each output, yield its shadow, its errors, and the distance between the elements from
        which they are computed.

        Args:
            launch: Number of the launch.
        """
        for tracked in self._storages:
            errors = self._errors(tracked) if tracked.is_written else None
            tracked.put_back()
            if tracked.is_written:
                tracked.shadow.end_screening(launch)
            if errors is not None:
                yield tracked.shadow, errors, tracked.step.step

    def drop(self) -> None:
        """Drop the exact values that the launch has stored."""
        for tracked in self._storages:
            tracked.put_back()
            if tracked.is_written:
                tracked.shadow.drop_screening()

    def _errors(self, tracked: _Tracked) -> OutputErrors | None:
        exact = tracked.exact[tracked.step]
        elements = np.flatnonzero(~np.isnan(exact))
        if not elements.size:
            return None
        actual: Any = tracked.shadow.contents()[tracked.step][elements]
        return errors_without_sources(actual, exact[elements], elements * tracked.step.step)
