"""Host memory that stands for a GPU's where only its address and size matter, not what is in it.

Tensors are described when a launch is made and made anew when it is counted, so that nothing is
copied and nothing kept alive. Tensors that share memory do so again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ttools.profiler.gpu.memory_samples import CopiedBytes


@dataclass(frozen=True, kw_only=True)
class TensorForm:
    """What a tensor looks like.

    Attributes:
        dtype: torch's.
        strides: in elements.
        offset: of its first element in the storage.
        storage: the storage's address on the GPU.
        bytes: of the storage.
    """

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    bytes: int


def described(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments with forms in the place of tensors; None where something else has memory."""
    import torch

    found = {}
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            found[name] = TensorForm(
                dtype=value.dtype,
                shape=tuple(value.shape),
                strides=tuple(value.stride()),
                offset=int(value.storage_offset()),
                storage=storage.data_ptr(),
                bytes=storage.nbytes(),
            )
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
        if not isinstance(form, TensorForm):
            found[name] = form
            continue
        storage = storages.get(form.storage)
        if storage is None:
            known = contents.get(form.storage)
            make = torch.empty if known is None else torch.zeros
            room = make(form.bytes, dtype=torch.uint8, device="cpu")
            if known is not None:
                room[known.begin : known.begin + len(known.content)].copy_(known.content)
            storage = storages[form.storage] = room.untyped_storage()
        empty = torch.empty(0, dtype=form.dtype, device="cpu")
        found[name] = empty.set_(storage, form.offset, form.shape, form.strides)
    return found
