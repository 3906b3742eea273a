"""Chooses the kernel of each torch operator for tensors of a mapped device.

Operators with a CPU kernel, and those that torch composes explicitly from others, are computed on
the CPU. Operators that return a view of their operand, or change its sizes, read only sizes and no
elements. For these, torch's own kernel is called with the CUDA tensors, so that storages stay
shared. Operators that torch decomposes implicitly, and those that take both a tensor and a device,
need no kernel.
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
#: c10d is included because its CUDA kernels require streams and NCCL.
_NAMESPACES = ("aten::", "c10d::")
#: Maps each CPU backend to the CUDA backend whose operators it computes.
BACKENDS = {
    "CPU": "CUDA",
    "SparseCPU": "SparseCUDA",
    "SparseCsrCPU": "SparseCsrCUDA",
    "NestedTensorCPU": "NestedTensorCUDA",
}
_TO_COPY = "aten::_to_copy"
#: Operators that only read the sizes and the buffer of a nested tensor.
_NESTED = ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets")
#: Operators besides views that only read or set the parts of a sparse tensor.
_SPARSE = (
    *("_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "_coalesced_"),
    *("_dimI", "_dimV", "_nnz", "dense_dim", "is_coalesced", "sparse_dim"),
    *("sparse_resize_", "sparse_resize_and_clear_", "copy_sparse_to_sparse_"),
    *("_indices", "_values", "indices", "values"),
    *("crow_indices", "col_indices", "ccol_indices", "row_indices"),
)


def kernels(key: str) -> Iterator[tuple[str, Kernel]]:
    """Yield the name and the kernel of every operator that needs one.

    Args:
        key: The backend that computes, one of `BACKENDS`.
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
    # Operators that a torch build for CUDA implements only for GPUs are rejected.
    theirs = {name for name in _registrations(BACKENDS[key]) if name.startswith(_NAMESPACES)}
    others = {"aten::resize_", SET, *([_TO_COPY] if key == "NestedTensorCPU" else [])}
    for name in sorted((own | composed | theirs) - instead.keys() - others):
        schema = _schema(name)
        if schema is None:
            continue
        if _looks_at_sizes(schema, key):
            if name in own:
                yield name, own_kernel(name, key)
        elif name in own or not _is_left_to_torch(schema):
            yield name, computed_on_cpu(name, key=key)


def is_computed(schema: Any) -> bool:
    """Return whether a composite operator is computed on the CPU instead of being left to torch."""
    return not (_looks_at_sizes(schema, "CPU") or _is_left_to_torch(schema))


def _is_left_to_torch(schema: Any) -> bool:
    return _converts(schema) or schema.name.removeprefix("aten::") in _CHANGES_SIZES


def _schema(name: str) -> Any:
    packet, _, overload = name.partition(".")
    try:
        return torch._C._get_schema(packet, overload)
    except RuntimeError:  # this version of torch lacks the operator
        return None


def _looks_at_sizes(schema: Any, key: str) -> bool:
    short = schema.name.partition("::")[2]
    views = any(result.alias_info and not result.alias_info.is_write for result in schema.returns)
    return views or short == "set_" or (key != "CPU" and short in (*_SPARSE, *_NESTED))


#: Operators with torch's tag `inplace_view`. They are listed here, because reading the tags would
#: create an object for every operator.
_CHANGES_SIZES = frozenset(
    ("detach_", "resize_as_", "squeeze_", "t_", "transpose_", "unsqueeze_", "as_strided_")
)


def _converts(schema: Any) -> bool:
    names = {argument.name for argument in schema.arguments}
    return "device" in names and any(
        str(argument.type) == "Tensor" for argument in schema.arguments
    )
