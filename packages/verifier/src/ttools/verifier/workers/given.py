"""What launches were given: a result that was there before any kernel ran is no kernel's.

Sees what torch's modes do not, such as NumPy on a tensor's address, C, or another process, where a
kernel only copies. Whether elements of arguments that were moved to other places are a result
depends on the reference: the judge knows. Owns which contents say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ttools.verifier.cases.tensors import raw_bytes

#: Fewer elements may be what they are by chance.
_TELLING = 8


class Given:
    """Contents of tensors as the first launch that got them found them.

    Args:
        arguments: of the call, whose contents anyone may pass on.
    """

    def __init__(self, arguments: Iterable[torch.Tensor]) -> None:
        self._arguments: list[torch.Tensor] = []
        self._met: set[int] = set()
        self._kernels: dict[tuple[str, bytes], str] = {}
        self.take(arguments)

    def take(self, arguments: Iterable[torch.Tensor]) -> None:
        """More arguments, as what gradients are weighted by: those of the backward pass."""
        taken = list(arguments)
        self._arguments += taken
        self._met |= {each.untyped_storage().data_ptr() for each in taken}

    def note(self, kernel: str, arguments: Iterable[Any]) -> None:
        """Notes the contents of tensors that no launch got before."""
        for each in arguments:
            if not isinstance(each, torch.Tensor) or each.numel() < _TELLING:
                continue
            address = each.untyped_storage().data_ptr()
            if address not in self._met:
                self._kernels[_contents(each)] = kernel
                self._met.add(address)

    def kernel_of(self, result: Any) -> tuple[str, bool]:
        """The kernel that was given a result, and whether that has only elements of arguments.

        The name is empty if no kernel was given it, and if it is a constant or an argument,
        perhaps of another type: copies and conversions are anyone's.
        """
        if not isinstance(result, torch.Tensor) or result.numel() < _TELLING:
            return "", False
        if result.is_complex():
            return "", False
        kernel = self._kernels.get(_contents(result), "")
        if not kernel or self._is_copy(result):
            return "", False
        return kernel, self._is_moved(result)

    def _is_copy(self, result: torch.Tensor) -> bool:
        plain = result.detach().reshape(-1)
        if bool((plain == plain[0]).all()):
            return True
        own = _contents(result)
        return any(
            each.numel() == result.numel() and _contents(each.detach().to(result.dtype)) == own
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


def _contents(tensor: torch.Tensor) -> tuple[str, bytes]:
    return str(tensor.dtype), raw_bytes(tensor)
