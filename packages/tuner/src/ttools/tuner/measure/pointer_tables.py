"""Memory that a launch reaches through tables of addresses among its arguments.

A table is an integer tensor whose elements are addresses of other tensors, as in grouped matrix
products. A 64-bit integer counts as such an address if it lies in the storage of a tensor that is
alive in this process. For example, if the fourth element of an argument `table` is `x.data_ptr()`,
`pointees_of` returns the tensor `x` under the name `table[3]`.
"""

from __future__ import annotations

import bisect
import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Linux maps no memory below this address, so smaller integers are not looked up.
_LEAST_ADDRESS = 1 << 16
#: Integers in a table count as addresses if they are at least this large; if a tensor has a lower
#: address, its address is the limit instead. Tensors have lower addresses if Python is not
#: position-independent, as on Debian, because its heap then follows the program.
_USUAL_LEAST_ADDRESS = 1 << 32
_WORD = 8


@dataclass(frozen=True)
class TableWord:
    """An element of a table of addresses.

    Attributes:
        table: The tensor that contains the address.
        at: Offset of the element in the table's storage, in bytes.
        tensor: A live tensor whose storage contains the memory at the address.
        offset: Offset of the address in that tensor's storage, in bytes.
    """

    table: Any
    at: int
    tensor: Any
    offset: int


@dataclass(frozen=True, kw_only=True)
class Pointees:
    """The tensors that a launch reaches through tables of addresses.

    Attributes:
        addresses: All addresses in tables, in table order.
        tensors: One tensor per storage, named after the first element that points to it, such as
            `table[3]`.
        stray: Names of arguments with an address that cannot be followed: an integer argument that
            is an address, or a table with some addresses that do not belong to any tensor.
    """

    addresses: list[TableWord] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    stray: list[str] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Return whether the tables account for all memory reached through them."""
        return bool(self.tensors) and not self.stray


def pointees_of(arguments: Mapping[str, Any]) -> Pointees:
    """Follow the tables of addresses among arguments, and the tables reached through these."""
    pointees = Pointees()
    waiting = [(name, value) for name, value in arguments.items() if _may_hold_addresses(value)]
    numbers = [n for n, v in arguments.items() if type(v) is int and v >= _LEAST_ADDRESS]
    if not waiting and not numbers:
        return pointees
    alive = _LiveStorages()
    pointees.stray.extend(name for name in numbers if alive.at(arguments[name]) is not None)
    storages = {_start(value) for _, value in waiting}
    for name, table in waiting:  # the loop appends to the list
        for label, tensor in _follow(name, table, alive, pointees):
            if _start(tensor) not in storages:
                storages.add(_start(tensor))
                pointees.tensors[label] = tensor
                if _may_hold_addresses(tensor):
                    waiting.append((label, tensor))
    return pointees


def _may_hold_addresses(value: Any) -> bool:
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int64, torch.uint64):
        return False
    words = value.detach().view(torch.int64)
    return bool(words.numel()) and bool((words >= _LEAST_ADDRESS).any())


def _follow(
    name: str, table: Any, alive: _LiveStorages, pointees: Pointees
) -> Iterable[tuple[str, Any]]:
    import torch

    words = table.detach().view(torch.int64).cpu().numpy()
    flat = words.ravel()
    missing = False
    before = len(pointees.addresses)
    for index in np.flatnonzero(flat >= alive.lowest).tolist():
        # torch's `unravel_index` would import sympy, which takes two seconds.
        indices = [int(n) for n in np.unravel_index(index, words.shape)]
        word = sum(n * stride for n, stride in zip(indices, table.stride(), strict=True))
        at = (table.storage_offset() + word) * _WORD
        address = int(flat[index])
        tensor = alive.at(address)
        if tensor is None:
            missing = True
            continue
        pointees.addresses.append(TableWord(table, at, tensor, address - _start(tensor)))
        yield f"{name}[{', '.join(map(str, indices))}]", tensor
    if missing and len(pointees.addresses) > before:
        pointees.stray.append(name)


def _start(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


class _LiveStorages:
    """Finds the tensor at an address among all tensors alive in this process."""

    def __init__(self) -> None:
        largest: dict[int, tuple[int, int, Any]] = {}
        for tensor in _tensors_alive():
            try:
                storage = tensor.untyped_storage()
                start, size = int(storage.data_ptr()), int(storage.nbytes())
            except (RuntimeError, NotImplementedError):
                continue  # has no memory, like a fake or sparse tensor
            covered = tensor.numel() * tensor.element_size()
            if start < _LEAST_ADDRESS:
                continue  # a meta tensor, which has a size but no memory
            if size and (start not in largest or covered > largest[start][1]):
                largest[start] = (start + size, covered, tensor)
        self._starts = sorted(largest)
        self._largest = largest
        #: Smaller integers are sizes, strides and indices.
        self.lowest = min([_USUAL_LEAST_ADDRESS, *self._starts[:1]])

    def at(self, address: int) -> Any | None:
        """Return a tensor whose storage contains an address; None if there is none."""
        number = bisect.bisect_right(self._starts, address) - 1
        if number < 0:
            return None
        end, _, tensor = self._largest[self._starts[number]]
        return tensor if address < end else None


def _tensors_alive() -> Iterable[Any]:
    import torch

    # `type(value)` is used instead of `isinstance`, because reading `__class__` may run the code of
    # a lazy module.
    return [value for value in gc.get_objects() if issubclass(type(value), torch.Tensor)]
