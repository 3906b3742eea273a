"""Which kernel each of torch's operators gets for tensors of a mapped device.

Operators that the CPU has a kernel for, and those that torch makes of others explicitly, compute on
the CPU. Operators that return another view of their operand, or change its sizes, only look at
sizes, so that torch's own kernel serves, which leaves storages shared; those that are made of
others need none. Operators that take a tensor and a device, which need not be the tensor's, are
left to torch, as are all those that it decomposes. Must not know what a kernel does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ttools.core.device_map.aliases import copy_nested, own_kernel
from ttools.core.device_map.operators import numerics
from ttools.core.device_map.operators.kernels import Kernel
from ttools.core.device_map.operators.recorded import computed_on_cpu
from ttools.core.device_map.operators.sizes import SET, resize, set_to

_registrations = torch._C._dispatch_get_registrations_for_dispatch_key
#: Operators of the process groups have kernels for CUDA, which want streams and NCCL.
_NAMESPACES = ("aten::", "c10d::")
#: The backends that kernels are registered for, by those that compute.
BACKENDS = {
    "CPU": "CUDA",
    "SparseCPU": "SparseCUDA",
    "SparseCsrCPU": "SparseCsrCUDA",
    "NestedTensorCPU": "NestedTensorCUDA",
}
_TO_COPY = "aten::_to_copy"
#: What looks at a nested tensor's sizes and buffer only.
_NESTED = ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets")
#: Besides views, these look at a sparse tensor's parts only, or are given them.
_SPARSE = (
    *("_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "_coalesced_"),
    *("_dimI", "_dimV", "_nnz", "dense_dim", "is_coalesced", "sparse_dim"),
    *("sparse_resize_", "sparse_resize_and_clear_", "copy_sparse_to_sparse_"),
    *("_indices", "_values", "indices", "values"),
    *("crow_indices", "col_indices", "ccol_indices", "row_indices"),
)


def kernels(key: str) -> Iterator[tuple[str, Kernel]]:
    """The kernel of every operator that needs one of its own, by its name.

    Args:
        key: the backend that computes, one of `BACKENDS`.
    """
    own = {name for name in _registrations(key) if name.startswith(_NAMESPACES)}
    composed: set[str] = set()
    if key == "NestedTensorCPU":
        yield _TO_COPY, copy_nested
    instead = {f"aten::{short}": function for short, function in numerics.replacements()}
    if key == "CPU":
        composed.update(
            name
            for name in _registrations("CompositeExplicitAutograd")
            if name.startswith("aten::")
        )
        yield "aten::resize_", resize
        yield SET, set_to
    for name, function in instead.items():
        if _schema(name) is not None and (key == "CPU" or name in own):
            yield name, computed_on_cpu(name, key=key, function=function)
    # Those that a torch for CUDA has for GPUs only, which are refused.
    theirs = {name for name in _registrations(BACKENDS[key]) if name.startswith(_NAMESPACES)}
    others = {"aten::resize_", SET, *([_TO_COPY] if key == "NestedTensorCPU" else [])}
    for name in sorted((own | composed | theirs) - instead.keys() - others):
        schema = _schema(name)
        if schema is None:
            continue
        if _looks_at_sizes(schema, key):
            if name in own:
                yield name, own_kernel(name, key)
        elif name in own or not _is_torch_s(schema):
            yield name, computed_on_cpu(name, key=key)


def is_computed(schema: Any) -> bool:
    """Whether an operator that torch makes of others is computed on the CPU, or left to torch."""
    return not (_looks_at_sizes(schema, "CPU") or _is_torch_s(schema))


def _is_torch_s(schema: Any) -> bool:
    return _converts(schema) or schema.name.removeprefix("aten::") in _CHANGES_SIZES


def _schema(name: str) -> Any:
    packet, _, overload = name.partition(".")
    try:
        return torch._C._get_schema(packet, overload)
    except RuntimeError:  # an operator that this torch has not
        return None


def _looks_at_sizes(schema: Any, key: str) -> bool:
    short = schema.name.partition("::")[2]
    views = any(each.alias_info and not each.alias_info.is_write for each in schema.returns)
    return views or short == "set_" or (key != "CPU" and short in (*_SPARSE, *_NESTED))


#: Those with torch's tag `inplace_view`, which takes an object for each operator to read.
_CHANGES_SIZES = frozenset(
    ("detach_", "resize_as_", "squeeze_", "t_", "transpose_", "unsqueeze_", "as_strided_")
)


def _converts(schema: Any) -> bool:
    names = {argument.name for argument in schema.arguments}
    return "device" in names and any(str(each.type) == "Tensor" for each in schema.arguments)
