"""The storages of ordinary tensors in host memory, and views of these storages."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ttools.core.device_map.memory import on_host
from ttools.core.spec import TensorSpec, view_spec
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.evidence import certain_by_words
from ttools.sanitizer.memory.pattern import HALF, Grain, grain_of, holding, word_in
from ttools.sanitizer.memory.unwritten_elements import Bools
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

#: A storage is filled only if its size is at most the free memory divided by this number.
_FREE_PART = 4


@functools.lru_cache(maxsize=1)
def weak_reference() -> Any:
    """Return torch's class of references that do not keep a storage alive."""
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef


def smallest(tensor: Any) -> int:
    """Return the minimum size, in bytes, of a storage for it to be watched."""
    return 1 if grain_of(tensor) is Grain.BYTE else 2


def plain_storage(tensor: Any) -> Any:
    """Return the storage of an ordinary tensor in host memory; None for any other tensor."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_quantized:
        return None
    try:
        storage = tensor.untyped_storage()
        return storage if on_host(storage) else None
    except (NotImplementedError, RuntimeError):
        return None  # sparse tensors and wrappers have none


def most_filled() -> int:
    """Return the maximum size of a storage for it to be filled.

    The size is limited because filling makes all pages of the storage resident.
    """
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _FREE_PART


def filled_elsewhere(tensor: Any) -> UnwrittenStorage | None:
    """Return a record of a tensor's storage if another watch filled it; otherwise None."""
    storage = plain_storage(tensor)
    if storage is None or storage.nbytes() < HALF:
        return None
    start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
    own = memory(start, start + nbytes)
    pattern = word_in(own)
    unwritten = None if pattern is None else certain_by_words(holding(own, pattern))
    if pattern is None or unwritten is None or not unwritten.any():
        return None
    reference = weak_reference()(storage)
    storage_record = UnwrittenStorage(reference, start, nbytes, 0, pattern, grain_of(tensor))
    storage_record.ensure_shadow().view(np.bool_)[...] = unwritten
    return storage_record


#: The bits of each byte that are flipped to change a value. The sign bit is not among them.
_OTHER_BITS = 0x15


def start_of(tensor: Any) -> int | None:
    """Return the address of the storage of an ordinary tensor; None for any other tensor."""
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

    The operator runs again with other values in these bytes, which are restored afterwards.

    Args:
        storage: The storage that the operator has read.
        missing: For each byte of the storage, True if it is unwritten and may be read.
        result: The result of the operator.
        again: Computes the result again.
    """
    if not missing.any() or not storage.is_on_host:
        return False  # GPU memory is not modified while the program may use it
    own = memory(storage.start, storage.start + storage.nbytes)
    before, shadow = own[missing].copy(), storage.ensure_shadow().copy()
    # The sign is kept, so that negative indices, which are out of bounds, remain negative.
    own[missing] = before ^ _OTHER_BITS
    try:
        return not _same(result, again())
    except Exception:  # noqa: BLE001 - the operator has rejected the changed values
        return True
    finally:
        own[missing] = before
        storage.ensure_shadow()[:] = shadow  # the second run may have updated it


def _same(one: Any, other: Any) -> bool:
    """Return whether two results have the same bits."""
    import torch

    if isinstance(one, (list, tuple)):
        return all(_same(*part) for part in zip(one, other, strict=True))
    if not isinstance(one, torch.Tensor):
        return bool(one == other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.numel():
        return True
    parts = (part.detach().contiguous().reshape(-1).view(torch.uint8) for part in (one, other))
    return torch.equal(*parts)


def live_views(starts: set[int]) -> dict[int, list[TensorSpec]]:
    """Return the views of some storages that are alive as Python objects, by storage address.

    A tensor that is only alive as the base of other views is left out.
    """
    own = [(start, tensor) for tensor in gc.get_objects() if (start := start_of(tensor)) in starts]
    bases = {id(tensor._base) for _, tensor in own if tensor._base is not None}
    views: dict[int, list[TensorSpec]] = {}
    for start, tensor in own:
        if id(tensor) not in bases:
            assert start is not None
            views.setdefault(start, []).append(view_spec(tensor))
    return views
