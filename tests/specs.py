"""Short constructors for argument specifications."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.core.spec import ArgumentSpec, TensorSpec, itemsize


def tensor_argument(
    name: str,
    dtype: str = "float32",
    shape: Sequence[int] = (),
    strides: Sequence[int] = (),
    *,
    offset: int = 0,
    storage: int = 0,
    storage_bytes: int | None = None,
) -> ArgumentSpec:
    """Describe a tensor as an argument; `offset` is in elements."""
    item = itemsize(dtype)
    tensor = TensorSpec(
        storage=storage,
        offset=offset * item,
        shape=tuple(shape),
        strides=tuple(strides),
        dtype=dtype,
        itemsize=item,
        storage_bytes=storage_bytes,
    )
    return ArgumentSpec(name=name, value=tensor)
