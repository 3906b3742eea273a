"""Messages between the processes of a verification: JSON and raw bytes, nothing that runs code.

A candidate is not trusted, so its process must not be able to hand objects to the one that
compares, as pickles would. Owns the framing and the encoding of arguments and results. Must not
know what the messages mean.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from dataclasses import dataclass
from typing import Any

from ttools.core.errors import TtoolsError

_HEAD = struct.Struct("<QQ")
#: A message may be no longer: what claims to be is no message of ours.
_LONGEST = 1 << 32


class WorkerGoneError(TtoolsError):
    """The process at the other end has died."""


class WorkerSlowError(TtoolsError):
    """The process at the other end did not answer in time."""


@dataclass(frozen=True)
class TensorImage:
    """A tensor as bytes: its whole storage, and which elements of it the tensor has.

    Attributes:
        dtype: as torch names it, without the module.
        strides: in elements.
        offset: of the first element, in elements.
        data: the bytes of the storage.
        requires_grad: whether gradients are wanted.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    data: bytes
    requires_grad: bool = False


def encode(value: Any, blobs: list[bytes]) -> Any:
    """A value as JSON has it; the bytes of tensors are appended to `blobs`."""
    if isinstance(value, TensorImage):
        blobs.append(value.data)
        head = [value.dtype, list(value.shape), list(value.strides), value.offset]
        return {"tensor": [*head, len(blobs) - 1, value.requires_grad]}
    if isinstance(value, bytes):
        blobs.append(value)
        return {"bytes": len(blobs) - 1}
    if isinstance(value, dict):
        return {"dict": [[key, encode(each, blobs)] for key, each in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [encode(each, blobs) for each in value]}
    if isinstance(value, list):
        return [encode(each, blobs) for each in value]
    if isinstance(value, float):
        return {"float": value.hex()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"{type(value).__name__} cannot be sent to another process")


def decode(value: Any, blobs: list[bytes]) -> Any:
    """What `encode` was given."""
    if isinstance(value, list):
        return [decode(each, blobs) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        dtype, shape, strides, offset, index, grad = held
        return TensorImage(dtype, tuple(shape), tuple(strides), offset, blobs[index], grad)
    if kind == "bytes":
        return blobs[held]
    if kind == "dict":
        return {key: decode(each, blobs) for key, each in held}
    if kind == "tuple":
        return tuple(decode(each, blobs) for each in held)
    return float.fromhex(held)


class Channel:
    """One end of a pair of pipes.

    Args:
        reads: the file descriptor to read from.
        writes: the one to write to.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self.reads, self.writes = reads, writes

    def send(self, message: Any) -> None:
        """Sends a message.

        Raises:
            WorkerGoneError: nobody reads it.
        """
        blobs: list[bytes] = []
        text = json.dumps({"message": encode(message, blobs)}).encode()
        sizes = struct.pack(f"<{len(blobs)}Q", *map(len, blobs))
        body = b"".join([_HEAD.pack(len(text), len(blobs)), sizes, text, *blobs])
        view = memoryview(body)
        try:
            while view:
                view = view[os.write(self.writes, view[: 1 << 20]) :]
        except (BrokenPipeError, OSError) as error:
            raise WorkerGoneError("the process has ended") from error

    def receive(self, seconds: float | None = None) -> Any:
        """The next message.

        Args:
            seconds: how long to wait for it; for ever by default.

        Raises:
            WorkerGoneError: the other end was closed.
            WorkerSlowError: it took longer.
        """
        until = None if seconds is None else time.monotonic() + seconds
        length, count = _HEAD.unpack(self._exactly(_HEAD.size, until))
        if length > _LONGEST or count > _LONGEST:
            raise WorkerGoneError("the process has sent something else than a message")
        sizes = struct.unpack(f"<{count}Q", self._exactly(8 * count, until))
        if sum(sizes) > _LONGEST:
            raise WorkerGoneError("the process has sent something else than a message")
        text = self._exactly(length, until)
        blobs = [self._exactly(size, until) for size in sizes]
        try:
            return decode(json.loads(text)["message"], blobs)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise WorkerGoneError("the process has sent something else than a message") from error

    def _exactly(self, size: int, until: float | None) -> bytes:
        parts, missing = [], size
        while missing:
            if until is not None:
                left = until - time.monotonic()
                if left <= 0 or not select.select([self.reads], [], [], left)[0]:
                    raise WorkerSlowError("the process did not answer in time")
            part = os.read(self.reads, min(missing, 1 << 20))
            if not part:
                raise WorkerGoneError("the process has ended")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        os.close(self.reads)
        os.close(self.writes)
