"""Arguments that a call changes on the way, though they may be at the end what they were.

Another stream, another thread or a backward pass may look at them meanwhile. Kernels that put back
what they changed before they end are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ttools.verifier.cases.tensors import whole_storage

#: After so many launches of a call nobody looks any more.
_LOOKS = 64


class Touched:
    """Looks at arguments while they are in use.

    Args:
        arguments: of a call, by name.

    Attributes:
        by: by the name of an argument, what has changed it.
        reshaped: names of those that are other tensors than before, though nobody wrote to them.
    """

    def __init__(self, arguments: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.by: dict[str, str] = {}
        self.reshaped: list[str] = []
        self._known = [
            (name, each, _bytes_of(each).clone(), each._version, _layout(each))
            for name, each in arguments
        ]
        self._looks = 0

    def look(self, kernel: str) -> None:
        """Notes which arguments have other bytes after a launch."""
        self._looks += 1
        if self._looks > _LOOKS:
            return
        for name, tensor, before, _, layout in self._known:
            if name in self.by or _layout(tensor) != layout:
                continue
            if not torch.equal(_bytes_of(tensor), before):
                self.by[name] = f"`{kernel}`"

    def end(self) -> None:
        """Notes what operators of torch did to arguments."""
        for name, tensor, _, version, layout in self._known:
            if _layout(tensor) != layout:
                self.reshaped.append(name)
            elif tensor._version != version and tensor.numel():
                self.by.setdefault(name, "an operator of torch")


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return whole_storage(tensor.detach())


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    address = tensor.untyped_storage().data_ptr()
    return address, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
