"""What a launch passes on: descriptors, metadata, the active driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.triton_versions.version import triton_version


def is_descriptor(type_name: object) -> bool:
    """Whether a type in a signature is that of a host-side tensor descriptor."""
    return isinstance(type_name, str) and type_name.startswith("tensordesc")


def descriptor_types(type_name: str) -> list[str]:
    """The Triton types of the parameters that a host-side tensor descriptor becomes.

    Base, shape, strides, flags, then shape and strides once more for the kernel's own use. The
    flags are the padding and, from 3.7, the rounding to TF32.
    """
    match = re.match(r"tensordesc\w*<([^[>]*)\[([^\]]*)\]", type_name)
    if match is None:
        raise TtoolsError(f"Triton passes a tensor descriptor of unknown form: {type_name}")
    given_rank = re.search(r",input_rank=(\d+)", type_name)
    rank = int(given_rank[1]) if given_rank else match[2].count(",") + 1
    flags = ["i1"] * (1 if triton_version() < (3, 7) else 2)
    return ["*" + match[1], *["i64"] * (2 * rank), *flags, *["i32"] * rank, *["i64"] * rank]


def descriptor_block(type_name: str) -> tuple[int, ...]:
    """The shape of a block of a host-side tensor descriptor; empty if its type does not say."""
    match = re.match(r"tensordesc\w*<[^[>]*\[([\d, ]+)\]", type_name)
    return tuple(map(int, match[1].split(","))) if match else ()


def descriptor_values(descriptor: Any) -> list[Any]:
    """The arguments that a host-side tensor descriptor becomes, as `descriptor_types` lists."""
    flags = [descriptor.padding == "nan"]
    if triton_version() >= (3, 7):
        flags.append(bool(getattr(descriptor, "round_f32_to_tf32", False)))
    extents: Sequence[int] = [*descriptor.shape, *descriptor.strides]
    return [descriptor.base, *extents, *flags, *extents]


def driver_config() -> Any:
    """What holds Triton's active driver and takes another (`set_active`)."""
    from triton.runtime import driver

    return driver


def active_driver() -> Any:
    """Triton's active driver; None if there is none (no GPU, and ours switched off)."""
    try:
        return driver_config().active
    except RuntimeError:
        return None


def launch_metadata(values: dict[str, Any]) -> Any:
    """What a launch hook is given: values that it asks for with `get()`."""
    from triton.compiler.compiler import LazyDict

    return LazyDict(values)
