"""Host memory that stands for a GPU's where only its address and size matter, not what is in it.

Tensors are described when a launch is made and made anew when it is counted, so that nothing is
copied and nothing kept alive. Tensors that share memory do so again. What is made of descriptions
needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.spec import ArgumentSpec, memory_spec
from ttools.interpreter.records.replay import RecordedTensor

#: Storages begin at multiples of so many bytes, as torch's on the host do.
_ALIGNMENT = 64


@dataclass(frozen=True, kw_only=True)
class HostBytes:
    """What a part of a storage held.

    Attributes:
        begin: Where the part begins in the storage.
        content: The bytes.
    """

    begin: int
    content: NDArray[np.uint8]


def described(names: Mapping[str, str], values: Sequence[Any]) -> tuple[ArgumentSpec, ...] | None:
    """Describe the arguments of a launch; storages are named by their addresses.

    Args:
        names: Triton's type of each parameter, by its name.
        values: The arguments.

    Returns:
        None if something that is no tensor has memory.
    """
    import torch

    found = []
    for (name, kind), value in zip(names.items(), values, strict=True):
        known = memory_spec(value) if isinstance(value, torch.Tensor) else None
        if known is None and hasattr(value, "data_ptr"):
            return None
        found.append(ArgumentSpec(name=name, type=kind, value=value if known is None else known))
    return tuple(found)


def made(arguments: Sequence[ArgumentSpec], contents: Mapping[int, HostBytes]) -> list[Any]:
    """Return arguments with memory of their own; its pages are touched by nobody yet.

    Args:
        arguments: See `described`.
        contents: What storages hold, by their addresses on the GPU; 0 where nothing is known.

    Raises:
        MemoryError: The host has no room for them.
    """
    storages: dict[int, NDArray[np.uint8]] = {}
    found: list[Any] = []
    for argument in arguments:
        tensor = argument.tensor
        if tensor is None:
            found.append(argument.value)
            continue
        if tensor.storage not in storages:
            known = contents.get(tensor.storage)
            storages[tensor.storage] = _memory(tensor.storage_bytes or 0, known)
        found.append(RecordedTensor(tensor, storages[tensor.storage]))
    return found


def _memory(size: int, known: HostBytes | None) -> NDArray[np.uint8]:
    make = np.empty if known is None else np.zeros
    room = make(size + _ALIGNMENT, dtype=np.uint8)
    skipped = -int(room.ctypes.data) % _ALIGNMENT
    memory: NDArray[np.uint8] = room[skipped : skipped + size]
    if known is not None:
        memory[known.begin : known.begin + len(known.content)] = known.content
    return memory
