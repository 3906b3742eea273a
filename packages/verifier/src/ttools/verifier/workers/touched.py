"""Detects arguments that change during a call, even if the call restores them before it returns.

Another stream, another thread or a backward pass may read an argument while it is changed. If a
kernel restores an argument before it ends, its stores are found in the log of the checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import torch

from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.verifier.cases.tensors import whole_storage

#: Number of launches of a call after which arguments are compared; later launches are skipped.
_LOOKS = 64


class Touched:
    """Observes the arguments of a call while they are in use.

    Args:
        arguments: Names and values of the arguments that are tensors.

    Attributes:
        by: Causes of changes by the name of the argument.
        stored: Kernels that stored to an argument without changing it, by the argument's name.
        reshaped: Names of arguments whose storage, type, shape, strides or offset changed.
    """

    def __init__(self, arguments: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.by: dict[str, str] = {}
        self.stored: dict[str, str] = {}
        self.reshaped: list[str] = []
        self._known = [
            (name, tensor, _bytes_of(tensor).clone(), tensor._version, _layout(tensor))
            for name, tensor in arguments
        ]
        self._looks = 0

    def look(self, kernel: str, stored: Collection[int] = ()) -> None:
        """Record which arguments a launch has changed or stored to.

        Args:
            kernel: Name of the kernel.
            stored: Addresses of the storages that it stored to, see `stored_to`.
        """
        self._looks += 1
        if self._looks > _LOOKS:
            return
        for name, tensor, before, _, layout in self._known:
            if name in self.by or _layout(tensor) != layout:
                continue
            if not torch.equal(_bytes_of(tensor), before):
                self.by[name] = f"`{kernel}`"
            elif tensor.untyped_storage().data_ptr() in stored:
                self.stored[name] = f"`{kernel}`"

    def end(self) -> None:
        """Record the arguments that torch operators have changed."""
        for name, tensor, _, version, layout in self._known:
            if _layout(tensor) != layout:
                self.reshaped.append(name)
            elif tensor._version != version and tensor.numel():
                self.by.setdefault(name, "an operator of torch")


def stored_to(launch: KernelLaunch) -> set[int]:
    """Return addresses of the storages that a launch stored to; none if it logged no accesses."""
    written = launch.kernel.variants.effects.written
    if launch.monitor is None or not written:
        return set()
    footprints, _ = launch.monitor.footprints()
    sites = launch.monitor.sites
    stores = np.array([site.kind == "store" for site in sites], np.bool_)
    records = footprints.records
    starts = records["start"][stores[records["site"]]]
    addresses = set()
    for index in written:
        begin, end = launch.regions[index].storage
        argument = launch.arguments[index]
        if isinstance(argument, torch.Tensor) and bool(((starts >= begin) & (starts < end)).any()):
            addresses.add(argument.untyped_storage().data_ptr())
    return addresses


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return whole_storage(tensor.detach())


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    address = tensor.untyped_storage().data_ptr()
    return address, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
