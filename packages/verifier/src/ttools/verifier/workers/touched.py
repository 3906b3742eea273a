"""Arguments that a call changes on the way, though they may be at the end what they were.

Another stream, another thread or a backward pass may look at them meanwhile. Of kernels that put
back what they changed before they end, the stores are seen in what the checks logged of the launch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import torch

from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.verifier.cases.tensors import whole_storage

#: After so many launches of a call nobody looks any more.
_LOOKS = 64


class Touched:
    """Looks at arguments while they are in use.

    Args:
        arguments: of a call, by name.

    Attributes:
        by: by the name of an argument, what has changed it.
        stored: by the name of an argument, what stored to it and left it as it was.
        reshaped: names of those that are other tensors than before, though nobody wrote to them.
    """

    def __init__(self, arguments: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.by: dict[str, str] = {}
        self.stored: dict[str, str] = {}
        self.reshaped: list[str] = []
        self._known = [
            (name, each, _bytes_of(each).clone(), each._version, _layout(each))
            for name, each in arguments
        ]
        self._looks = 0

    def look(self, kernel: str, stored: Collection[int] = ()) -> None:
        """Notes which arguments have other bytes after a launch, or were stored to by it.

        Args:
            stored: see `stored_to`.
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
        """Notes what operators of torch did to arguments."""
        for name, tensor, _, version, layout in self._known:
            if _layout(tensor) != layout:
                self.reshaped.append(name)
            elif tensor._version != version and tensor.numel():
                self.by.setdefault(name, "an operator of torch")


def stored_to(launch: KernelLaunch) -> set[int]:
    """Addresses of storages that a launch has stored to, where its accesses were logged."""
    written = launch.kernel.variants.effects.written
    if launch.monitor is None or not written:
        return set()
    footprints, _ = launch.monitor.footprints()
    sites = launch.monitor.sites
    stores = np.array([site.kind == "store" for site in sites], np.bool_)
    records = footprints.records
    starts = records["start"][stores[records["site"]]]
    found = set()
    for index in written:
        begin, end = launch.regions[index].storage
        argument = launch.arguments[index]
        if isinstance(argument, torch.Tensor) and bool(((starts >= begin) & (starts < end)).any()):
            found.add(argument.untyped_storage().data_ptr())
    return found


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return whole_storage(tensor.detach())


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    address = tensor.untyped_storage().data_ptr()
    return address, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
