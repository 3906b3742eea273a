"""What launches were given: a result that was there before any kernel ran is no kernel's.

Sees what torch's modes do not, such as NumPy on a tensor's address, C, or another process, where a
kernel only copies. Whether elements of arguments that were moved to other places are a result
depends on the reference: the judge knows. Owns which contents say so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ttools.verifier.cases.tensors import memory_bytes

#: Fewer elements may be what they are by chance.
_TELLING = 8


class Given:
    """Contents of tensors as the first launch that got them found them.

    Args:
        arguments: of the call, whose contents anyone may pass on.
        left: by the address of a storage, a digest of what a kernel left there; filled here, for
            later calls of the process.
        read: the bytes of a tensor's elements, as if nobody had read them: what a launch is given
            may be unwritten.
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
        """More arguments, as what gradients are weighted by: those of the backward pass."""
        taken = list(arguments)
        self._arguments += taken
        self._met |= {each.untyped_storage().data_ptr() for each in taken}

    def note(self, kernel: str, arguments: Sequence[Any], written: Iterable[int] = ()) -> None:
        """Notes the contents of tensors that no launch got before.

        A workspace that is kept between calls holds what a kernel of the last one left there, which
        may be the result of an equal call. It is not noted where this kernel writes to it, too.

        Args:
            arguments: of the launch, which has not run.
            written: numbers of those that the kernel may write to.
        """
        workspaces = set(written)
        for index, each in enumerate(arguments):
            if not isinstance(each, torch.Tensor) or each.numel() < _TELLING:
                continue
            address = each.untyped_storage().data_ptr()
            if address not in self._met:
                contents = self._contents(each)
                left = self._left.get(address) if index in workspaces else None
                if left is None or left != _digest(contents):
                    self._kernels[contents] = kernel
                self._met.add(address)

    def leave(self, arguments: Sequence[Any], written: Iterable[int]) -> None:
        """Notes what a launch that has run left in the tensors that it may have written to.

        Args:
            written: numbers of those that the kernel may write to.
        """
        for each in (arguments[index] for index in written):
            if isinstance(each, torch.Tensor) and each.numel() >= _TELLING:
                self._left[each.untyped_storage().data_ptr()] = _digest(self._contents(each))

    def kernel_of(self, result: Any) -> tuple[str, bool]:
        """The kernel that was given a result, and whether that has only elements of arguments.

        The name is empty if no kernel was given it, and if it is a constant or an argument,
        perhaps of another type: copies and conversions are anyone's.
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
            each.numel() == result.numel() and self._contents(each.detach().to(result.dtype)) == own
            for each in self._arguments
        )

    def _is_moved(self, result: torch.Tensor) -> bool:
        """Whether its elements are those of arguments, perhaps of another type, or zero."""
        plain = result.detach().reshape(-1)
        known = [
            part.double()
            for each in self._arguments
            for part in (each.detach().reshape(-1), each.detach().reshape(-1).to(result.dtype))
        ]
        known.append(torch.zeros(1, dtype=torch.float64, device=plain.device))
        return bool(torch.isin(plain.double().nan_to_num(), torch.cat(known).nan_to_num()).all())

    def _contents(self, tensor: torch.Tensor) -> tuple[str, bytes]:
        return str(tensor.dtype), self._read(tensor)


def _digest(contents: tuple[str, bytes]) -> bytes:
    kind, data = contents
    return hashlib.sha256(kind.encode() + data).digest()
