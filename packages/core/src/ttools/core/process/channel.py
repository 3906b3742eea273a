"""Messages between two processes over a socket: framing, deadlines and encoding.

A frame consists of the length of a message in 8 bytes, little endian, and the message itself. There
are two encodings. `DataCodec` writes plain data, and instances of dataclasses that both ends have
registered, as MessagePack. Messages are checked when they are read and never contain code, so the
sender need not be trusted. `PickleCodec` writes every object that pickle supports, and is for
processes that run only our own code.
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
#: Default maximum length in bytes of an accepted frame. If a frame states a larger length, the data
#: is not a message.
LONGEST = 1 << 32
_PART = 1 << 20
#: Codes of MessagePack extensions; those of dataclasses follow.
_TUPLE, _INTEGER, _FIRST_CLASS = 1, 2, 16
_INTEGERS = bytes([_INTEGER])
#: For the first byte of an object in MessagePack: the width of the number that follows, and whether
#: this number is the length of `bytes` or of an `extension`. The text is empty if the number is
#: followed by no contents of that length.
_HEADS = {
    **{0xC4 + n: (1 << n, "bytes") for n in range(3)},
    **{0xC7 + n: (1 << n, "extension") for n in range(3)},
    **{0xCA + n: (4 << n, "") for n in range(2)},  # floats
    **{first + n: (1 << n, "") for first in (0xCC, 0xD0) for n in range(4)},  # integers
    **{0xD9 + n: (1 << n, "bytes") for n in range(3)},  # strings
    **{first + n: (2 << n, "") for first in (0xDC, 0xDE) for n in range(2)},  # lists, dictionaries
}
#: Maximum number of objects in a message of plain data, including nested ones.
MOST_OBJECTS = 1 << 21
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1


class WorkerEndedError(TtoolsError):
    """A process did not answer; the message gives the reason."""

    @property
    def how(self) -> Literal["crashed", "killed", "timed_out"]:
        """Return how the process ended: by itself, by an external SIGKILL, or at its deadline."""
        raise NotImplementedError


class WorkerGoneError(WorkerEndedError):
    """The process at the other end has ended or sent data that is not a message.

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
        return "killed" if self.code == -signal.SIGKILL else "crashed"


class MessageTooLongError(WorkerGoneError):
    """The process at the other end has sent a message that exceeds a limit."""


class WorkerSlowError(WorkerEndedError):
    """The process at the other end did not answer in time."""

    @property
    def how(self) -> Literal["crashed", "killed", "timed_out"]:
        return "timed_out"


class Codec(Protocol):
    """An encoding of messages."""

    def name(self) -> list[str] | None:
        """Return the name from which `codec_of_name` creates an equal codec in another process."""

    def encode(self, message: Any) -> bytes:
        """Convert a message to bytes."""

    def decode(self, data: bytes) -> Any:
        """Convert bytes to a message; any exception means that they are not a valid message."""


class PickleCodec:
    """An encoding for any object that pickle can write; both ends must be trusted."""

    def name(self) -> list[str] | None:
        return None

    def encode(self, message: Any) -> bytes:
        return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)

    def decode(self, data: bytes) -> Any:
        """Convert bytes to a message; this can run code that the sender has chosen."""
        return pickle.loads(data)


