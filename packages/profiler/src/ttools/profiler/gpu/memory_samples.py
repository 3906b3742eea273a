"""Copies of the memory that determines the work of launches, for a sample of the launches.

For example, the work of an attention kernel in a decode loop depends on a length that the kernel
loads. Launches with equal arguments then differ, and each launch can only be counted with the
contents that its memory had at that time. Copying the contents for every launch would take too long
in programs with many launches. Therefore the copies form a stratified sample: the launches are
divided into windows of equal length, and the memory of one random launch of each window is copied.
If there are too many windows, pairs of windows are joined, and one of their two copies is dropped.
If there are at most `MOST` launches, the memory of all of them is copied.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ttools.core.spec import whole_storage
from ttools.profiler.gpu.host_memory import HostBytes

#: The largest number of launches of one kind for which copies are kept.
MOST = 32
#: The limit for the total size of the copies for one launch, in bytes.
MOST_BYTES = 4 << 20
#: Storages up to this size are copied completely; of larger storages, only the tensor's span is
#: copied.
_SMALL = 1 << 20

S = TypeVar("S")


class StratifiedSample(Generic[S]):
    """Keeps one random element of each window of a sequence whose length is not known in advance.

    Attributes:
        kept: The kept elements, in the order of the sequence.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._window = 1
        self._seen = 0
        self._random = random.Random(0)
        self._chosen = 0
        self.kept: list[S] = []

    def wants(self) -> bool:
        """Return whether the next element of the sequence is to be added."""
        place = self._seen % self._window
        if place == 0:
            self._chosen = self._random.randrange(self._window)
        self._seen += 1
        return place == self._chosen

    def add(self, element: S) -> Sequence[S]:
        """Keep a chosen element; return the elements that it replaces."""
        dropped: list[S] = []
        if len(self.kept) == self._most:
            pairs = [self.kept[n : n + 2] for n in range(0, self._most, 2)]
            # The first launch is always kept, because users look at it first.
            places = [0, *(self._random.randrange(len(pair)) for pair in pairs[1:])]
            self.kept = [pair[n] for pair, n in zip(pairs, places, strict=True)]
            dropped = [
                other
                for pair, n in zip(pairs, places, strict=True)
                for other in pair
                if other is not pair[n]
            ]
            self._window *= 2
            # From now on, the window of the current element is twice as long.
            self._chosen = -1
        self.kept.append(element)
        return dropped


@dataclass(frozen=True)
class CopiedBytes:
    """A copy of a part of a storage.

    Attributes:
        begin: Byte offset of the part in the storage.
        content: The bytes, as a tensor on the device of the storage.
    """

    begin: int
    content: Any


def span_of(tensor: Any) -> tuple[int, int]:
    """Return the range of bytes in a tensor's storage that have to be copied."""
    size = int(tensor.untyped_storage().nbytes())
    if size <= _SMALL or not tensor.numel():
        return 0, size
    item, begin = tensor.element_size(), tensor.storage_offset()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((extent - 1) * stride for extent, stride in pairs)
    return begin * item, (begin + last + 1) * item


def can_copy(tensors: Sequence[Any]) -> bool:
    """Return whether all arguments are tensors, with at most `MOST_BYTES` to copy."""
    import torch

    if not all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors):
        return False
    return sum(end - begin for begin, end in map(span_of, tensors)) <= MOST_BYTES


def copied(tensors: Sequence[Any]) -> dict[int, CopiedBytes]:
    """Return copies of the contents of tensors, made after all earlier work on the stream.

    Returns:
        The copies by the addresses of the storages.
    """
    copies: dict[int, CopiedBytes] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        begin, end = span_of(tensor)
        earlier = copies.get(storage.data_ptr())
        if earlier is not None:
            begin, end = min(begin, earlier.begin), max(end, earlier.begin + len(earlier.content))
        # Contiguous bytes are copied without a kernel, which would appear in the profile.
        content = whole_storage(storage)[begin:end].clone()
        copies[storage.data_ptr()] = CopiedBytes(begin, content)
    return copies


def bytes_of(copies: Mapping[int, CopiedBytes]) -> int:
    """Return the total size of copies."""
    return sum(len(copy.content) for copy in copies.values())


def on_host(copies: Mapping[int, CopiedBytes]) -> dict[int, HostBytes]:
    """Return copies in the host's memory."""
    return {
        storage: HostBytes(begin=copy.begin, content=copy.content.cpu().numpy())
        for storage, copy in copies.items()
    }


def key_of(contents: Mapping[int, HostBytes]) -> tuple[bytes, ...]:
    """Return a key that is equal for equal contents."""
    return tuple(part.content.tobytes() for part in contents.values())
