"""What the host's tensors show of storages that are watched.

Where a tensor's storage begins, whether what an operator made of it depends on unwritten elements,
and which tensors of a storage somebody still has.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.missing import Bools, View
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

#: What other values differ by; the sign stays.
_OTHER_BITS = 0x15


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


def depends_on(
    storage: UnwrittenStorage, missing: Bools, result: Any, again: Callable[[], Any]
) -> bool:
    """Return whether the result of an operator depends on unwritten bytes.

    The operator runs a second time with other values there, which are put back.

    Args:
        storage: The storage that it has read.
        missing: A mark for each of its bytes that is unwritten and looked at.
        result: What the operator has made.
        again: Makes it once more.
    """
    if not missing.any() or not storage.is_on_host:
        return False  # memory of a GPU is not changed under the program's hands
    own = memory(storage.start, storage.start + storage.nbytes)
    before, shadow = own[missing].copy(), storage.known().copy()
    # Other negative numbers: indices that were out of bounds stay so.
    own[missing] = before ^ _OTHER_BITS
    try:
        return not _same(result, again())
    except Exception:  # noqa: BLE001 - the operator has refused what it read
        return True
    finally:
        own[missing] = before
        storage.known()[:] = shadow  # the operator's own reads may have looked at it meanwhile


def _same(one: Any, other: Any) -> bool:
    """Return whether two results have the same bits."""
    import torch

    if isinstance(one, (list, tuple)):
        return all(_same(*each) for each in zip(one, other, strict=True))
    if not isinstance(one, torch.Tensor):
        return bool(one == other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.numel():
        return True
    parts = (each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (one, other))
    return torch.equal(*parts)


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
