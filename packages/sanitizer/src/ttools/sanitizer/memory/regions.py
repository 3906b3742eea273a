"""The memory that a kernel's parameters may access, cached by the layout of the tensors passed.

Kernels are usually launched again with the same tensors, or with outputs at a few alternating
addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from ttools.interpreter.abi.module import Facts
from ttools.interpreter.abi.region import NOWHERE, Region
from ttools.interpreter.run.kernel_launch import KernelLaunch

#: Maximum number of cached layouts. Small tensors that a loop allocates may have about a hundred
#: addresses.
_MOST_KNOWN = 256
_NO_POINTER = ()

T = TypeVar("T")


class Regions(list[Region]):
    """The regions of a launch's parameters, and cached results that hold for these regions.

    Attributes:
        plans: Plans of launches with these regions, see `CheckedLaunch.plan`.
    """

    __slots__ = ("_concluded", "plans")

    def __init__(self, regions: Iterable[Region]) -> None:
        super().__init__(regions)
        self._concluded: dict[Hashable, Any] = {}
        self.plans: dict[Hashable, Any] = {}

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached result of `make` for a key.

        The result may depend only on the addresses of the tensors.
        """
        concluded = self._concluded
        if key not in concluded:
            concluded[key] = make()
        return concluded[key]  # type: ignore[no-any-return]


class RegionCache:
    """The regions of the parameters in recent launches of one kernel."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Regions, Sequence[int], Facts]] = {}

    def regions(self, launch: KernelLaunch, find: Callable[[int], Region]) -> Regions:
        """Return the regions of a launch; equal layouts give the same object.

        Args:
            launch: A launch of the kernel, under the same options as all its other launches.
            find: Returns the region of a pointer parameter.
        """
        pointers, arguments = launch.kernel.plan.pointers, launch.arguments
        key = tuple(
            [
                _layout(arguments[index], value) if index in pointers else _NO_POINTER
                for index, value in enumerate(launch.values)
            ]
        )
        cached = self._known.get(key)
        if cached is not None:
            launch.take_known(*cached[1:])
            return cached[0]
        regions = Regions(
            find(index) if index in pointers else NOWHERE for index in range(len(launch.values))
        )
        # Regions with members may use much memory.
        if None not in key and all(region.members is None for region in regions):
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = regions, launch.raw_parameters, launch.facts
        return regions


def _layout(argument: Any, value: Any) -> object:
    """Return the properties that determine a pointer argument's region; None if unknown."""
    if argument is not value:
        return None
    try:
        storage = value.untyped_storage()
        layout = storage.data_ptr(), storage.nbytes(), value.storage_offset(), value.dtype
        if value.is_contiguous():
            return *layout, value.numel()
        return *layout, value.shape, value.stride()
    except (AttributeError, RuntimeError, TypeError):
        return None
