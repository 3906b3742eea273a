"""Replaces the memory of GPU tensors by host memory, to count launches.

Tensors are described when a launch is made, and recreated on the host when it is counted, so that
no tensor is copied or kept alive. Recreated tensors share memory if the originals do. Recreating
tensors does not require torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttools.core.spec import ArgumentSpec, memory_spec
from ttools.interpreter.records.replay import RecordedTensor

#: The alignment of storages in bytes, as torch aligns them on the host.
_ALIGNMENT = 64


@dataclass(frozen=True, kw_only=True)
class HostBytes:
    """The contents of a part of a storage.

    Attributes:
        begin: Byte offset of the part in the storage.
        content: The bytes of the part, as a one-dimensional array.
    """

    begin: int
    content: NDArray[np.uint8]


def described(names: Mapping[str, str], values: Sequence[Any]) -> tuple[ArgumentSpec, ...] | None:
    """Describe the arguments of a launch; storages are identified by their addresses.

    Args:
        names: Triton's type of each parameter, by the parameter's name.
        values: Values of the parameters, in the same order.

    Returns:
        None if an argument has memory but is not a tensor.
    """
    import torch

    specs = []
    for (name, kind), value in zip(names.items(), values, strict=True):
        tensor = memory_spec(value) if isinstance(value, torch.Tensor) else None
        if tensor is None and hasattr(value, "data_ptr"):
            return None
        specs.append(ArgumentSpec(name=name, type=kind, value=value if tensor is None else tensor))
    return tuple(specs)


def made(arguments: Sequence[ArgumentSpec], contents: Mapping[int, HostBytes]) -> list[Any]:
    """Return arguments whose tensors are in host memory; only pages with contents are touched.

    Args:
        arguments: Descriptions of the arguments, see `described`.
        contents: Contents of storages, by their addresses on the GPU; other storages stay
            uninitialised.

    Raises:
        MemoryError: The host does not have enough memory.
    """
    storages: dict[int, NDArray[np.uint8]] = {}
    values: list[Any] = []
    for argument in arguments:
        tensor = argument.tensor
        if tensor is None:
            values.append(argument.value)
            continue
        if tensor.storage not in storages:
            content = contents.get(tensor.storage)
            storages[tensor.storage] = _memory(tensor.storage_bytes or 0, content)
        values.append(RecordedTensor(tensor, storages[tensor.storage]))
    return values


def _memory(size: int, content: HostBytes | None) -> NDArray[np.uint8]:
    make = np.empty if content is None else np.zeros
    buffer = make(size + _ALIGNMENT, dtype=np.uint8)
    skipped = -int(buffer.ctypes.data) % _ALIGNMENT
    memory: NDArray[np.uint8] = buffer[skipped : skipped + size]
    if content is not None:
        memory[content.begin : content.begin + len(content.content)] = content.content
    return memory
