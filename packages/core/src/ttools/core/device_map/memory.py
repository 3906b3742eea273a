"""State of the device map for code that must not import torch."""

from __future__ import annotations

from typing import Any

_installed = False
_maps = 0
#: True if a kernel was launched on CUDA tensors during the active map.
_launched = False
#: True if this machine has a GPU that the process could have used without the map.
_gpu = False


def install(gpu: bool) -> None:
    """Record that from now on, CUDA tensors of this process are in host memory.

    Args:
        gpu: True if the process could have used a GPU before.
    """
    global _installed, _gpu
    _installed, _gpu = True, gpu


def count_maps(change: int) -> None:
    """Add `change` to the number of active maps: 1 when one begins, -1 when one ends."""
    global _maps, _launched
    _maps += change
    if _maps == 0:
        _launched = False


def note_mapped_launch() -> None:
    """Record a launch on CUDA tensors of the active map."""
    global _launched
    _launched = True


def has_mapped_launch() -> bool:
    """Return whether a kernel was launched on CUDA tensors during the active map."""
    return _launched


def is_mapped() -> bool:
    """Return whether a device map is active."""
    return _maps > 0


def ask_for_device() -> None:
    """Raise an error if new tensors of the mapped device can no longer be created.

    Raises:
        RuntimeError: The map has ended and there is a GPU, so the script would get a mapped tensor
            although it requests the GPU.
    """
    if _gpu and not _maps:
        raise RuntimeError(
            "this process has used a device map, so it can no longer use the GPU; create CUDA "
            "tensors inside the device map or in another process"
        )


def on_host(holder: Any) -> bool:
    """Return whether a tensor or storage is in host memory, even if its device is `cuda`."""
    kind = holder.device.type
    return kind == "cpu" or (kind == "cuda" and _installed)


def pinned_copy(tensor: Any, device: Any = None) -> Any:
    """Implement `_pin_memory`: return a copy of a CPU tensor that counts as pinned."""
    pinned = tensor.clone()
    pinned.untyped_storage()._ttools_pinned = True
    return pinned


def is_pinned(tensor: Any, device: Any = None) -> bool:
    """Implement `is_pinned`: return whether a CPU tensor counts as pinned."""
    return hasattr(tensor.untyped_storage(), "_ttools_pinned")
