"""Two arguments that a kernel writes through and that have elements in common.

That is no defect by itself: a kernel may be meant for it. Whether their programs disturb each other
is `racecheck`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.abi.region import Region
from ttools.interpreter.run.kernel_launch import KernelLaunch

#: Views with gaps of more elements than this are not compared.
_MOST_ELEMENTS = 1 << 16


def shared_arguments(launch: KernelLaunch, regions: Sequence[Region]) -> Iterator[tuple[int, int]]:
    """Pairs of parameters that are written through, and whose views share a byte."""
    for one, other in combinations(sorted(launch.kernel.variants.effects.written), 2):
        (low, high), (begin, end) = regions[one].view, regions[other].view
        if regions[one].storage[1] - regions[one].storage[0] >= 1 << 62:
            continue  # nobody knows where it ends
        if max(low, begin) < min(high, end) and _meet(launch, regions, one, other):
            yield one, other


def _meet(launch: KernelLaunch, regions: Sequence[Region], one: int, other: int) -> bool:
    if not (regions[one].has_gaps or regions[other].has_gaps):
        return True
    bytes_of = [_bytes(launch.arguments[index]) for index in (one, other)]
    first, second = bytes_of
    return first is not None and second is not None and bool(np.intersect1d(first, second).size)


def _bytes(tensor: Any) -> NDArray[np.int64] | None:
    """The addresses of all bytes of a tensor's elements; None if they are too many or unknown."""
    try:
        shape = tuple(int(n) for n in tensor.shape)
        strides = [int(tensor.stride(n)) for n in range(len(shape))]
        item, start = int(tensor.element_size()), int(tensor.data_ptr())
    except (AttributeError, TypeError):
        return None
    if int(np.prod(shape)) > _MOST_ELEMENTS:
        return None
    found = np.array([start], np.int64)
    for extent, stride in zip(shape, strides, strict=True):
        found = (found[:, None] + np.arange(extent, dtype=np.int64) * stride * item).ravel()
    return (found[:, None] + np.arange(item, dtype=np.int64)).ravel()
