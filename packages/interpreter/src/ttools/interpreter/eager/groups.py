"""Groups of programs that run together, so that they share the time that Python takes.

The kernel's source runs once for all programs of a group. If a value differs between them, its data
has an additional first axis, which numbers the programs (`Handle.is_grouped`). NumPy's broadcasting
then computes elementwise operations for all programs; operations on shapes have their own functions
here; and a native operation runs as one native program per program of the group, each on its own
elements.

If a branch condition or a loop bound differs between the programs, the group is divided by its
value, and the parts start again (`DivergedError`). Programs that access an element of memory that
another program of the group writes cannot run together (`GroupError`), because their order would
matter: `OwnedElements` detects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ttools.interpreter.eager.elements import Handle, split_type

Numbers = NDArray[np.int64]
Program = TypeVar("Program")
#: Maximum number of programs in a group.
_MOST_PROGRAMS = 1024
#: Maximum number of elements of a value of a whole group; more would not fit into a CPU's cache.
_ELEMENTS = 1 << 18


class GroupError(Exception):
    """The programs of a launch cannot run in groups; the message says why."""


class DivergedError(GroupError):
    """The programs of a group have to be divided.

    Args:
        values: For each program, the value by which they are divided.
    """

    def __init__(self, values: Any) -> None:
        super().__init__("the programs of a group take different branches")
        self._values = np.asarray(values)

    def parts(self, programs: Sequence[Program]) -> list[list[Program]]:
        """Return the programs grouped by equal value; their first programs order the parts."""
        parts: dict[Any, list[Program]] = {}
        for program, value in zip(programs, self._values.tolist(), strict=True):
            parts.setdefault(value, []).append(program)
        return list(parts.values())


def group_size(largest: int) -> int:
    """Return the number of programs of a group.

    Args:
        largest: Number of elements of the largest value of a program.
    """
    return min(_MOST_PROGRAMS, max(1, _ELEMENTS // max(1, largest)))


def same_for_all(values: Any) -> Any:
    """Return the value that all programs share.

    Raises:
        DivergedError: Programs have different values.
    """
    values = np.asarray(values).reshape(-1)
    if (values == values[0]).all():
        return values[0].item()
    raise DivergedError(values)


def any_of_each(flags: Any) -> Any:
    """Return for each program whether any of its flags is set."""
    return flags.reshape(len(flags), -1).any(axis=1)


def aligned(data: Any, handle: Handle, rank: int) -> Any:
    """Return data of a value such that NumPy broadcasts it with values of a higher rank.

    Args:
        data: The data of `handle`, or other data of the same shape.
        handle: The value of one or all programs of a group.
        rank: Number of axes of the other values, not counting the axis of the programs.
    """
    missing = rank - len(handle.shape)
    if not handle.is_grouped or missing <= 0:
        return data
    return data.reshape(len(data), *[1] * missing, *data.shape[1:])


def spread(data: Any, handle: Handle, count: int) -> Any:
    """Return data of a value with the axis of the programs, which is added if it is missing.

    Args:
        data: The data of `handle`, or other data of the same shape.
        handle: The value of one or all programs of a group.
        count: Number of programs in the group.
    """
    return data if handle.is_grouped else np.broadcast_to(data, (count, *data.shape))


def by_program(numbers: Any, handle: Handle) -> Any:
    """Reshape one number per program so that NumPy broadcasts them with the data of a value."""
    shape = (-1, *[1] * len(handle.shape)) if handle.is_grouped else ()
    return np.asarray(numbers).reshape(shape)


def any_grouped(arguments: Iterable[Any]) -> bool:
    """Return whether any argument is a value that differs between programs."""
    return any(isinstance(a, Handle) and a.is_grouped for a in arguments)


def compute(name: str, function: Callable[..., Any], arguments: Sequence[Any], count: int) -> Any:
    """Compute an operation of `numpy_ops` for all programs of a group.

    Args:
        name: Name of the builder's method.
        function: Computes the operation for one program.
        arguments: Arguments of the method; at least one value differs between programs.
        count: Number of programs in the group.
    """
    own = _ON_SHAPES.get(name)
    if own is not None:
        result = own(count, *arguments)
    else:
        rank = max(len(a.shape) for a in arguments if isinstance(a, Handle))
        result = function(*(_aligned_handle(a, rank) for a in arguments))
    if result is not NotImplemented:
        mark_grouped(result)
    return result


def _aligned_handle(argument: Any, rank: int) -> Any:
    if not isinstance(argument, Handle) or not argument.is_grouped:
        return argument
    return argument.with_data(aligned(argument.data, argument, rank))


def mark_grouped(result: Any) -> None:
    """Mark results whose data has the axis of the programs."""
    for handle in [result] if isinstance(result, Handle) else result:
        handle.is_grouped = True


# ---- operations on shapes


def _splat(count: int, type: Any, value: Handle) -> Handle:
    shape = split_type(str(type))[1] or ()
    data = value.data.reshape(count, *[1] * len(shape))
    return value.with_data(np.broadcast_to(data, (count, *shape)))


def _broadcast(count: int, value: Handle, shape: Sequence[int]) -> Handle:
    return value.with_data(np.broadcast_to(value.data, (count, *map(int, shape))))


def _reshape(count: int, value: Handle, shape: Sequence[int], *_: Any) -> Handle:
    return value.with_data(value.data.reshape(count, *map(int, shape)))


def _transpose(count: int, value: Handle, order: Sequence[int]) -> Handle:
    return value.with_data(np.transpose(value.data, (0, *(n + 1 for n in order))))


def _concatenate(count: int, a: Handle, b: Handle) -> Handle:
    return a.with_data(np.concatenate([spread(h.data, h, count) for h in (a, b)], axis=1))


def _join(count: int, a: Handle, b: Handle) -> Handle:
    return a.with_data(np.stack([spread(h.data, h, count) for h in (a, b)], axis=-1))


#: For each builder method that takes axes or shapes, the function that computes it for a group.
_ON_SHAPES: dict[str, Callable[..., Any]] = {
    "create_splat": _splat,
    "create_unsplat": lambda count, value: value.with_data(value.data.reshape(count)),
    "create_broadcast": _broadcast,
    "create_expand_dims": lambda count, value, axis: value.with_data(
        np.expand_dims(value.data, axis % (len(value.shape) + 1) + 1)
    ),
    "create_reshape": _reshape,
    "create_trans": _transpose,
    "create_cat": _concatenate,
    "create_join": _join,
}


# ---- memory


def selected(data: Any, active: Any) -> Any:
    """Return the elements in active lanes, as an array with one axis.

    Args:
        data: An array with an element for each lane.
        active: The active lanes; None if all are active.
    """
    return data.reshape(-1) if active is None or active.all() else data[active]


def positions(addresses: Any, start: int, size: int) -> Any:
    """Return the indices of elements, as a slice if they are consecutive.

    Args:
        addresses: Addresses of the elements, with one axis.
        start: Address of element 0.
        size: Size of an element in bytes.
    """
    first, last = int(addresses[0]), int(addresses[-1])
    if last - first == size * (len(addresses) - 1) and (np.diff(addresses) == size).all():
        return slice((first - start) // size, (last - start) // size + 1)
    return (addresses - start) // size


class OwnedElements:
    """The programs that access the elements of the storages that a launch may write.

    Args:
        extents: Start and end of each of these storages.

    """

    def __init__(self, extents: Iterable[tuple[int, int]]) -> None:
        self._extents = sorted(set(extents))
        # For each storage, by element: the number of the program that last accessed it plus one, or
        # 0 if no program has. Pages of a zeroed array are allocated only when they are used.
        self._owners: dict[tuple[int, int], tuple[int, Numbers]] = {}
        self._has_loaded = self._has_stored = False

    def begin(self) -> None:
        """Begin the next group."""
        self._has_loaded = self._has_stored = False

    @property
    def may_restart(self) -> bool:
        """True if the current group may start again, because it has not changed what it loads."""
        return not (self._has_loaded and self._has_stored)

    def access(
        self, pointer: Handle, mask: Handle | None, programs: Any, *, is_store: bool
    ) -> None:
        """Record an access.

        Args:
            pointer: Addresses of the elements; grouped if the mask is.
            mask: Active lanes; None if all are active.
            programs: Numbers of the programs of the group.
            is_store: True for a store, False for a load.

        Raises:
            GroupError: Another program has accessed one of the elements.
        """
        active = None
        if mask is not None:
            own = aligned(mask.data, mask, len(pointer.shape))
            active = np.broadcast_to(own, pointer.data.shape)
        addresses = selected(pointer.data, active)
        if not self._extents or not addresses.size:
            return
        low, high = int(addresses.min()), int(addresses.max())
        size = pointer.element.pointee.size if pointer.element.pointee else 1
        touched = [e for e in self._extents if low < e[1] and e[0] < high + size]
        if not touched:
            return
        self._has_stored |= is_store
        self._has_loaded |= not is_store
        (start, end), *others = touched
        if others or low < start or high + size > end:
            raise GroupError("an access may reach several storages")
        width, owners = self._owners.setdefault(
            (start, end), (size, np.zeros((end - start) // size, np.int64))
        )
        if width != size or ((addresses - start) % size).any():
            raise GroupError("elements of several sizes are accessed in a storage")
        if not pointer.is_grouped and len(programs) > 1:
            raise GroupError("several programs access an element of memory that they write")
        numbers = np.broadcast_to(by_program(programs + 1, pointer), pointer.data.shape)
        numbers = selected(numbers, active)
        index = positions(addresses, start, size)
        before = owners[index]
        is_other = ((before != 0) & (before != numbers)).any()
        owners[index] = numbers
        if is_other or (not isinstance(index, slice) and (owners[index] != numbers).any()):
            raise GroupError("several programs access an element of memory that they write")
