"""Copies of the memory that decides what launches do, of a sample of the launches.

What an attention kernel does in a decode loop follows from the length that it loads. Equal launches
then do different things, and a launch can only be counted with what its memory held when it was
made. Copying that for every launch would take too long in programs that launch much, so a
stratified sample is taken: launches are divided into windows of equal length, one launch of each
window is copied, at random, and when there are too many windows, pairs of them are joined and one
of their two copies is dropped. Up to `MOST` launches, all are copied.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ttools.profiler.gpu.stand_ins import HostBytes

#: Copies that are kept of the launches of one kind.
MOST = 32
#: Bytes of memory that may be copied for a launch.
MOST_BYTES = 4 << 20
#: A storage up to this size is copied as a whole, of a larger one what the tensor spans.
_SMALL = 1 << 20

S = TypeVar("S")


class StratifiedSample(Generic[S]):
    """Keeps one of each window of a sequence whose length is not known.

    Attributes:
        kept: What is kept, in the order of the sequence.
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
        """Keep an element that was wanted; return those that are dropped for it."""
        dropped: list[S] = []
        if len(self.kept) == self._most:
            pairs = [self.kept[n : n + 2] for n in range(0, self._most, 2)]
            # The first launch is always kept: it is the one that people look at.
            places = [0, *(self._random.randrange(len(pair)) for pair in pairs[1:])]
            self.kept = [pair[n] for pair, n in zip(pairs, places, strict=True)]
            dropped = [
                each
                for pair, n in zip(pairs, places, strict=True)
                for each in pair
                if each is not pair[n]
            ]
            self._window *= 2
            # The present element is of a window that is twice as long from now on.
            self._chosen = -1
        self.kept.append(element)
        return dropped


@dataclass(frozen=True)
class CopiedBytes:
    """A copy of a part of a storage.

    Attributes:
        begin: Where it begins in the storage.
        content: The bytes, as a tensor where the storage is.
    """

    begin: int
    content: Any


def span_of(tensor: Any) -> tuple[int, int]:
    """Return where the bytes begin and end in a tensor's storage that are to be copied."""
    size = int(tensor.untyped_storage().nbytes())
    if size <= _SMALL or not tensor.numel():
        return 0, size
    item, begin = tensor.element_size(), tensor.storage_offset()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((extent - 1) * stride for extent, stride in pairs)
    return begin * item, (begin + last + 1) * item


def can_copy(tensors: Sequence[Any]) -> bool:
    """Return whether all of these are tensors, and few enough bytes to be copied."""
    import torch

    if not all(type(each) in (torch.Tensor, torch.nn.Parameter) for each in tensors):
        return False
    return sum(end - begin for begin, end in map(span_of, tensors)) <= MOST_BYTES


def copied(tensors: Sequence[Any]) -> dict[int, CopiedBytes]:
    """Return copies of what tensors hold once the work before on the stream is done.

    Returns:
        The copies by the addresses of the storages.
    """
    import torch

    found: dict[int, CopiedBytes] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        begin, end = span_of(tensor)
        known = found.get(storage.data_ptr())
        if known is not None:
            begin, end = min(begin, known.begin), max(end, known.begin + len(known.content))
        # Bytes in one piece are copied without a kernel, which would be in the profile.
        everything = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        everything.set_(storage)
        found[storage.data_ptr()] = CopiedBytes(begin, everything[begin:end].clone())
    return found


def bytes_of(copies: Mapping[int, CopiedBytes]) -> int:
    """Return how many bytes were copied."""
    return sum(len(each.content) for each in copies.values())


def on_host(copies: Mapping[int, CopiedBytes]) -> dict[int, HostBytes]:
    """Return the same contents in the host's memory."""
    return {
        storage: HostBytes(begin=each.begin, content=each.content.cpu().numpy())
        for storage, each in copies.items()
    }


def key_of(contents: Mapping[int, HostBytes]) -> tuple[bytes, ...]:
    """Return a key that is equal for equal contents."""
    return tuple(each.content.tobytes() for each in contents.values())
