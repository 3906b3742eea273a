"""Memory that a launch reaches through tables of addresses among its arguments.

Owns which words of which tensors are addresses, and whose memory they lead to: that of any tensor
alive in this process. Must not know why it is wanted.
"""

from __future__ import annotations

import bisect
import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: No memory of a tensor is below; smaller integers are sizes, strides, indices.
_LEAST_ADDRESS = 1 << 32
_WORD = 8


@dataclass(frozen=True)
class TableWord:
    """A word of a table.

    Attributes:
        at: offset of the word in the table's storage, in bytes.
        tensor: one alive that covers the memory it leads to.
        offset: of the address in that tensor's storage, in bytes.
    """

    table: Any
    at: int
    tensor: Any
    offset: int


@dataclass(frozen=True, kw_only=True)
class Pointees:
    """What the tables of a launch lead to.

    Attributes:
        addresses: in tables, in their order.
        tensors: that they lead to, each storage once, by the word that first does: `table[3]`.
        stray: arguments with an address that cannot be followed: an integer that is one, or a
            table in which some words lead to tensors and others nowhere.
    """

    addresses: list[TableWord] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    stray: list[str] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether all that is reached through the tables is known."""
        return bool(self.tensors) and not self.stray


def pointees_of(arguments: Mapping[str, Any]) -> Pointees:
    """Follows the tables of addresses among arguments, also tables that tables lead to."""
    found = Pointees()
    waiting = [(name, value) for name, value in arguments.items() if _may_hold_addresses(value)]
    numbers = [n for n, v in arguments.items() if type(v) is int and v >= _LEAST_ADDRESS]
    if not waiting and not numbers:
        return found
    alive = _Alive()
    found.stray.extend(name for name in numbers if alive.at(arguments[name]) is not None)
    storages = {_start(value) for _, value in waiting}
    for name, table in waiting:  # grows
        for label, tensor in _follow(name, table, alive, found):
            if _start(tensor) not in storages:
                storages.add(_start(tensor))
                found.tensors[label] = tensor
                if _may_hold_addresses(tensor):
                    waiting.append((label, tensor))
    return found


def _may_hold_addresses(value: Any) -> bool:
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int64, torch.uint64):
        return False
    words = value.detach().view(torch.int64)
    return bool(words.numel()) and bool((words >= _LEAST_ADDRESS).any())


def _follow(name: str, table: Any, alive: _Alive, found: Pointees) -> Iterable[tuple[str, Any]]:
    import torch

    words = table.detach().view(torch.int64).cpu().numpy()
    flat = words.ravel()
    missing = False
    before = len(found.addresses)
    for index in np.flatnonzero(flat >= _LEAST_ADDRESS).tolist():
        # NumPy's: torch's own would import sympy, which takes two seconds.
        indices = [int(n) for n in np.unravel_index(index, words.shape)]
        word = sum(n * stride for n, stride in zip(indices, table.stride(), strict=True))
        at = (table.storage_offset() + word) * _WORD
        address = int(flat[index])
        tensor = alive.at(address)
        if tensor is None:
            missing = True
            continue
        found.addresses.append(TableWord(table, at, tensor, address - _start(tensor)))
        yield f"{name}[{', '.join(map(str, indices))}]", tensor
    if missing and len(found.addresses) > before:
        found.stray.append(name)


def _start(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


class _Alive:
    """The storages of all tensors that live in this process, and the largest tensor of each."""

    def __init__(self) -> None:
        largest: dict[int, tuple[int, int, Any]] = {}
        for each in _tensors_alive():
            try:
                storage = each.untyped_storage()
                start, size = int(storage.data_ptr()), int(storage.nbytes())
            except (RuntimeError, NotImplementedError):
                continue  # one without memory, such as a fake or sparse one
            covered = each.numel() * each.element_size()
            if size and (start not in largest or covered > largest[start][1]):
                largest[start] = (start + size, covered, each)
        self._starts = sorted(largest)
        self._largest = largest

    def at(self, address: int) -> Any | None:
        """A tensor whose storage has an address; None if there is none."""
        number = bisect.bisect_right(self._starts, address) - 1
        if number < 0:
            return None
        end, _, tensor = self._largest[self._starts[number]]
        return tensor if address < end else None


def _tensors_alive() -> Iterable[Any]:
    import torch

    # Of the type: asking an object for its class may run code of a lazy module.
    return [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
