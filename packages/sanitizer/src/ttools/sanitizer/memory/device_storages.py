"""Memory of a GPU that torch handed out uninitialised.

It is filled on the GPU with a word of its own, as memory of the host is (`pattern.py`). A launch
that is checked works on copies on the host; while it runs, such a copy is as unwritten as the
memory that it is a copy of. Kernels and operators that run on the GPU are not followed: what they
write no longer holds the word. So only whole words that still hold it are called unwritten
(`evidence.py`), and memory that a CUDA graph allocates while it is captured is not watched.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.core.spec import storage_extent
from ttools.interpreter.run.device_copies import RawMemory
from ttools.sanitizer.memory.host_storages import weak_reference
from ttools.sanitizer.memory.host_views import start_of
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.memory.pattern import WORD, Grain, grain_of
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bytes
    from ttools.sanitizer.memory.uninitialised import UninitialisedMemory


class DeviceStorage(UnwrittenStorage):
    """A storage on a GPU; it is copied to the host whenever its memory is looked at.

    Attributes:
        device: Where it is, as `cuda:0`.
    """

    __slots__ = ("device",)

    is_on_host = False

    def __init__(
        self, reference: Any, start: int, nbytes: int, pattern: bytes, grain: Grain, device: str
    ) -> None:
        super().__init__(reference, start, nbytes, 0, pattern, grain)
        self.device = device

    def held_bytes(self, first: int, end: int) -> Bytes:
        """Return what a range holds now; zeros if the GPU cannot be asked any more."""
        import torch

        try:
            torch.cuda.synchronize(self.device)
            raw = torch.as_tensor(RawMemory(self.start + first, end - first), device=self.device)
            return np.asarray(raw.cpu().numpy(), np.uint8)
        except RuntimeError:
            return np.zeros(end - first, np.uint8)


def fill_on_device(memory: UninitialisedMemory, tensor: Any) -> None:
    """Fill the new storage of a tensor on a GPU, and watch it."""
    import torch

    storage = tensor.untyped_storage()
    nbytes = int(storage.nbytes())
    if nbytes < WORD or torch.cuda.is_current_stream_capturing():
        return
    pattern = memory.new_pattern(tensor)
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        fill_bytes(whole, pattern)
    reference, device = weak_reference()(storage), str(tensor.device)
    start = int(storage.data_ptr())
    memory.put(DeviceStorage(reference, start, nbytes, pattern, grain_of(tensor), device))


def fill_bytes(whole: Any, pattern: bytes) -> None:
    """Fill a tensor of bytes with a word over and over; the last one may be cut off."""
    import torch

    words = len(whole) // WORD * WORD
    value = int.from_bytes(pattern, sys.byteorder, signed=True)
    whole[:words].view(torch.int64).fill_(value)
    for n in range(len(whole) - words):
        whole[words + n].fill_(pattern[n])


class _Lent:
    """Stands for the reference to a storage that lives as long as a launch."""

    def expired(self) -> bool:
        return False


@contextmanager
def lent_to_host(
    memory: UninitialisedMemory, arguments: Sequence[Any], values: Sequence[Any]
) -> Iterator[None]:
    """Let the host copies of a launch be as unwritten as the memory that they are copies of.

    Args:
        memory: What knows of unwritten memory.
        arguments: Of the launch, as the program passed them.
        values: The same, with host copies in the place of memory of a GPU.
    """
    lent: list[tuple[DeviceStorage, UnwrittenStorage]] = []
    for argument, value in zip(arguments, values, strict=True):
        tensor = next(iter(tensors_among([argument])), None)
        start = None if argument is value or tensor is None else start_of(tensor)
        own = None if start is None else memory.find(start)
        extent = storage_extent(value) if isinstance(own, DeviceStorage) else None
        if not isinstance(own, DeviceStorage) or extent is None or not own.may_be_unwritten:
            continue
        if extent[1] - extent[0] != own.nbytes or any(own is each for each, _ in lent):
            continue
        copy = UnwrittenStorage(_Lent(), extent[0], own.nbytes, 0, own.pattern, own.grain)
        copy.take_over(own)
        memory.put(copy)
        lent.append((own, copy))
    try:
        yield
    finally:
        for own, copy in lent:
            own.take_over(copy)
            memory.take_away(copy.start)
