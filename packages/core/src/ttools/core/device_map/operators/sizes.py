"""Resizes mapped tensors in place, or replaces their storage.

torch cannot enlarge a CUDA storage whose memory the CPU's allocator provides. If a storage is too
small, these functions replace it by a larger copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ttools.core.device_map.aliases import own_kernel, to_cuda, to_host
from ttools.core.device_map.graphs.capture import capturing

SET = "aten::set_.source_Storage_storage_offset"
set_storage = own_kernel(SET)


def resize(tensor: Any, size: list[int], memory_format: Any = None) -> Any:
    """Implement `resize_`."""
    shaped = torch.empty(
        size, device="meta", memory_format=memory_format or torch.contiguous_format
    )
    offset = tensor.storage_offset()
    return set_to(tensor, tensor.untyped_storage(), offset, list(size), shaped.stride())


def set_to(
    tensor: Any, storage: Any, offset: int, size: list[int], strides: Sequence[int] = ()
) -> Any:
    """Implement `set_` with part of a storage; if that is too small, it is enlarged by copying."""
    if len(strides) < len(size):
        strides = torch.empty(size, device="meta").stride()
    needed = 1 + sum((extent - 1) * step for extent, step in zip(size, strides, strict=True))
    needed = (offset + (needed if 0 not in size else 0)) * tensor.element_size()
    if needed > storage.nbytes():
        larger = torch.empty(needed, dtype=torch.uint8, device="cpu")
        old_part = to_host(set_storage(to_cuda(larger[:0]), storage, 0, [storage.nbytes()], [1]))
        part, capture = larger[: storage.nbytes()], capturing()
        if capture is None:
            part.copy_(old_part)
        else:
            capture.add(SET, lambda: part.copy_(old_part))
        storage = to_cuda(larger).untyped_storage()
    return set_storage(tensor, storage, offset, list(size), list(strides))
