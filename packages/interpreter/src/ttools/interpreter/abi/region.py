"""The memory that a pointer argument may access: its storage, and the elements of the view passed.

Owns the judgement of which bytes belong to a view, in the form that native code tests
(`monitor`). Must not know what leaving it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ttools.core.spec import storage_extent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Views with more elements than this between their ends are judged by their ends alone, if their
#: strides do not nest.
_LARGEST_BITMAP = 1 << 28


class Region(NamedTuple):
    """The memory that a pointer parameter may access.

    Attributes:
        storage: first address of the storage and the one past its last.
        view: the same of the elements passed, which may have gaps.
        dims: where they have: stride in bytes and extent of each dimension, from the largest
            stride, each stride at least the span of all that follow; None if there is no gap.
        members: where they do not nest so (`dims` is empty then): for each element of the span,
            whether it is one of the view's.
        item: bytes of an element.
        judges_view: whether leaving the view is an event.
    """

    storage: tuple[int, int]
    view: tuple[int, int]
    dims: tuple[tuple[int, int], ...] | None = None
    members: NDArray[np.uint8] | None = None
    item: int = 1
    judges_view: bool = True

    @property
    def has_gaps(self) -> bool:
        """Whether not all between the view's ends belongs to it."""
        return self.dims is not None or self.members is not None

    def holds(self, address: int) -> bool:
        """Whether an aligned element at `address` is one of the view's, as native code judges."""
        offset = address - self.view[0]
        if not (offset >= 0 and address + self.item <= self.view[1]):
            return False
        if self.members is not None:
            return bool(self.members[offset // self.item])
        for stride, extent in self.dims or ():
            offset -= min(offset // stride, extent - 1) * stride
        return offset < self.item or self.dims is None


#: A parameter that is no pointer, or points to nothing.
NOWHERE = Region((0, 0), (0, 0))
#: A pointer to memory of which nothing is known.
ANYWHERE = Region((1, 1 << 63), (1, 1 << 63), judges_view=False)


def region_of(argument: Any, value: Any, *, judges_view: bool = True) -> Region | None:
    """The region of a pointer argument.

    Args:
        argument: what the user passed: it has shape and strides.
        value: what the launch works on: the same, or a host copy of it.
        judges_view: see `Region`.

    Returns:
        None if nobody knows what memory it points to.
    """
    extent = storage_extent(value)
    if extent is None:
        return None
    if argument is value and hasattr(value, "is_contiguous") and value.is_contiguous():
        item, first = value.element_size(), extent[0]
        first += value.storage_offset() * item
        end = first + value.numel() * item
        if end <= extent[1]:
            return Region(extent, (first, end), item=item, judges_view=judges_view)
        return Region(extent, extent, item=item, judges_view=False)  # the storage was resized
    tensor = argument if hasattr(argument, "stride") else getattr(argument, "base", argument)
    try:
        shape, item = tuple(tensor.shape), int(tensor.element_size())
        strides = tuple(int(tensor.stride(n)) * item for n in range(len(shape)))
        first = int(value.data_ptr())
    except (AttributeError, TypeError):
        return Region(extent, extent, judges_view=False)
    return view_region(extent, first, shape, strides, item, judges_view=judges_view)


def view_region(
    storage: tuple[int, int],
    first: int,
    shape: Sequence[int],
    strides: Sequence[int],
    item: int,
    *,
    judges_view: bool = True,
) -> Region:
    """The region of a view by shape and strides in bytes.

    Args:
        storage: begin and end addresses of its storage.
        first: address of element (0, 0, …).
        item: bytes of an element.
    """
    whole = (first, first + item * prod(shape))
    fits = first == storage[0] and whole[1] <= storage[1]
    if fits and _is_contiguous(shape, strides, item):
        return Region(storage, whole, item=item, judges_view=judges_view)
    if 0 in shape:
        return Region(storage, (first, first), item=item, judges_view=judges_view)
    moving = [(stride, extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1]
    low = first + sum(stride * (extent - 1) for stride, extent in moving if stride < 0)
    dims = sorted(((abs(s), n) for s, n in moving if s), reverse=True)
    high = low + sum(stride * (extent - 1) for stride, extent in dims) + item
    ends = (low, high)
    if low < storage[0] or high > storage[1]:
        return Region(storage, storage, item=item, judges_view=False)  # the storage was resized
    span = item
    nested = True
    dense = True
    for stride, extent in reversed(dims):
        nested &= stride >= span
        dense &= stride == span
        span = stride * (extent - 1) + span
    if dense:
        return Region(storage, ends, item=item, judges_view=judges_view)
    if nested:
        return Region(storage, ends, tuple(dims), item=item, judges_view=judges_view)
    if any(stride % item for stride, _ in dims) or (high - low) // item > _LARGEST_BITMAP:
        return Region(storage, ends, item=item, judges_view=judges_view)
    return Region(storage, ends, (), _bitmap(dims, item, high - low), item, judges_view)


def _is_contiguous(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """The usual case, seen quickly: row-major without gaps."""
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride != item:
            return False
        item *= extent
    return True


def _bitmap(dims: Sequence[tuple[int, int]], item: int, span: int) -> NDArray[np.uint8]:
    """One byte per element of the span, set for those of a view whose rows overlap."""
    import numpy as np

    members = np.zeros(span // item, np.uint8)
    members[0] = 1
    reached = 1  # all members lie below
    for stride, extent in reversed(dims):
        step = stride // item
        pattern = members[:reached].copy()
        for n in range(1, extent):
            members[n * step : n * step + reached] |= pattern
        reached += step * (extent - 1)
    return members
