"""One memory, two tensors: the CPU tensor that torch computes with, the CUDA one that scripts hold.

A tensor of a mapped device is a real CUDA tensor of torch's, whose pointer is to the host's memory.
DLPack makes either of the other: what it hands over says on which device it is. Neither copies, and
each keeps the other's memory alive. Must not know what is computed.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ttools.core.errors import UnsupportedError

_DL_CPU, _DL_CUDA = 1, 2
_NAME = b"dltensor"
#: Where DLPack's `DLManagedTensor` has the kind of its device: behind the pointer to the data.
_DEVICE = ctypes.sizeof(ctypes.c_void_p)

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_kind_at = ctypes.c_int32.from_address

_installed = False
_maps = 0


def install() -> None:
    """CUDA tensors of this process are in the host's memory from now on."""
    global _installed
    _installed = True


def count_maps(change: int) -> None:
    """Says that a device map begins, 1, or ends, -1."""
    global _maps
    _maps += change


def is_mapped() -> bool:
    """Whether a device map is in place."""
    return _maps > 0


def on_host(holder: Any) -> bool:
    """Whether the memory of a tensor or storage is the host's, whatever its device."""
    kind = holder.device.type
    return kind == "cpu" or (kind == "cuda" and _installed)


def to_cuda(tensor: Any) -> Any:
    """A tensor of `cuda:0` with the memory, shape and strides of a CPU tensor.

    Raises:
        UnsupportedError: it is neither dense nor in coordinates.
    """
    return _with_device(tensor, _DL_CUDA)


def to_host(tensor: Any) -> Any:
    """A CPU tensor with the memory, shape and strides of a mapped one."""
    return _with_device(tensor, _DL_CPU)


def _with_device(tensor: Any, kind: int) -> Any:
    import torch
    from torch._C import _from_dlpack, _to_dlpack

    if tensor.layout is not torch.strided:
        return _sparse_with_device(tensor, kind)
    if tensor.is_conj():
        return _with_device(tensor.conj(), kind).conj()
    if tensor.is_neg():
        return _with_device(tensor._neg_view(), kind)._neg_view()
    capsule = _to_dlpack(tensor)
    _kind_at(_pointer(capsule, _NAME) + _DEVICE).value = kind
    return _from_dlpack(capsule)


def _sparse_with_device(tensor: Any, kind: int) -> Any:
    """A sparse tensor of which both parts share memory with those of another."""
    import torch

    if tensor.layout is not torch.sparse_coo:
        raise UnsupportedError(f"tensors of layout {tensor.layout} on a mapped device")
    parts = (_with_device(part, kind) for part in (tensor._indices(), tensor._values()))
    made = torch._sparse_coo_tensor_unsafe(*parts, tensor.shape)
    return made._coalesced_(tensor.is_coalesced())
