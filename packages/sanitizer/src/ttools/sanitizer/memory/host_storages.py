"""The storages of ordinary tensors in the host's memory: which of them can be watched."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from ttools.core.device_map.memory import on_host
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.evidence import certain_by_words
from ttools.sanitizer.memory.pattern import HALF, Grain, grain_of, holding, word_in
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

#: The part of the free memory that one storage may take for it to be filled.
_FREE_PART = 4


@functools.lru_cache(maxsize=1)
def weak_reference() -> Any:
    """Return torch's class of references that do not keep a storage alive."""
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef


def smallest(tensor: Any) -> int:
    """Return how many bytes a storage has at least to be watched."""
    return 1 if grain_of(tensor) is Grain.BYTE else 2


def plain_storage(tensor: Any) -> Any:
    """Return the storage of an ordinary tensor in the host's memory; None for any other."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_quantized:
        return None
    try:
        storage = tensor.untyped_storage()
        return storage if on_host(storage) else None
    except (NotImplementedError, RuntimeError):
        return None  # sparse tensors and wrappers have none


def most_filled() -> int:
    """Return how large a storage may be for all its pages to be used, which torch would not do."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _FREE_PART


def filled_elsewhere(tensor: Any) -> UnwrittenStorage | None:
    """Return what is known of a tensor's storage that another watch filled; None if none did."""
    storage = plain_storage(tensor)
    if storage is None or storage.nbytes() < HALF:
        return None
    start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
    own = memory(start, start + nbytes)
    pattern = word_in(own)
    left = None if pattern is None else certain_by_words(holding(own, pattern))
    if pattern is None or left is None or not left.any():
        return None
    reference = weak_reference()(storage)
    found = UnwrittenStorage(reference, start, nbytes, 0, pattern, grain_of(tensor))
    found.known().view(np.bool_)[...] = left
    return found
