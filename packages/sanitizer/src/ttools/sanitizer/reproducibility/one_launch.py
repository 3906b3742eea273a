"""Follows one launch to find values that depend on the order of programs or on unwritten memory.

The order of evaluation inside a program does not matter for this purpose. Therefore, the kernel is
not compiled for a GPU, and all sums have a fixed order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.compilation.reductions.kernel_orders import KernelOrders, ProductOrder
from ttools.core.compilation.reductions.order import ReductionOrder
from ttools.core.location import SourceLocation
from ttools.interpreter.eager.debugging.frames import location
from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.reproducibility.follower import HashFollower, Line, is_float
from ttools.sanitizer.reproducibility.hashes import (
    ORDERED,
    UNSURE,
    Hashed,
    Hashes,
    combined,
    hashes_of,
    tag,
)

#: Extents of the axes of tiles are powers of two; in matrix products, they are at least this
#: number.
_STEP = 16


class FixedOrders(KernelOrders):
    """Fixed orders of sums and products, for comparing executions of the same code."""

    def __init__(self) -> None:
        """Create the orders without a compiled kernel."""

    def reduction(
        self, place: SourceLocation | None, shape: tuple[int, ...], axis: int
    ) -> ReductionOrder:
        """Return a balanced tree."""
        return _balanced(shape[axis])

    def has_addition(self, place: SourceLocation | None, shape: tuple[int, ...]) -> bool:
        """Return False, because no sum is part of a matrix product."""
        return False

    def product(self, place: SourceLocation | None, shape: tuple[int, ...]) -> ProductOrder:
        """Return an order that divides each product into equal parts."""
        return ProductOrder("fixed", _STEP, from_zero=True, skips_zero=False)


@lru_cache(maxsize=64)
def _balanced(extent: int) -> ReductionOrder:
    nodes = list(range(extent))
    operands: list[tuple[int, int]] = []
    while len(nodes) > 1:
        pairs = list(zip(nodes[::2], nodes[1::2], strict=False))
        first = extent + len(operands)
        operands += pairs
        odd = [nodes[-1]] if len(nodes) % 2 else []
        nodes = [*range(first, first + len(pairs)), *odd]
    return ReductionOrder(extent, tuple(operands), extent, extent)


@dataclass(frozen=True)
class OrderedSum:
    """Elements whose values depend on the order of atomic additions.

    Attributes:
        place: Location of the last atomic addition.
        start: Start address of the storage.
        elements: Indices of the elements in the storage.
    """

    place: SourceLocation
    start: int
    elements: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class DependenceFollower(HashFollower):
    """Follows a launch and records where its values depend on orders and unwritten memory.

    Attributes:
        unwritten: For each storage, given by its start and end address, marks of the bytes that
            were never written before the launch.
        salt: Text that determines the hashes of unwritten elements. A value depends on unwritten
            elements if two different texts give it different hashes.
        loads: Loads of unwritten elements, by line.
        reductions: The reductions in order of execution, each with a number that represents its
            results.
        ordered: Elements that depend on the order of atomic additions, by line and storage.
        unsure: Places, by line, at which a program has read a value that may depend on the order of
            programs.
    """

    unwritten: Mapping[tuple[int, int], NDArray[np.bool_]]
    salt: str = ""
    loads: dict[Line, SourceLocation] = field(default_factory=dict)
    reductions: list[tuple[SourceLocation, int]] = field(default_factory=list)
    ordered: dict[tuple[Line, int], OrderedSum] = field(default_factory=dict)
    unsure: dict[Line, SourceLocation] = field(default_factory=dict)

    def adjusted(
        self, operation: str, result: Handle, values: Hashed, text: str, axis: int | None
    ) -> Hashed:
        """Record the hashes of reductions and products, and return them unchanged."""
        if axis is not None or operation == "dot":
            place = location()
            if place is not None:
                with np.errstate(over="ignore"):
                    total = int(values.sum(dtype=np.uint64))
                self.reductions.append((place, total))
        return values

    def load(self, pointer: Handle, mask: Handle | None, other: Any, result: Handle) -> None:
        """Set the hashes of loaded elements, including elements that were never written."""
        super().load(pointer, mask, other, result)
        place = location()
        if place is None or not is_float(result):
            return
        line = place.file, place.line
        if isinstance(result.shadow, Hashes) and (result.shadow.values & UNSURE).any():
            self.unsure.setdefault(line, place)
        unwritten = self._unwritten(pointer, mask, result)
        if mask is not None and not isinstance(other, Handle):
            unwritten |= ~np.broadcast_to(mask.data, result.data.shape).astype(np.bool_)
        if unwritten.any():
            self.loads.setdefault(line, place)
            index = np.arange(unwritten.size, dtype=np.uint64).reshape(unwritten.shape)
            leaves = combined(tag(f"unwritten {self.salt}"), index << np.uint64(3))
            result.shadow = Hashes(np.where(unwritten, leaves, hashes_of(result)))

    def _unwritten(self, pointer: Handle, mask: Handle | None, result: Handle) -> NDArray[np.bool_]:
        """Return which loaded elements neither the host nor this launch has written."""
        shape, size = result.data.shape, result.element.size
        marks = np.zeros(shape, np.bool_)
        if not self.unwritten:
            return marks
        active = (
            np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask.data, shape)
        ).astype(np.bool_)
        addresses = np.broadcast_to(pointer.data, shape).astype(np.int64)
        for (start, end), missing in self.unwritten.items():
            inside = active & (addresses >= start) & (addresses + size <= end)
            if not inside.any():
                continue
            first = addresses[inside] - start
            own = np.logical_or.reduce([missing[first + n] for n in range(size)])
            stored = self.memory.find(addresses[inside], size)
            if stored is not None:
                own &= stored.launch[stored.index(addresses[inside])] == 0
            marks[inside] = own
        return marks

    def undecided(self, reason: str, marks: np.uint64) -> None:
        """Mark what the current program stores; record lines that depend on the program order."""
        super().undecided(reason, marks)
        place = location()
        if marks & UNSURE and place is not None:
            self.unsure.setdefault((place.file, place.line), place)

    def finish(self) -> None:
        """Collect the elements whose values depend on the order of atomics."""
        super().finish()
        for stored in self.memory.storages():
            for element in np.flatnonzero((stored.values & ORDERED) != 0).tolist():
                one = self._added.get((stored.start, element))
                if one is None or one.place is None:
                    continue  # the value comes from another element
                key = (one.place.file, one.place.line), stored.start
                own = self.ordered.setdefault(key, OrderedSum(one.place, stored.start))
                own.elements.append(element)
