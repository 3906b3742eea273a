"""What is wrong of a tensor descriptor that was made on the host, by the rules of CUDA.

They are those of `cuTensorMapEncodeTiled`. Triton looks at some of them when a descriptor is made,
its older versions at none, and nobody where the program changes one afterwards, as the functions
do that an autotuner calls before each configuration. Must not know launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ttools.core.gpus.launch_rules import (
    DESCRIPTOR_ALIGNMENT,
    DESCRIPTOR_DIMENSIONS,
    DESCRIPTOR_EXTENT,
    DESCRIPTOR_STRIDES_END,
    RULES,
)


@dataclass(frozen=True, kw_only=True)
class HostDescriptor:
    """A descriptor as a kernel is given it.

    Attributes:
        address: of its first element.
        item: bytes of an element.
        shape: elements along each dimension.
        strides: distances of neighbours, in elements.
        block: elements of a block along each dimension.
    """

    address: int
    item: int
    shape: Sequence[int]
    strides: Sequence[int]
    block: Sequence[int]


def end_of_rows(descriptor: HostDescriptor) -> str:
    """Return where stores through a descriptor end if its rows end within 16 bytes.

    Returns:
        Empty if they do not.
    """
    width = descriptor.shape[-1] * descriptor.item
    strides = [stride * descriptor.item for stride in descriptor.strides[-2:-1]]
    if width % DESCRIPTOR_ALIGNMENT == 0 or any(each % DESCRIPTOR_ALIGNMENT for each in strides):
        return ""  # a stride that is no multiple is reported, and leads to this
    end = width + -width % DESCRIPTOR_ALIGNMENT
    return f"the last extent is {width:,} bytes: stores may go on to byte {end:,}"


def defects(descriptor: HostDescriptor) -> Iterator[tuple[str, str, str, str]]:
    """What is wrong: the kind of the finding, its message, a note with numbers, help."""
    item = descriptor.item
    if descriptor.address % DESCRIPTOR_ALIGNMENT:
        note = f"address {descriptor.address:#x} is not a multiple of 16"
        message = "the base of a tensor descriptor is no multiple of 16 bytes"
        yield "misaligned", message, note, RULES["descriptor_base"].help
    help_shape = RULES["descriptor_shape"].help
    if len(descriptor.shape) > DESCRIPTOR_DIMENSIONS:
        note = f"it has {len(descriptor.shape)}"
        message = f"a tensor descriptor has more than {DESCRIPTOR_DIMENSIONS} dimensions"
        yield "bad_descriptor", message, note, help_shape
    for n, stride in enumerate(descriptor.strides[:-1]):
        distance = stride * item
        note = f"a stride of {stride} elements of {item} bytes is {distance} bytes"
        if distance % DESCRIPTOR_ALIGNMENT:
            message = f"a stride of a tensor descriptor is no multiple of 16 bytes (dimension {n})"
            yield "misaligned", message, note, RULES["descriptor_stride"].help
        if not 0 <= distance < DESCRIPTOR_STRIDES_END:
            message = f"a stride of a tensor descriptor is negative or too large (dimension {n})"
            yield "bad_descriptor", message, note, help_shape
    if descriptor.strides[-1] != 1:
        message = "the last dimension of a tensor descriptor is not contiguous"
        note = f"its stride is {descriptor.strides[-1]}"
        yield "bad_descriptor", message, note, RULES["descriptor_last_stride"].help
    for n, extent in enumerate(descriptor.shape):
        if not 0 < extent <= DESCRIPTOR_EXTENT:
            message = f"a tensor descriptor has an extent that it cannot have (dimension {n})"
            yield "bad_descriptor", message, f"the extent is {extent}", help_shape
    if descriptor.block and descriptor.block[-1] * item % DESCRIPTOR_ALIGNMENT:
        note = f"{descriptor.block[-1]} elements of {item} bytes"
        message = "a row of a tensor descriptor's block is no multiple of 16 bytes"
        yield "bad_descriptor", message, note, RULES["descriptor_block"].help
