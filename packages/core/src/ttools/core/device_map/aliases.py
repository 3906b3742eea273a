"""Conversion between a mapped CUDA tensor and a CPU tensor with the same memory.

A tensor of a mapped device is a real CUDA tensor of torch whose data pointer refers to host memory.
CPU tensors are converted to such tensors and back through DLPack, by overwriting the device type in
the DLPack header. Nothing is copied, and both tensors keep the shared memory alive. Sparse tensors
are rebuilt from their parts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch._C import _from_dlpack, _to_dlpack

from ttools.core.device_map import hooks, memory
from ttools.core.errors import UnsupportedError

_DL_CPU, _DL_CUDA = 1, 2

#: The memory of this process in words of eight bytes. One array for all addresses is used because
#: the device field is written for every operand and result, and creating a ctypes object for each
#: address would take longer than DLPack itself.
_words = (ctypes.c_uint64 * (1 << 57)).from_address(0)
#: Index of the word in a capsule that contains its pointer; the reference count and the type
#: precede it.
_POINTER = 2
#: Index of the word in a `DLManagedTensor` that contains the device type (low half) and the device
#: number.
_DEVICE = 1

_STRIDED = torch.strided
#: Names of the index tensors of sparse layouts; the values follow them.
_PARTS = {
    torch.sparse_coo: ("_indices",),
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def own_kernel(name: str, key: str = "CPU") -> Callable[..., Any]:
    """Return torch's own kernel; a kernel that reads only sizes accepts tensors of any device."""
    call = torch.library.get_kernel(name, key).call_boxed
    return partial(call, dispatch_keys(key))


def dispatch_keys(key: str) -> Any:
    """Return the dispatch key set that contains only this key."""
    return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))


def check_capsules() -> None:
    """Check that capsules have the memory layout that this module assumes.

    Raises:
        LookupError: The layout is different.
    """
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = _to_dlpack(torch.empty(1, device="cpu"))
    managed = pointer(capsule, b"dltensor")
    if _words[(id(capsule) >> 3) + _POINTER] != managed or _words[(managed >> 3) + 1] != _DL_CPU:
        raise LookupError("capsules have a different memory layout in this version of Python")


# The kernels are called directly instead of the operators, because a script may have registered
# CUDA kernels for the operators.
_conjugated, _negated = own_kernel("aten::_conj"), own_kernel("aten::_neg_view")


def to_cuda(tensor: torch.Tensor) -> Any:
    """Return a tensor of `cuda:0` with the memory, shape and strides of a CPU tensor.

    Raises:
        UnsupportedError: The layout or type is not supported on a mapped device.
    """
    if memory.is_mapped():
        return _with_device(tensor, _DL_CUDA)
    # A tensor may be used after its device map has ended; DLPack must not initialise CUDA then.
    hooks.ask_on_next_use(False)
    try:
        return _with_device(tensor, _DL_CUDA)
    finally:
        hooks.ask_on_next_use(True)


def to_host(tensor: torch.Tensor) -> Any:
    """Return a CPU tensor with the memory, shape and strides of a mapped tensor."""
    return _with_device(tensor, _DL_CPU)


def _with_device(tensor: Any, kind: int) -> Any:
    if tensor.is_nested:
        return _nested_with_device(tensor, kind)
    if tensor.layout is not _STRIDED:
        return _sparse_with_device(tensor, kind)
    if tensor.is_conj():
        return _conjugated(_with_device(_conjugated(tensor), kind))
    if tensor.is_neg():
        return _negated(_with_device(_negated(tensor), kind))
    try:
        capsule = _to_dlpack(tensor)
    except (BufferError, RuntimeError) as error:
        raise UnsupportedError(f"{tensor.dtype} tensors on a mapped device") from error
    managed = _words[(id(capsule) >> 3) + _POINTER]
    _words[(managed >> 3) + _DEVICE] = kind
    return _from_dlpack(capsule)


def _nested_with_device(tensor: Any, kind: int) -> Any:
    """Return a nested tensor on another device with the same buffer; its sizes stay on the CPU."""
    sizes, strides, offsets = (part(tensor) for part in _nested_parts())
    return _nested_view()(_with_device(_nested_values()(tensor), kind), sizes, strides, offsets)


def copy_nested(tensor: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Implement `_to_copy` of a nested tensor to, from or on a mapped device."""
    sizes, strides, offsets = (part(tensor) for part in _nested_parts())
    buffer = _nested_values()(tensor).to(device=device, dtype=dtype, copy=True)
    return _nested_view()(buffer, sizes, strides, offsets)


@cache
def _nested_parts() -> list[Callable[..., Any]]:
    names = ("size", "strides", "storage_offsets")
    return [own_kernel(f"aten::_nested_tensor_{name}", "NestedTensorCPU") for name in names]


@cache
def _nested_values() -> Callable[..., Any]:
    return own_kernel("aten::values", "NestedTensorCPU")


@cache
def _nested_view() -> Callable[..., Any]:
    return own_kernel("aten::_nested_view_from_buffer")


def _sparse_with_device(tensor: Any, kind: int) -> Any:
    """Return a sparse tensor whose parts share memory with those of another sparse tensor."""
    names = _PARTS.get(tensor.layout)
    if names is None:
        raise UnsupportedError(f"tensors of layout {tensor.layout} on a mapped device")
    parts = [_with_device(getattr(tensor, name)(), kind) for name in names]
    if tensor.layout is not torch.sparse_coo:
        parts.append(_with_device(tensor.values(), kind))
        return torch.ops.aten._sparse_compressed_tensor_unsafe(
            *parts,
            tensor.shape,
            dtype=tensor.dtype,
            layout=tensor.layout,
            device=parts[0].device,
        )
    parts.append(_with_device(tensor._values(), kind))
    return torch.ops.aten._sparse_coo_tensor_unsafe(
        *parts, tensor.shape, dtype=tensor.dtype, is_coalesced=tensor.is_coalesced()
    )
