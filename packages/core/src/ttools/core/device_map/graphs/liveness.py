"""Which inputs of a graph the script has let go of: `check_input_liveness` of torch's graphs.

A graph here keeps its inputs' memory, where CUDA's reads what has come there since. An input is
gone if nobody else holds its storage.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


class Inputs:
    """The storages that a graph reads or writes and did not make."""

    def __init__(self) -> None:
        self._made: set[int] = set()
        #: By address: how often the graph holds the storage, and what to call it.
        self._held: dict[int, tuple[int, str]] = {}

    def made(self, tensor: Any) -> None:
        """A tensor of the graph's own memory."""
        self._made.add(tensor.untyped_storage()._cdata)

    def held(self, tensor: Any) -> None:
        """A tensor that the graph keeps once more."""
        storage = tensor.untyped_storage()._cdata
        if storage not in self._made:
            count, text = self._held.get(storage, (0, ""))
            kind = str(tensor.dtype).removeprefix("torch.")
            shape = ", ".join(map(str, tensor.shape))
            self._held[storage] = count + 1, text or f"{kind}[{shape}]"

    def check(self) -> None:
        """Checks that all are alive.

        Raises:
            RuntimeError: some are not.
        """
        dead = [text for storage, (held, text) in self._held.items() if _uses(storage) <= held]
        if dead:
            raise RuntimeError(
                f"CUDA graph replay detected {len(dead)} dead tensor(s): {', '.join(dead)}"
            )


def _uses(storage: int) -> int:
    """How many tensors have a storage."""
    return torch._C._storage_Use_Count(storage) - _by_python()


@cache
def _by_python() -> int:
    """How often a storage's own object in Python, once it was asked for, counts."""
    tensor = torch.empty(1, device="cpu")
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) - 1
