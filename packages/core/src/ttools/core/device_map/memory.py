"""Whether there is a device map, and whether CUDA tensors are in the host's memory.

What many ask who never make such a tensor, torch not yet imported among them.
"""

from __future__ import annotations

from typing import Any

_installed = False
_maps = 0
#: Whether a kernel was launched on CUDA tensors since the map in place began.
_launched = False
#: Whether this machine has a GPU that the process could have used.
_gpu = False


def install(gpu: bool) -> None:
    """CUDA tensors of this process are in the host's memory from now on.

    Args:
        gpu: whether there is a GPU whose tensors they are taken for no more.
    """
    global _installed, _gpu
    _installed, _gpu = True, gpu


def count_maps(change: int) -> None:
    """Counts a device map that begins, 1, or ends, -1."""
    global _maps, _launched
    _maps += change
    if _maps == 0:
        _launched = False


def note_mapped_launch() -> None:
    """Note that a kernel is launched on CUDA tensors of the map in place."""
    global _launched
    _launched = True


def has_mapped_launch() -> bool:
    """Return whether a kernel was launched on CUDA tensors since the map in place began."""
    return _launched


def is_mapped() -> bool:
    """Whether a device map is in place."""
    return _maps > 0


def ask_for_device() -> None:
    """Asks whether a tensor of the mapped device may be made of none.

    Raises:
        RuntimeError: the map has ended, and the GPU is meant.
    """
    if _gpu and not _maps:
        raise RuntimeError("the device map has ended, and the GPU is for another process to use")


def on_host(holder: Any) -> bool:
    """Whether the memory of a tensor or storage is the host's, whatever its device."""
    kind = holder.device.type
    return kind == "cpu" or (kind == "cuda" and _installed)


def pinned_copy(tensor: Any, device: Any = None) -> Any:
    """Return a copy of a CPU tensor that counts as pinned; the kernel of `_pin_memory`."""
    pinned = tensor.clone()
    pinned.untyped_storage()._ttools_pinned = True
    return pinned


def is_pinned(tensor: Any, device: Any = None) -> bool:
    """Return whether a CPU tensor counts as pinned; the kernel of `is_pinned`."""
    return hasattr(tensor.untyped_storage(), "_ttools_pinned")
