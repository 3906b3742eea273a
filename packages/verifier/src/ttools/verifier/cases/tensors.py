"""Converts tensors to images of their storages and back, and changes their memory layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ttools.core import spec as core
from ttools.core.process.channel import DataCodec
from ttools.core.spec import TensorSpec, view_spec

#: Bytes that fill the gaps between the elements of a view. They are NaN in every float type, are
#: out of bounds of every tensor if they are used as an index, and differ from the bytes of
#: unwritten memory.
_GAP = b"\xfb\xff"


@dataclass(frozen=True)
class TensorImage:
    """A tensor with its contents.

    Attributes:
        spec: The tensor as a view of its storage.
        data: Bytes of the storage.
        requires_grad: If True, gradients are computed.
    """

    spec: TensorSpec
    data: bytes
    requires_grad: bool = False

    @property
    def dtype(self) -> str:
        return self.spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape


class _Codec(DataCodec):
    """A codec that replaces control characters in texts.

    Such characters could rewrite a report on a terminal.
    """

    def decode(self, data: bytes) -> Any:
        return map_tensors(_printable, super().decode(data), str)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


#: The encoding of messages between the processes of a verification. A candidate is not trusted, so
#: its process must not be able to send arbitrary objects, as pickle would allow.
CODEC = _Codec(TensorImage)


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type, such as `float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """Return the type of a name, such as `torch.float32` for `float32`."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"`{name}` is not a dtype")
    return dtype


def _compact(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor with the strides that a new tensor has.

    `Tensor.contiguous` may keep unusual strides of axes that have one element.
    """
    return tensor.clone(memory_format=torch.contiguous_format)


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the elements, in order."""
    plain = _compact(tensor.detach())
    if not plain.numel():
        return b""
    return plain.reshape(-1).view(torch.uint8).cpu().numpy().tobytes()


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the whole storage."""
    return whole_storage(tensor).cpu().numpy().tobytes()


def whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Return the storage of a tensor as a tensor of bytes."""
    whole: torch.Tensor = core.whole_storage(tensor.untyped_storage())
    return whole


def image_of(tensor: torch.Tensor) -> TensorImage:
    """Return a contiguous image of the elements of a tensor."""
    plain = tensor.detach()
    if plain.is_quantized or plain.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {plain.layout} cannot be compared")
    plain = _compact(plain.cpu().resolve_conj().resolve_neg())
    return TensorImage(view_spec(plain), raw_bytes(plain), tensor.requires_grad)


def tensor_of(image: TensorImage) -> torch.Tensor:
    """Return a new tensor of an image, with its own storage."""
    whole = torch.zeros(len(image.data), dtype=torch.uint8, device="cpu")
    if image.data:
        whole.numpy()[:] = memoryview(image.data)
    tensor: torch.Tensor = core.tensor_on(whole.untyped_storage(), image.spec)
    return tensor.requires_grad_() if image.requires_grad else tensor


def put_values(tensor: torch.Tensor, image: TensorImage, *, is_new: bool = False) -> None:
    """Write an image of the same layout into a tensor's storage, unless its bytes are the same.

    Args:
        tensor: Tensor to write to.
        image: Image with the new bytes.
        is_new: If True, the tensor has not been used yet, so its version is not incremented.
    """
    if image.data and (is_new or storage_bytes(tensor) != image.data):
        # Use a torch operator here: like any in-place operator, it increments the tensor's version
        # counter.
        if not is_new:
            tensor.detach().zero_()
        source = torch.frombuffer(bytearray(image.data), dtype=torch.uint8)
        whole_storage(tensor).copy_(source)


def is_constant(tensor: torch.Tensor) -> bool:
    """Return whether all elements of a tensor are equal; NaN counts as equal to NaN."""
    values = tensor.reshape(-1)
    if values.numel() < 2:
        return True
    same = values == values[0]
    if values.is_floating_point() or values.is_complex():
        same |= values.isnan() & values[0].isnan()
    return bool(same.all())


def elements(image: TensorImage, data: bytes | None = None) -> torch.Tensor:
    """Return the elements of an image as a contiguous tensor.

    Args:
        image: Image of a tensor.
        data: Bytes to use in place of the image's storage.
    """
    return _compact(tensor_of(TensorImage(image.spec, image.data if data is None else data)))


def map_tensors(function: Callable[[Any], Any], value: Any, kind: type | tuple[type, ...]) -> Any:
    """Apply a function to each instance of a type inside lists, tuples and dictionaries."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(function, item, kind) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        mapped = [map_tensors(function, item, kind) for item in value]
        return tuple(mapped) if isinstance(value, tuple) else mapped
    return value


# ---- views
def gaps_of(nbytes: int) -> torch.Tensor:
    """Return a tensor of `nbytes` bytes that contains the pattern of gaps."""
    pattern = bytearray(_GAP * (nbytes // 2 + 1))
    return torch.frombuffer(pattern, dtype=torch.uint8)[:nbytes]


def laid_out(tensor: torch.Tensor, view: str) -> TensorImage:
    """Return an image of a tensor in a given memory layout; gaps contain the gap pattern.

    Args:
        tensor: Contiguous tensor with the values.
        view: Layout, one of `VIEWS`. A layout that is impossible for the tensor's shape has no
            effect.
    """
    shape, item = tuple(tensor.shape), tensor.element_size()
    if view == "expanded":
        return _expanded(tensor)
    order = list(range(tensor.dim()))
    step, lead, pad = 1, 0, 0
    if view == "transposed":
        order = order[:-2] + order[-2:][::-1]
    elif view == "reversed":
        order = order[::-1]
    elif view == "channels_last" and tensor.dim() >= 4:
        order = [0, *order[2:], 1]
    elif view == "every_other":
        step = 2
    elif view == "padded_rows":
        pad = 3
    elif view == "offset":
        lead = 5
    strides = [0] * tensor.dim()
    stride = step
    for position, dim in enumerate(reversed(order)):
        strides[dim] = stride
        stride *= max(shape[dim], 1)
        if position == 0:
            stride += pad
    extent = lead + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if not tensor.numel():
        extent = lead
    elif view == "every_other":
        extent += 1
    whole = gaps_of(extent * item)
    image = torch.empty(0, dtype=tensor.dtype, device="cpu")
    image.set_(whole.clone().untyped_storage(), lead, shape, tuple(strides))
    if tensor.numel():
        image.copy_(tensor.detach())
    return TensorImage(view_spec(image), storage_bytes(image), tensor.requires_grad)


def _expanded(tensor: torch.Tensor) -> TensorImage:
    """Repeat the first slice along the first axis that is longer than one, with a stride of 0."""
    axis = next((d for d, n in enumerate(tensor.shape) if n > 1), None)
    if axis is None or not tensor.numel():
        return laid_out(tensor, "contiguous")
    one = _compact(tensor.detach().narrow(axis, 0, 1))
    return TensorImage(view_spec(one.expand(tensor.shape)), raw_bytes(one), tensor.requires_grad)


#: Descriptions of the memory layouts, which complete a sentence that begins with "x is".
VIEW_TEXTS = {
    "transposed": "a transposed view (the last two axes are swapped in memory)",
    "every_other": "a view of every other element of its memory, as y[..., ::2]",
    "padded_rows": "a view whose rows are 3 elements apart in memory, as y[:, :-3]",
    "offset": "a view that begins at element 5 of its memory, as y[5:]",
    "reversed": "a view with all axes in reverse order in memory",
    "channels_last": "in channels-last format, if it has four axes or more",
    "expanded": "expanded along its first axis, with a stride of 0",
}
VIEWS = tuple(VIEW_TEXTS)
