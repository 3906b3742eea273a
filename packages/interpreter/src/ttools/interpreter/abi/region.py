"""Regions: the memory that a kernel may access through a pointer argument.

A region has two levels, the storage of a tensor and the elements of the view that was passed. A
view may have gaps, for example between the rows of a slice. The set of elements that belong to a
view is stored in the form that native code tests (`native_probe.c`): as nested dimensions if the
strides allow it, otherwise as a bitmap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ttools.core.spec import storage_extent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Maximum number of elements in a bitmap. For a larger view whose strides do not nest, only the
#: addresses of its first and last element are checked.
_LARGEST_BITMAP = 1 << 28


class Region(NamedTuple):
    """The memory that a kernel may access through a pointer parameter.

    Attributes:
        storage: The address range of the storage, from its first byte to one past its last.
        view: The address range that spans the elements of the view. It may have gaps.
        dims: Describes the gaps if dimensions nest, that is, if the stride of each dimension is at
            least the span of the dimensions with smaller strides: the stride in bytes and the
            extent of each dimension, in descending order of stride. None if the view has no gaps;
            empty if `members` describes them.
        members: Describes the gaps if dimensions do not nest: for each element of the span, 1 if it
            belongs to the view.
        item: The size of an element in bytes.
        checks_view: If True, an access outside the view is reported even if it is inside the
            storage.
    """

    storage: tuple[int, int]
    view: tuple[int, int]
    dims: tuple[tuple[int, int], ...] | None = None
    members: NDArray[np.uint8] | None = None
    item: int = 1
    checks_view: bool = True

    @property
    def has_gaps(self) -> bool:
        """True if some elements between the ends of the view do not belong to it."""
        return self.dims is not None or self.members is not None

    def holds(self, address: int) -> bool:
        """Return whether the aligned element at `address` belongs to the view."""
        offset = address - self.view[0]
        if not (offset >= 0 and address + self.item <= self.view[1]):
            return False
        if self.members is not None:
            return bool(self.members[offset // self.item])
        for stride, extent in self.dims or ():
            offset -= min(offset // stride, extent - 1) * stride
        return offset < self.item or self.dims is None

    def holds_each(self, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the addresses for which `holds` is true."""
        import numpy as np

        offset = addresses - self.view[0]
        inside: NDArray[np.bool_] = (offset >= 0) & (addresses + self.item <= self.view[1])
        if self.members is not None:
            inside &= self.members[np.where(inside, offset // self.item, 0)] != 0
            return inside
        for stride, extent in self.dims or ():
            offset = offset - np.minimum(offset // stride, extent - 1) * stride
        return inside if self.dims is None else inside & (offset < self.item)


#: The region of a parameter that is not a pointer, and of a null pointer.
NOWHERE = Region((0, 0), (0, 0))
#: The region of a pointer to memory of unknown extent.
ANYWHERE = Region((1, 1 << 63), (1, 1 << 63), checks_view=False)


def region_of(argument: Any, value: Any, *, checks_view: bool = True) -> Region | None:
    """Return the region of a pointer argument, or None if its extent is unknown.

    Args:
        argument: The object that the user passed, which has a shape and strides.
        value: The object that the launch accesses: `argument`, or its copy on the host.
        checks_view: If True, accesses outside the view are reported.
    """
    extent = storage_extent(value)
    if extent is None:
        return None
    if argument is value and hasattr(value, "is_contiguous") and value.is_contiguous():
        item, first = value.element_size(), extent[0]
        first += value.storage_offset() * item
        end = first + value.numel() * item
        if end <= extent[1]:
            return Region(extent, (first, end), item=item, checks_view=checks_view)
        return Region(extent, extent, item=item, checks_view=False)  # the storage was resized
    tensor = argument if hasattr(argument, "stride") else getattr(argument, "base", argument)
    try:
        shape, item = tuple(tensor.shape), int(tensor.element_size())
        strides = tuple(int(tensor.stride(n)) * item for n in range(len(shape)))
        first = int(value.data_ptr())
    except (AttributeError, TypeError):
        return Region(extent, extent, checks_view=False)
    return view_region(extent, first, shape, strides, item, checks_view=checks_view)


def view_region(
    storage: tuple[int, int],
    first: int,
    shape: Sequence[int],
    strides: Sequence[int],
    item: int,
    *,
    checks_view: bool = True,
) -> Region:
    """Return the region of a view.

    Args:
        storage: The address range of the storage of the view.
        first: The address of element (0, 0, …).
        shape: The extent of each dimension.
        strides: The stride of each dimension in bytes; it may be negative.
        item: The size of an element in bytes.
        checks_view: If True, accesses outside the view are reported.
    """
    whole = (first, first + item * prod(shape))
    fits = first == storage[0] and whole[1] <= storage[1]
    if fits and _is_contiguous(shape, strides, item):
        return Region(storage, whole, item=item, checks_view=checks_view)
    if 0 in shape:
        return Region(storage, (first, first), item=item, checks_view=checks_view)
    moving = [(stride, extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1]
    low = first + sum(stride * (extent - 1) for stride, extent in moving if stride < 0)
    dims = sorted(((abs(s), n) for s, n in moving if s), reverse=True)
    high = low + sum(stride * (extent - 1) for stride, extent in dims) + item
    ends = (low, high)
    if low < storage[0] or high > storage[1]:
        return Region(storage, storage, item=item, checks_view=False)  # the storage was resized
    span = item
    nested = True
    dense = True
    for stride, extent in reversed(dims):
        nested &= stride >= span
        dense &= stride == span
        span = stride * (extent - 1) + span
    if dense:
        return Region(storage, ends, item=item, checks_view=checks_view)
    if nested:
        return Region(storage, ends, tuple(dims), item=item, checks_view=checks_view)
    if any(stride % item for stride, _ in dims) or (high - low) // item > _LARGEST_BITMAP:
        return Region(storage, ends, item=item, checks_view=checks_view)
    return Region(storage, ends, (), _bitmap(dims, item, high - low), item, checks_view)


def _is_contiguous(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Return whether a view is row-major without gaps, which most views are."""
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride != item:
            return False
        item *= extent
    return True


def _bitmap(dims: Sequence[tuple[int, int]], item: int, span: int) -> NDArray[np.uint8]:
    """Return one byte per element of the span, 1 if it belongs to a view that does not nest.

    For example, shape (3, 2) with strides (2, 3) in elements has the offsets 0, 2, 3, 4, 5 and 7,
    so the result is `1 0 1 1 1 1 0 1`.
    """
    import numpy as np

    members = np.zeros(span // item, np.uint8)
    members[0] = 1
    length = 1  # the number of elements that the dimensions so far span
    for stride, extent in reversed(dims):
        step = stride // item
        pattern = members[:length].copy()
        for n in range(1, extent):
            members[n * step : n * step + length] |= pattern
        length += step * (extent - 1)
    return members
