"""Messages between two processes over a socket: framing, deadlines and encoding.

A frame is the length of a message in 8 bytes, little endian, and the message. There are two
encodings. `DataCodec` writes MessagePack: plain data and the dataclasses that both ends name, which
are checked when they are read. Nothing in such a message is code, so its sender need not be
trusted. `PickleCodec` writes any object that pickle can, and is for processes that run our own
code.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import struct
import time
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any, Literal, Protocol

import msgspec

from ttools.core.errors import TtoolsError

_HEAD = struct.Struct("<Q")
#: A frame may be no longer: what claims to be is no message.
_LONGEST = 1 << 32
_PART = 1 << 20
#: Codes of MessagePack extensions; those of dataclasses follow.
_TUPLE, _INTEGER, _FIRST_CLASS = 1, 2, 16
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1


class WorkerEndedError(TtoolsError):
    """A process gave no answer; the message says why."""

    @property
    def how(self) -> Literal["crashed", "killed", "timed_out"]:
        """How the process ended: by itself, by somebody's SIGKILL, or when its time was over."""
        raise NotImplementedError


class WorkerGoneError(WorkerEndedError):
    """The process at the other end has ended, or sends what is no message.

    Attributes:
        code: The exit status of the process, or the negative number of the signal that ended it;
            None if that is not known.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.code)

    @property
    def how(self) -> Literal["crashed", "killed", "timed_out"]:
        """How the process ended: by itself or by somebody's SIGKILL."""
        return "killed" if self.code == -signal.SIGKILL else "crashed"


class WorkerSlowError(WorkerEndedError):
    """The process at the other end did not answer in time."""

    @property
    def how(self) -> Literal["crashed", "killed", "timed_out"]:
        """How the process ended: its time was over."""
        return "timed_out"


class Codec(Protocol):
    """An encoding of messages."""

    def name(self) -> list[str] | None:
        """Return what `codec_of_name` makes an equal encoding of in another process."""

    def encode(self, message: Any) -> bytes:
        """Return the bytes of a message."""

    def decode(self, data: bytes) -> Any:
        """Return the message of these bytes.

        Raises:
            Exception: The bytes are no message.
        """


class PickleCodec:
    """Messages may hold any object that pickle can write; both ends must be trusted."""

    def name(self) -> list[str] | None:
        """Return None."""
        return None

    def encode(self, message: Any) -> bytes:
        """Return the bytes of a message."""
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)

    def decode(self, data: bytes) -> Any:
        """Return the message of these bytes; this runs code that the sender chose."""
        return pickle.loads(data)


class DataCodec:
    """Messages hold plain data, tuples, and objects of some dataclasses.

    Args:
        classes: The dataclasses, in the same order at both ends.
    """

    def __init__(self, *classes: type) -> None:
        self._classes = dict(enumerate(classes, _FIRST_CLASS))
        self._codes = {each: code for code, each in self._classes.items()}
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._extension)

    def name(self) -> list[str] | None:
        """Return the names of the classes, as `module:class`."""
        return [f"{each.__module__}:{each.__qualname__}" for each in self._classes.values()]

    def encode(self, message: Any) -> bytes:
        """Return the bytes of a message.

        Raises:
            TypeError: The message holds an object of another kind.
        """
        return msgspec.msgpack.encode(self._packed(message))

    def decode(self, data: bytes) -> Any:
        """Return the message of these bytes.

        Raises:
            ValueError: The bytes are no message.
            RecursionError: The message nests too deeply.
        """
        return self._decoder.decode(data)

    def _packed(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str.__str__(value)  # plain, also if it is a version of torch's
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, bytes):
            return value
        if isinstance(value, int):
            if _SMALLEST <= value <= _LARGEST:
                return int(value)
            return msgspec.msgpack.Ext(_INTEGER, b"%x" % value)
        if isinstance(value, tuple):
            return msgspec.msgpack.Ext(_TUPLE, self.encode(list(value)))
        if isinstance(value, list):
            return [self._packed(element) for element in value]
        if isinstance(value, dict):
            return {key: self._packed(element) for key, element in value.items()}
        code = self._codes.get(type(value))
        if code is None:
            raise TypeError(f"{type(value).__name__} cannot be sent to another process")
        return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(value))

    def _extension(self, code: int, data: memoryview) -> Any:
        if code == _TUPLE:
            return tuple(self._decoder.decode(data))
        if code == _INTEGER:
            return int(bytes(data), 16)
        if code not in self._classes:
            raise ValueError(f"{code} is no extension of a message")
        return msgspec.msgpack.decode(data, type=self._classes[code])


