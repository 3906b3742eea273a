"""Detects writes to arguments during a call, even if the call restores them before it returns.

Another stream, another thread or a backward pass may read an argument while it is changed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from ttools.interpreter.run.kernel_launch import KernelLaunch


class ArgumentWrites:
    """Observes the arguments of a call.

    Args:
        arguments: Names and values of the arguments that are tensors.

    Attributes:
        stored: Kernels that stored to an argument, by the argument's name.
        changed: Names of arguments that operators of torch have changed.
        reshaped: Names of arguments whose storage, type, shape, strides or offset changed.
    """

    def __init__(self, arguments: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.stored: dict[str, str] = {}
        self.changed: list[str] = []
        self.reshaped: list[str] = []
        self._known = [
            (name, tensor, tensor._version, _layout(tensor)) for name, tensor in arguments
        ]

    def launched(self, launch: KernelLaunch) -> None:
        """Record the arguments to which a launch stored, if the launch's accesses were logged."""
        written = {
            argument.untyped_storage().data_ptr(): launch.regions[index].storage
            for index in launch.kernel.variants.effects.written
            if isinstance(argument := launch.arguments[index], torch.Tensor)
        }
        own = [entry for entry in self._known if entry[3][0] in written]
        if launch.monitor is None or not own:
            return
        footprints, _ = launch.monitor.footprints()
        stores = np.array([site.kind == "store" for site in launch.monitor.sites], np.bool_)
        starts = footprints.records["start"][stores[footprints.records["site"]]]
        for name, _, _, (address, *_) in own:
            begin, end = written[address]
            if bool(((starts >= begin) & (starts < end)).any()):
                self.stored.setdefault(name, launch.kernel.name)

    def end(self) -> None:
        """Record the arguments that torch operators have changed."""
        for name, tensor, version, layout in self._known:
            if _layout(tensor) != layout:
                self.reshaped.append(name)
            elif tensor._version != version and tensor.numel():
                self.changed.append(name)


def _layout(tensor: torch.Tensor) -> tuple[int, torch.dtype, object, object, object]:
    address = tensor.untyped_storage().data_ptr()
    return address, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