class DataCodec:
    """An encoding for plain data, tuples and instances of given dataclasses.

    Args:
        classes: The dataclasses, in the same order at both ends.
    """

    def __init__(self, *classes: type) -> None:
        self._classes = dict(enumerate(classes, _FIRST_CLASS))
        self._codes = {cls: code for code, cls in self._classes.items()}
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._extension)

    def name(self) -> list[str] | None:
        """Return the names of the classes, as `module:class`."""
        return [f"{cls.__module__}:{cls.__qualname__}" for cls in self._classes.values()]

    def encode(self, message: Any) -> bytes:
        return msgspec.msgpack.encode(self._packed(message))

    def decode(self, data: bytes) -> Any:
        """Convert bytes to a message.

        Raises:
            MessageTooLongError: The message has more than `MOST_OBJECTS` objects, which would take
                much more memory than its bytes.
        """
        if _has_more_objects(data, MOST_OBJECTS):
            raise MessageTooLongError(
                f"the process has sent a message of more than {MOST_OBJECTS:,} objects"
            )
        return self._decoder.decode(data)

    def _packed(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str.__str__(value)  # converts subclasses such as torch's version string
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
            raise ValueError(f"{code} is not a known message extension")
        return msgspec.msgpack.decode(data, type=self._classes[code])


def _has_more_objects(data: bytes, most: int) -> bool:
    """Return whether a MessagePack message has more than `most` objects; `most` is positive.

    An empty dictionary has one byte in a message, but 64 bytes as an object. Extensions other than
    integers contain messages, whose objects are counted, too.
    """
    at, end = 0, len(data)
    for _ in range(most):
        if at >= end:
            return False
        code = data[at]
        at += 1
        if 0xA0 <= code < 0xC0:  # a string of up to 31 bytes
            at += code & 0x1F
        elif code in _HEADS:
            width, content = _HEADS[code]
            length = int.from_bytes(data[at : at + width], "big") if content else 0
            is_message = content == "extension" and data[at + width : at + width + 1] != _INTEGERS
            at += width + (content == "extension") + (0 if is_message else length)
        elif 0xD4 <= code <= 0xD8:  # an extension of 1, 2, 4, 8 or 16 bytes
            at += 1 + (1 << code - 0xD4 if data[at : at + 1] == _INTEGERS else 0)
    return at < end


def codec_of_name(name: list[str] | None) -> Codec:
    """Return the codec whose method `name` returned this value."""
    return PickleCodec() if name is None else DataCodec(*map(resolve_name, name))


class Channel:
    """One end of a connection.

    Args:
        connection: A stream socket; the channel closes it.
        codec: The encoding of messages in both directions.
        longest: Maximum length in bytes of a received message. A longer message is not read.
    """

    def __init__(self, connection: socket.socket, codec: Codec, longest: int = LONGEST) -> None:
        self._socket, self._codec, self._longest = connection, codec, longest
        #: A descriptor that becomes readable when the other process ends; None if unavailable.
        self.death: int | None = None

    def fileno(self) -> int:
        """Return the descriptor of the socket, or -1 once it is closed."""
        return self._socket.fileno()

    def send(self, message: Any, seconds: float | None = None) -> None:
        """Send a message.

        Args:
            seconds: Time limit for the transfer; None for no limit.

        Raises:
            WorkerGoneError: The other end is closed.
            WorkerSlowError: The time limit was exceeded.
        """
        data = self._codec.encode(message)
        deadline = None if seconds is None else time.monotonic() + seconds
        for view in (memoryview(_HEAD.pack(len(data))), memoryview(data)):
            while view:
                self._wait(select.POLLOUT, deadline)
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
            seconds: Time limit for the whole message; None for no limit.

        Raises:
            WorkerGoneError: The other end is closed, or the data is not a message.
            MessageTooLongError: The message is longer than the limit.
            WorkerSlowError: The time limit was exceeded.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        (length,) = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if length > LONGEST:
            raise WorkerGoneError("the process has sent data that is not a message")
        if length > self._longest:
            raise MessageTooLongError(
                f"the process has sent a message of {length:,} bytes; at most {self._longest:,} "
                "bytes are read"
            )
        data = self._exactly(length, deadline)
        try:
            return self._codec.decode(data)
        except MessageTooLongError:
            raise
        except Exception as error:
            raise WorkerGoneError("the process has sent data that is not a message") from error

    def close(self) -> None:
        """Close this end, which the other end detects; closing it again does nothing."""
        self._socket.close()
        if self.death is not None:
            os.close(self.death)
            self.death = None

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        parts, missing = [], size
        while missing:
            self._wait(select.POLLIN, deadline)
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
        """Raise an error if the process has ended, even if another one keeps the socket open."""
        if self.death is None:
            return
        poll = select.poll()
        poll.register(self.death, select.POLLIN)
        if poll.poll(0):
            raise WorkerGoneError("the process has ended") from error

    def _wait(self, event: int, deadline: float | None) -> None:
        """Wait until the socket can be used, or the other process has ended."""
        if self._socket.fileno() < 0:
            raise WorkerGoneError("the process has ended")
        poll = select.poll()  # select() rejects descriptors of 1024 and more
        poll.register(self._socket, event)
        if self.death is not None:
            poll.register(self.death, select.POLLIN)
        milliseconds = None if deadline is None else max(deadline - time.monotonic(), 0) * 1e3
        if not poll.poll(milliseconds):
            raise WorkerSlowError("the process did not answer in time")


def wait(channels: Sequence[Channel], seconds: float | None = None) -> list[Channel]:
    """Return the channels that can be read or whose process has ended.

    Args:
        seconds: Maximum time in seconds to wait until one of them is ready; None for no limit.
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
