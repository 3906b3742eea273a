"""The memory that a kernel's parameters may access, looked up again where a tensor has changed.

A kernel is mostly launched with the tensors of its last launch. Must not know what leaving memory
means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ttools.interpreter.observation import ObservedLaunch
from ttools.interpreter.region import NOWHERE, Region


class KnownRegions:
    """The regions of the parameters of one kernel's last launch."""

    def __init__(self) -> None:
        self._last: tuple[list[object], Sequence[Region], Sequence[int]] = ([], (), ())

    def regions(self, launch: ObservedLaunch, find: Callable[[int], Region]) -> Sequence[Region]:
        """The regions of a launch: the same object as at the last launch, if all are alike.

        Args:
            launch: of the kernel, under the same options as all others.
            find: finds the region of a parameter that is a pointer.
        """
        pointers, arguments = launch.plan.pointers, launch.arguments
        keys = [
            _layout(arguments[index], value) if index in pointers else _NO_POINTER
            for index, value in enumerate(launch.values)
        ]
        known, regions, raw = self._last
        # What has no key equals nothing, not even itself.
        if keys == known:
            launch.take_addresses(raw)
            return regions
        regions = [
            find(index) if index in pointers else NOWHERE for index in range(len(launch.values))
        ]
        if all(region.members is None for region in regions):  # they may be large
            self._last = keys, regions, launch.raw_parameters
        return regions


_NO_POINTER = ()


class _Unlike:
    """Differs from everything."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def _layout(argument: Any, value: Any) -> object:
    """What decides the region of a pointer argument."""
    if argument is not value:
        return _Unlike()
    try:
        storage = value.untyped_storage()
        place = storage.data_ptr(), storage.nbytes(), value.storage_offset(), value.dtype
        if value.is_contiguous():
            return *place, value.numel()
        return *place, value.shape, value.stride()
    except (AttributeError, RuntimeError, TypeError):
        return _Unlike()
