"""Host memory that stands for a GPU's where only its address and size matter, not what is in it.

Tensors are described when a launch is made and made anew when it is counted, so that nothing is
copied and nothing kept alive. Tensors that share memory do so again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ttools.core.spec import TensorSpec, memory_spec
from ttools.profiler.gpu.memory_samples import CopiedBytes


def described(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return arguments with a `TensorSpec` for each tensor; None if something else has memory."""
    import torch

    found = {}
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            found[name] = memory_spec(value)
        elif hasattr(value, "data_ptr"):
            return None
        else:
            found[name] = value
    return found


def made(
    forms: Mapping[str, Any], contents: Mapping[int, CopiedBytes] = MappingProxyType({})
) -> dict[str, Any]:
    """Return arguments with tensors in the place of forms; their pages are touched by nobody yet.

    Args:
        forms: See `described`.
        contents: What storages hold, by their addresses on the GPU; 0 where nothing is known.

    Raises:
        RuntimeError: the host has no room for them.
    """
    import torch

    storages: dict[int, Any] = {}
    found = {}
    for name, form in forms.items():
        if not isinstance(form, TensorSpec):
            found[name] = form
            continue
        storage = storages.get(form.storage)
        if storage is None:
            known = contents.get(form.storage)
            make = torch.empty if known is None else torch.zeros
            room = make(form.storage_bytes or 0, dtype=torch.uint8, device="cpu")
            if known is not None:
                room[known.begin : known.begin + len(known.content)].copy_(known.content)
            storage = storages[form.storage] = room.untyped_storage()
        empty = torch.empty(0, dtype=getattr(torch, form.dtype), device="cpu")
        found[name] = empty.set_(storage, form.element_offset, form.shape, form.strides)
    return found
