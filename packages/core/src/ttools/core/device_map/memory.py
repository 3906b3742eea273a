"""Whether there is a device map, and whether CUDA tensors are in the host's memory.

What many ask who never make such a tensor, torch not yet imported among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_installed = False
_asked: list[Callable[[], None]] = []


def install() -> None:
    """CUDA tensors of this process are in the host's memory from now on."""
    global _installed
    _installed = True


def begin_map(asked: Callable[[], None]) -> None:
    """Says that a device map begins.

    Args:
        asked: called whenever a tensor of its device is made of none.
    """
    _asked.append(asked)


def end_map() -> None:
    """Says that the device map that began last has ended."""
    _asked.pop()


def ask_for_device() -> None:
    """Notes that a tensor of the mapped device is made of none.

    Raises:
        RuntimeError: there is no such device any more.
    """
    if not _asked:
        raise RuntimeError("there is no CUDA device: the device map has ended")
    _asked[0]()


def on_host(holder: Any) -> bool:
    """Whether the memory of a tensor or storage is the host's, whatever its device."""
    kind = holder.device.type
    return kind == "cpu" or (kind == "cuda" and _installed)
