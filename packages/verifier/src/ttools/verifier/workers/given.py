"""Tracks tensor contents that existed before a launch, so that no kernel gets credit for them.

A candidate can compute a result with NumPy on a tensor's address, in C or in another process, and
then launch a kernel that only copies it. Torch's modes do not see such computations. If a result
equals the contents of a tensor that a launch received, then the kernel did not compute it. The
case of a result that consists of moved elements of the arguments is reported separately, because
the reference decides whether this is correct.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ttools.verifier.cases.tensors import memory_bytes

#: Smaller tensors are skipped, because their contents can match by coincidence.
_TELLING = 8


class Given:
    """Contents of tensors before the first launch that received them.

    Args:
        arguments: Arguments of the call; a result may be a copy of one of them.
        left: Digests of the contents that kernels left in memory, by address of the storage.
            Updated here, for later calls of the process.
        read: Returns the bytes of a tensor's elements without recording a read, because the
            memory that a launch receives may be uninitialised.
    """

    def __init__(
        self,
        arguments: Iterable[torch.Tensor],
        left: dict[int, bytes] | None = None,
        read: Callable[[torch.Tensor], bytes] = memory_bytes,
    ) -> None:
        self._left = {} if left is None else left
        self._read = read
        self._arguments: list[torch.Tensor] = []
        self._met: set[int] = set()
        self._kernels: dict[tuple[str, bytes], str] = {}
        self.take(arguments)

    def take(self, arguments: Iterable[torch.Tensor]) -> None:
        """Add arguments, such as the output gradients that the backward pass receives."""
        taken = list(arguments)
        self._arguments += taken
        self._met |= {tensor.untyped_storage().data_ptr() for tensor in taken}

    def note(self, kernel: str, arguments: Sequence[Any], written: Iterable[int] = ()) -> None:
        """Record the contents of tensors that no earlier launch received.

        A workspace that is kept between calls still contains what a kernel of the previous call
        wrote, which may be the result of an equal call. Such contents are not recorded if this
        kernel writes to the workspace, too.

        Args:
            arguments: Arguments of the launch, which has not run yet.
            written: Indices of the arguments that the kernel may write to.
        """
        workspaces = set(written)
        for index, argument in enumerate(arguments):
            if not isinstance(argument, torch.Tensor) or argument.numel() < _TELLING:
                continue
            address = argument.untyped_storage().data_ptr()
            if address not in self._met:
                contents = self._contents(argument)
                left = self._left.get(address) if index in workspaces else None
                if left is None or left != _digest(contents):
                    self._kernels[contents] = kernel
                self._met.add(address)

    def leave(self, arguments: Sequence[Any], written: Iterable[int]) -> None:
        """Record the contents that a completed launch left in tensors that it may write to.

        Args:
            written: Indices of the arguments that the kernel may write to.
        """
        for argument in (arguments[index] for index in written):
            if isinstance(argument, torch.Tensor) and argument.numel() >= _TELLING:
                self._left[argument.untyped_storage().data_ptr()] = _digest(
                    self._contents(argument)
                )

    def kernel_of(self, result: Any) -> tuple[str, bool]:
        """Return the kernel that received a result, and whether it only moves argument elements.

        The name is empty if no kernel received the result, and if the result is constant or equals
        an argument, perhaps converted to another type: copies and conversions are permitted.
        """
        if not isinstance(result, torch.Tensor) or result.numel() < _TELLING:
            return "", False
        if result.is_complex():
            return "", False
        kernel = self._kernels.get(self._contents(result), "")
        if not kernel or self._is_copy(result):
            return "", False
        return kernel, self._is_moved(result)

    def _is_copy(self, result: torch.Tensor) -> bool:
        plain = result.detach().reshape(-1)
        if bool((plain == plain[0]).all()):
            return True
        own = self._contents(result)
        return any(
            argument.numel() == result.numel()
            and self._contents(argument.detach().to(result.dtype)) == own
            for argument in self._arguments
        )

    def _is_moved(self, result: torch.Tensor) -> bool:
        """Return whether each element is zero or an element of an argument, perhaps converted."""
        plain = result.detach().reshape(-1)
        elements = [
            part.double()
            for argument in self._arguments
            for part in (
                argument.detach().reshape(-1),
                argument.detach().reshape(-1).to(result.dtype),
            )
        ]
        elements.append(torch.zeros(1, dtype=torch.float64, device=plain.device))
        return bool(torch.isin(plain.double().nan_to_num(), torch.cat(elements).nan_to_num()).all())

    def _contents(self, tensor: torch.Tensor) -> tuple[str, bytes]:
        return str(tensor.dtype), self._read(tensor)


def _digest(contents: tuple[str, bytes]) -> bytes:
    kind, data = contents
    return hashlib.sha256(kind.encode() + data).digest()
