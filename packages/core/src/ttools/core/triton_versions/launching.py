"""Parts of a launch: descriptors, metadata, the active driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.triton_versions.version import triton_version


def is_descriptor(type_name: object) -> bool:
    """Return whether a type in a signature is that of a host-side tensor descriptor."""
    return isinstance(type_name, str) and type_name.startswith("tensordesc")


def descriptor_types(type_name: str) -> list[str]:
    """Return the Triton types of the parameters that a host-side tensor descriptor expands to.

    The parameters are the base, the shape, the strides, the flags, and then shape and strides again
    for the kernel's own use. The flags are the padding and, from Triton 3.7, the rounding to TF32.
    """
    match = re.match(r"tensordesc\w*<([^[>]*)\[([^\]]*)\]", type_name)
    if match is None:
        raise TtoolsError(f"Triton passes a tensor descriptor of unknown form: {type_name}")
    explicit_rank = re.search(r",input_rank=(\d+)", type_name)
    rank = int(explicit_rank[1]) if explicit_rank else match[2].count(",") + 1
    flags = ["i1"] * (1 if triton_version() < (3, 7) else 2)
    return ["*" + match[1], *["i64"] * (2 * rank), *flags, *["i32"] * rank, *["i64"] * rank]


def descriptor_block(type_name: str) -> tuple[int, ...]:
    """Return a host-side tensor descriptor's block shape; empty if its type does not contain it."""
    match = re.match(r"tensordesc\w*<[^[>]*\[([\d, ]+)\]", type_name)
    return tuple(map(int, match[1].split(","))) if match else ()


def descriptor_values(descriptor: Any) -> list[Any]:
    """Return the arguments that a tensor descriptor expands to, see `descriptor_types`."""
    flags = [descriptor.padding == "nan"]
    if triton_version() >= (3, 7):
        flags.append(bool(getattr(descriptor, "round_f32_to_tf32", False)))
    extents: Sequence[int] = [*descriptor.shape, *descriptor.strides]
    return [descriptor.base, *extents, *flags, *extents]


def driver_config() -> Any:
    """Return the object that holds Triton's active driver and can replace it (`set_active`)."""
    from triton.runtime import driver

    return driver


def active_driver() -> Any:
    """Return Triton's active driver; None without a GPU if the driver of ttools is disabled."""
    try:
        return driver_config().active
    except RuntimeError:
        return None


def launch_metadata(values: dict[str, Any]) -> Any:
    """Return the object that launch hooks receive, from which they read values with `get()`."""
    from triton.compiler.compiler import LazyDict

    return LazyDict(values)
