"""Detects graph inputs that the script has freed, for torch's `check_input_liveness`.

A graph of a mapped device keeps the memory of its inputs alive, whereas a CUDA graph would read
memory that has been reused. An input counts as freed if only graphs refer to its storage.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


class Inputs:
    """The storages that a graph uses but did not create."""

    def __init__(self) -> None:
        self._made: set[int] = set()
        #: For each storage: the number of references by the graph, and a description.
        self._holds: dict[int, tuple[int, str]] = {}

    def made(self, tensor: Any) -> None:
        """Record that a tensor's memory belongs to the graph."""
        self._made.add(tensor.untyped_storage()._cdata)

    def hold(self, tensor: Any) -> None:
        """Record one more reference of the graph to a tensor."""
        storage = tensor.untyped_storage()._cdata
        if storage not in self._made:
            count, text = self._holds.get(storage, (0, ""))
            kind = str(tensor.dtype).removeprefix("torch.")
            shape = ", ".join(map(str, tensor.shape))
            self._holds[storage] = count + 1, text or f"{kind}[{shape}]"

    def check(self) -> None:
        """Check that all inputs are alive.

        Raises:
            RuntimeError: The script has freed an input.
        """
        dead = [text for storage, (count, text) in self._holds.items() if _uses(storage) <= count]
        if dead:
            raise RuntimeError(
                f"CUDA graph replay detected {len(dead)} dead tensor(s): {', '.join(dead)}"
            )


def _uses(storage: int) -> int:
    """Return the number of tensors that use a storage."""
    return torch._C._storage_Use_Count(storage) - _by_python()


@cache
def _by_python() -> int:
    """Return the number of references to a storage that its Python object holds."""
    tensor = torch.empty(1, device="cpu")
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) - 1
