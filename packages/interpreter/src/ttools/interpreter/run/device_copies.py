"""Host copies of GPU memory for one launch on the CPU.

Each storage is copied once, so that strides, offsets and aliases are preserved. After the launch,
only the words that changed are copied back. A kernel may convert the integers in a table of
addresses to pointers. In the copy of such a table, device addresses are replaced by host addresses,
and each live allocation to which they point is copied, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from ttools.core.device_map.memory import on_host
from ttools.core.errors import KernelError, UnsupportedError
from ttools.core.spec import whole_storage
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.abi.module import MemoryEffects
from ttools.interpreter.analysis.address_sources import AddressSources

_ALIGNMENT = 512  # alignment of torch's CUDA allocator; kernels may be specialised for 16
_WORD = 8
_ADDRESS_TYPES = ("i64", "u64")


@lru_cache(maxsize=1)
def has_device_memory() -> bool:
    """Return whether arguments may be on a GPU.

    This calls torch's C++ function, which a device map does not replace.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    count = getattr(torch._C, "_cuda_getDeviceCount", None)
    return count is not None and int(count()) > 0


class _HostView:
    """Pointer argument that replaces a GPU tensor by its host copy."""

    def __init__(self, address: int, extent: tuple[int, int]) -> None:
        self._address = address
        self._extent = extent

    def data_ptr(self) -> int:
        return self._address

    def storage_extent(self) -> tuple[int, int]:
        return self._extent


class _Copy:
    """A range of GPU memory and its host copy.

    Args:
        device: The GPU memory as a tensor of bytes.

    Attributes:
        parameters: Indices of the kernel parameters that point into the range of GPU memory.
    """

    def __init__(self, device: Any) -> None:
        import torch

        self.parameters: set[int] = set()
        self.start = int(device.data_ptr())
        self.size = int(device.numel())
        self._device = device
        buffer = torch.empty(self.size + _ALIGNMENT, dtype=torch.uint8, device="cpu")
        offset = (self.start - buffer.data_ptr()) % _ALIGNMENT
        self.host = buffer[offset : offset + self.size]
        self.host.copy_(device)
        self._before: Any = None

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.start + self.size

    def host_address(self, address: int) -> int:
        """Return the address in the host copy that corresponds to a GPU address."""
        return int(self.host.data_ptr()) + address - self.start

    def view(self, address: int) -> _HostView:
        """Return a pointer argument for a GPU address."""
        start = int(self.host.data_ptr())
        return _HostView(self.host_address(address), (start, start + self.size))

    def keep(self) -> None:
        """Copy the contents, so that changes can be detected later."""
        self._before = self.host.clone()

    def write_back(self) -> None:
        """Copy the words that changed since `keep` to the GPU."""
        import torch

        words = self.size // _WORD * _WORD
        for start, end, dtype in ((0, words, torch.int64), (words, self.size, torch.uint8)):
            before = self._before[start:end].view(dtype)
            after = self.host[start:end].view(dtype)
            changed = before != after
            target = self._device[start:end].view(dtype)
            if changed.all():
                target.copy_(after)
            elif changed.any():
                target[changed.to(target.device)] = after[changed].to(target.device)


