"""Memory of a GPU that torch allocated uninitialised.

Like memory of the host, each storage is filled with a word of its own (`pattern.py`); this is done
on the GPU. A checked launch works on copies on the host. While it runs, the same bytes count as
unwritten in such a copy as in the original. Kernels and operators that run on the GPU are not
observed, but memory that they write no longer contains the word. Therefore, only whole words that
are unchanged count as unwritten (`evidence.py`). Memory that is allocated while a CUDA graph is
captured is not watched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.core.spec import whole_storage
from ttools.interpreter.run.device_copies import RawMemory
from ttools.sanitizer.memory.host_storages import weak_reference
from ttools.sanitizer.memory.pattern import WORD, Grain, grain_of
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bytes


class DeviceStorage(UnwrittenStorage):
    """A storage on a GPU; its memory is copied to the host whenever it is examined.

    Attributes:
        device: The device's name, such as `cuda:0`.
    """

    __slots__ = ("device",)

    is_on_host = False

    def __init__(
        self, reference: Any, start: int, nbytes: int, pattern: bytes, grain: Grain, device: str
    ) -> None:
        super().__init__(reference, start, nbytes, 0, pattern, grain)
        self.device = device

    def current_bytes(self, first: int, end: int) -> Bytes:
        """Return the current content of a range; zeros if the GPU no longer responds."""
        import torch

        try:
            torch.cuda.synchronize(self.device)
            raw = torch.as_tensor(RawMemory(self.start + first, end - first), device=self.device)
            return np.asarray(raw.cpu().numpy(), np.uint8)
        except RuntimeError:
            return np.zeros(end - first, np.uint8)


def filled_on_device(tensor: Any, new_pattern: Callable[[Any], bytes]) -> DeviceStorage | None:
    """Fill a GPU tensor's new storage and return its record; None if it cannot be watched.

    Args:
        tensor: The only tensor of the storage.
        new_pattern: Returns the word to fill the memory of a tensor with.
    """
    import torch

    storage = tensor.untyped_storage()
    nbytes = int(storage.nbytes())
    if nbytes < WORD or torch.cuda.is_current_stream_capturing():
        return None
    pattern = new_pattern(tensor)
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        fill_bytes(whole_storage(storage), pattern)
    reference, device = weak_reference()(storage), str(tensor.device)
    start = int(storage.data_ptr())
    return DeviceStorage(reference, start, nbytes, pattern, grain_of(tensor), device)


def fill_bytes(whole: Any, pattern: bytes) -> None:
    """Fill a tensor of bytes by repeating a word; the last repetition may be cut off."""
    import torch

    words = len(whole) // WORD * WORD
    value = int.from_bytes(pattern, sys.byteorder, signed=True)
    whole[:words].view(torch.int64).fill_(value)
    for n in range(len(whole) - words):
        whole[words + n].fill_(pattern[n])
