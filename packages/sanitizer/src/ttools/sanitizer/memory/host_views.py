"""What the host's tensors show of storages that are watched.

Owns where a tensor's storage begins, whether it holds the pattern of unwritten memory, and which
tensors of a storage somebody still has. Must not know of launches.
"""

from __future__ import annotations

import gc
from typing import Any

from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.missing import View, may_be_missing


def start_of(tensor: Any) -> int | None:
    """Where the storage of an ordinary tensor begins."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return None
    try:
        with torch._C.DisableTorchFunction():
            return int(tensor.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):
        return None  # sparse tensors and wrappers


def holds(result: Any, pattern: bytes) -> bool:
    """Whether what an operator made of an output has elements that nobody wrote."""
    import torch

    tensors = result if isinstance(result, (list, tuple)) else (result,)
    for each in tensors:
        if type(each) is torch.Tensor and each.device.type == "cpu" and each.numel():
            start = int(each.untyped_storage().data_ptr())
            first = start + int(each.storage_offset()) * int(each.element_size())
            view = View.of(each)
            if may_be_missing(memory(first & ~1, start + view.end), pattern, view.grain):
                return True
    return False


def held_views(starts: set[int]) -> dict[int, list[View]]:
    """The tensors of some storages that Python's objects hold, by the storage's address.

    A tensor that others are views of is not counted: torch keeps it alive for them.
    """
    import torch

    tensors = [
        each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)
    ]
    own = []
    for each in tensors:
        try:
            start = int(each.untyped_storage().data_ptr())
        except (NotImplementedError, RuntimeError):
            continue  # sparse tensors and wrappers have no storage
        if start in starts:
            own.append((start, each))
    bases = {id(each._base) for _, each in own if each._base is not None}
    views: dict[int, list[View]] = {}
    for start, each in own:
        if id(each) not in bases:
            views.setdefault(start, []).append(View.of(each))
    return views