class RawMemory:
    """A range of GPU memory, in a form that torch converts to a tensor without copying."""

    def __init__(self, start: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (start, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 2,
        }


class HostCopies:
    """The host copies of GPU memory that one launch uses.

    Args:
        plan: Describes the kernel's parameters.
        addresses: Sources of the integers that the kernel converts to pointers.
    """

    def __init__(self, plan: ArgumentPlan, addresses: AddressSources) -> None:
        self._plan = plan
        self._addresses = addresses
        self._copies: list[_Copy] = []
        self._live: list[tuple[str, int, int]] | None = None

    def replace(self, values: Sequence[Any]) -> list[Any]:
        """Return the arguments of a launch, with host copies in place of all GPU memory.

        GPU memory to which addresses in tables or scalars point is copied, too.

        Raises:
            KernelError: A table of addresses contains no address of a live tensor.
            UnsupportedError: The launch is captured for a CUDA graph.
        """
        with _unseen():
            return self._replaced(values)

    def _replaced(self, values: Sequence[Any]) -> list[Any]:
        replaced = [self._argument(i, value) for i, value in enumerate(values)]
        if self._addresses.is_empty:
            return replaced
        anywhere = self._addresses.anywhere
        for index, type_name in enumerate(self._plan.types):
            if type_name.startswith("*") or anywhere or index in self._addresses.scalars:
                replaced[index] = self._number(index, replaced[index])
        tables = self._addresses.tables | self._addresses.mixed
        for copy in list(self._copies):
            if copy.parameters & tables or (anywhere and self._holds_integers(copy)):
                self._translate(copy)
        return replaced

    def keep(self, effects: MemoryEffects) -> None:
        """Prepare `write_back`; this must be called before the launch."""
        with _unseen():
            for copy in self._written(effects):
                copy.keep()

    def write_back(self, effects: MemoryEffects) -> None:
        """Copy the memory that the launch changed back to the GPU."""
        with _unseen():
            for copy in self._written(effects):
                copy.write_back()

    def _written(self, effects: MemoryEffects) -> Iterable[_Copy]:
        if effects.unknown_writes:
            return self._copies
        return [copy for copy in self._copies if copy.parameters & effects.written]

    def _argument(self, index: int, value: Any) -> Any:
        """Return the host view of a tensor on a GPU; return any other argument unchanged."""
        tensor: Any = value if hasattr(value, "untyped_storage") else getattr(value, "base", None)
        if index not in self._plan.pointers or not hasattr(tensor, "untyped_storage"):
            return value
        storage = tensor.untyped_storage()
        if not hasattr(storage, "device") or on_host(storage) or not storage.nbytes():
            return value
        copy = self._holding(storage.data_ptr()) or self._add(whole_storage(storage))
        copy.parameters.add(index)
        return copy.view(tensor.data_ptr())

    def _number(self, index: int, value: Any) -> Any:
        """Return the host address for an integer that is a GPU address; return others unchanged."""
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        copy = self._reach(value)
        if copy is None:
            return value
        copy.parameters.add(index)
        return copy.host_address(value)

    def _holds_integers(self, copy: _Copy) -> bool:
        return any(self._plan.types[i][1:] in _ADDRESS_TYPES for i in copy.parameters)

    def _translate(self, table: _Copy) -> None:
        """Replace the GPU addresses in a host copy."""
        import torch

        words = table.host[: table.size // _WORD * _WORD].view(torch.int64)
        # Most integers are not addresses, so only those between the lowest and the highest
        # allocation are looked up.
        low = min((start for _, start, _ in self._allocations()), default=0)
        high = max((start + size for _, start, size in self._allocations()), default=0)
        reached = False
        for address in torch.unique(words[(words >= low) & (words < high)]).tolist():
            copy = self._reach(address)
            if copy is not None:
                words[words == address] = copy.host_address(address)
                reached = True
        only_addresses = table.parameters & self._addresses.tables
        if only_addresses and not reached and words.any():
            name = self._plan.names[min(only_addresses)]
            address = words[words != 0][0].item()
            raise KernelError(
                f"the kernel loads addresses from `{name}`, but {address:#x} does not belong to a "
                "tensor",
                help="fill the table with the data_ptr() of tensors that are still alive",
            )

    def _holding(self, address: int) -> _Copy | None:
        return next((copy for copy in self._copies if address in copy), None)

    def _add(self, device: Any) -> _Copy:
        if _is_capturing():
            raise UnsupportedError(
                "running a launch on the CPU while a CUDA graph is captured on a GPU",
                help="run the whole program on the CPU, including its graphs, with `--device-map "
                "cuda=cpu` (TTOOLS_DEVICE_MAP=cuda=cpu)",
            )
        copy = _Copy(device)
        self._copies.append(copy)
        return copy

    def _reach(self, address: int) -> _Copy | None:
        """Return the copy that contains a GPU address; None if the address is in no allocation.

        If the allocation has not been copied yet, it is copied now.
        """
        holding = self._holding(address)
        if holding is not None:
            return holding
        for device, start, size in self._allocations():
            if start <= address < start + size:
                import torch

                return self._add(torch.as_tensor(RawMemory(start, size), device=device))
        return None

    def _allocations(self) -> list[tuple[str, int, int]]:
        if self._live is None:
            self._live = list(_live_allocations())
        return self._live


def _is_capturing() -> bool:
    """Return whether a CUDA graph is being captured on the GPU, so that launches do not run yet."""
    import torch

    cuda: Any = torch.cuda  # its functions have no annotations
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def _unseen() -> AbstractContextManager[Any]:
    """Return a context in which torch's dispatch modes do not observe operators.

    The copies made here are not part of the user's program. A mode that detects reads of GPU memory
    by the host, for example, must not report them.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def _live_allocations() -> Iterable[tuple[str, int, int]]:
    """Yield the device, the first address and the size of each block that torch has allocated."""
    import torch

    snapshot: Any = torch.cuda.memory_snapshot
    for segment in snapshot():
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                yield f"cuda:{segment['device']}", block["address"], block["size"]