def codec_of_name(name: list[str] | None) -> Codec:
    """Return the encoding that was named so in another process."""
    return PickleCodec() if name is None else DataCodec(*map(resolve_name, name))


class Channel:
    """One end of a connection.

    Args:
        connection: A stream socket, which the channel owns.
        codec: The encoding of messages in both directions.
    """

    def __init__(self, connection: socket.socket, codec: Codec) -> None:
        self._socket, self._codec = connection, codec
        #: Becomes readable when the process at the other end has ended; None if there is none.
        self.death: int | None = None

    def fileno(self) -> int:
        """Return the descriptor of the socket, which can be waited for; -1 once it is closed."""
        return self._socket.fileno()

    def send(self, message: Any, seconds: float | None = None) -> None:
        """Send a message.

        Args:
            seconds: How long to wait until the other end has taken it; by default any time.

        Raises:
            WorkerGoneError: The other end is closed.
            WorkerSlowError: It took longer.
        """
        data = self._codec.encode(message)
        until = None if seconds is None else time.monotonic() + seconds
        for view in (memoryview(_HEAD.pack(len(data))), memoryview(data)):
            while view:
                self._wait(select.POLLOUT, until)
                try:
                    sent = self._socket.send(
                        view[:_PART], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
                    )
                except BlockingIOError as error:
                    self._require_life(error)
                    continue
                except OSError as error:
                    raise WorkerGoneError("the process has ended") from error
                view = view[sent:]

    def receive(self, seconds: float | None = None) -> Any:
        """Return the next message.

        Args:
            seconds: How long to wait for all of it; by default any time.

        Raises:
            WorkerGoneError: The other end is closed, or what came is no message.
            WorkerSlowError: It took longer.
        """
        until = None if seconds is None else time.monotonic() + seconds
        (length,) = _HEAD.unpack(self._exactly(_HEAD.size, until))
        if length > _LONGEST:
            raise WorkerGoneError("the process has sent something else than a message")
        data = self._exactly(length, until)
        try:
            return self._codec.decode(data)
        except Exception as error:
            raise WorkerGoneError("the process has sent something else than a message") from error

    def close(self) -> None:
        """Close this end; the other one notices. Closing again does nothing."""
        self._socket.close()
        if self.death is not None:
            os.close(self.death)
            self.death = None

    def _exactly(self, size: int, until: float | None) -> bytes:
        parts, missing = [], size
        while missing:
            self._wait(select.POLLIN, until)
            try:
                part = self._socket.recv(min(missing, _PART), socket.MSG_DONTWAIT)
            except BlockingIOError as error:
                self._require_life(error)
                continue
            except OSError as error:
                raise WorkerGoneError("the process has ended") from error
            if not part:
                raise WorkerGoneError("the process has ended")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _require_life(self, error: BlockingIOError) -> None:
        """Raise an error where the process has ended, but another one holds its socket open."""
        if self.death is None:
            return
        poll = select.poll()
        poll.register(self.death, select.POLLIN)
        if poll.poll(0):
            raise WorkerGoneError("the process has ended") from error

    def _wait(self, event: int, until: float | None) -> None:
        """Wait until the socket can be used, or the other process has ended."""
        if self._socket.fileno() < 0:
            raise WorkerGoneError("the process has ended")
        poll = select.poll()  # select() refuses descriptors from 1024 on
        poll.register(self._socket, event)
        if self.death is not None:
            poll.register(self.death, select.POLLIN)
        left = None if until is None else max(until - time.monotonic(), 0) * 1e3
        if not poll.poll(left):
            raise WorkerSlowError("the process did not answer in time")


def wait(channels: Sequence[Channel], seconds: float | None = None) -> list[Channel]:
    """Return the channels from which something can be received, or whose process has ended.

    Args:
        seconds: How long to wait for the first one; by default any time.
    """
    poll = select.poll()
    owners: dict[int, Channel] = {}
    for channel in channels:
        for descriptor in (channel.fileno(), channel.death):
            if descriptor is not None:
                owners[descriptor] = channel
                poll.register(descriptor, select.POLLIN)
    ready = poll.poll(None if seconds is None else seconds * 1e3)
    return list(dict.fromkeys(owners[descriptor] for descriptor, _ in ready))
