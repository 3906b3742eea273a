"""Tests of messages between processes: encoding, invalid messages, deadlines and closed sockets."""

from __future__ import annotations

import os
import pickle
import resource
import socket
import struct
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.process.channel import (
    Channel,
    DataCodec,
    MessageTooLongError,
    PickleCodec,
    WorkerGoneError,
    WorkerSlowError,
    _has_more_objects,
    codec_of_name,
    wait,
)


@dataclass(frozen=True)
class Image:
    """A dataclass that can be sent."""

    shape: tuple[int, ...]
    data: bytes


class Shape(tuple[int, ...]):
    """A subclass of tuple, like `torch.Size`."""


_LEAVES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.floats() | st.binary()
    | st.builds(Image, st.lists(st.integers(0, 9)).map(tuple), st.binary())
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


def pair(codec: Any = None) -> tuple[Channel, socket.socket]:
    local, remote = socket.socketpair()
    return Channel(local, codec or DataCodec(Image)), remote


@given(_VALUES)
def test_values_are_decoded_unchanged(value: Any) -> None:
    codec = DataCodec(Image)
    assert repr(codec.decode(codec.encode(value))) == repr(value)


def count(value: Any) -> int:
    """Return the number of objects of a message with a value."""
    if isinstance(value, Image):
        return 5 + count(list(value.shape))  # an extension, a dictionary, two names, and bytes
    if isinstance(value, tuple):
        return 1 + count(list(value))
    if isinstance(value, list):
        return 1 + sum(map(count, value))
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(count, value.values()))
    return 1


@given(_VALUES)
def test_objects_are_counted_without_reading_a_message(value: Any) -> None:
    data, objects = DataCodec(Image).encode([value]), 1 + count(value)
    assert not _has_more_objects(data, objects)
    assert _has_more_objects(data, objects - 1)


def test_messages_of_many_objects_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttools.core.process.channel.MOST_OBJECTS", 9)
    channel, remote = pair()
    far = Channel(remote, DataCodec())
    for length in (8, 9):
        far.send([{}] * length)
    assert channel.receive(10) == [{}] * 8
    with pytest.raises(MessageTooLongError, match="more than 9 objects"):
        channel.receive(10)


def test_subclasses_of_plain_data_become_plain() -> None:
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "not this"

    class Number(float):
        pass

    codec = DataCodec()
    decoded = codec.decode(codec.encode([Text("a"), Number(0.5), Shape((1, 2))]))
    assert (decoded, [type(value) for value in decoded]) == (
        ["a", 0.5, (1, 2)],
        [str, float, tuple],
    )


def test_messages_keep_their_order() -> None:
    channel, remote = pair()
    other = Channel(remote, DataCodec(Image))
    large = Image((1 << 22,), os.urandom(1 << 22))
    sender = threading.Thread(target=lambda: [channel.send(value) for value in (1, large, (2, 3))])
    sender.start()
    assert [other.receive(60) for _ in range(3)] == [1, large, (2, 3)]
    sender.join()


def test_codecs_can_be_recreated_from_their_name() -> None:
    decoder = codec_of_name(DataCodec(Image).name())
    image = Image((1,), b"x")
    assert decoder.decode(DataCodec(Image).encode([image])) == [image]
    assert isinstance(codec_of_name(PickleCodec().name()), PickleCodec)


def test_other_objects_are_rejected() -> None:
    with pytest.raises(TypeError, match="object cannot be sent"):
        DataCodec().encode({"x": [object()]})
    with pytest.raises(TypeError, match="Image cannot be sent"):
        DataCodec().encode(Image((), b""))


def _frame(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _nested(depth: int) -> bytes:
    data = b"\x90"
    for _ in range(depth):
        data = msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x91" + data))
    return data


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 64,
        _frame(b"\xc1"),
        _frame(pickle.dumps(_Evil())),
        _frame(msgspec.msgpack.encode(msgspec.msgpack.Ext(17, b"\x90"))),
        _frame(msgspec.msgpack.encode(msgspec.msgpack.Ext(16, b"\x90"))),
        _frame(msgspec.msgpack.encode(msgspec.msgpack.Ext(2, b"zz"))),
        _frame(msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x05"))),
        _frame(b"\x91" * 100_000 + b"\x90"),
        _frame(_nested(3000)),
    ],
)
def test_invalid_messages_are_rejected(data: bytes) -> None:
    channel, remote = pair()
    remote.sendall(data)
    with pytest.raises(WorkerGoneError, match="data that is not a message"):
        channel.receive(10)


def test_long_messages_are_not_read() -> None:
    near, far = socket.socketpair()
    channel = Channel(near, DataCodec(), longest=64)
    for size in (62, 63):
        Channel(far, DataCodec()).send(bytes(size))
    assert channel.receive(10) == bytes(62)
    with pytest.raises(MessageTooLongError, match="message of 65 bytes; at most 64"):
        channel.receive(10)


def test_deadlines_apply_in_both_directions() -> None:
    channel, remote = pair()
    with pytest.raises(WorkerSlowError):
        channel.receive(0.01)
    remote.sendall(struct.pack("<Q", 100) + b"only so much")
    with pytest.raises(WorkerSlowError):
        channel.receive(0.01)
    with pytest.raises(WorkerSlowError):  # the other side does not read
        channel.send(bytes(1 << 24), 0.01)


def test_a_closed_connection_is_an_error() -> None:
    channel, remote = pair()
    remote.sendall(_frame(DataCodec().encode(5)))
    remote.close()
    assert wait([channel], 10) == [channel]
    assert channel.receive(10) == 5
    with pytest.raises(WorkerGoneError):
        channel.receive(10)
    with pytest.raises(WorkerGoneError):
        channel.send(bytes(1 << 24))
    channel.close()
    channel.close()


def test_descriptors_beyond_1023_can_be_waited_for(request: pytest.FixtureRequest) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 1500:
        pytest.skip("this user may not open 1,500 files")
    if soft != resource.RLIM_INFINITY and soft <= 1500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1501, hard))
        request.addfinalizer(partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard)))
    channel, remote = pair()
    far = socket.socket(fileno=os.dup2(os.dup(channel.fileno()), 1500, inheritable=False))
    other = Channel(far, DataCodec())
    remote.sendall(_frame(DataCodec().encode(6)))
    assert wait([other], 10) == [other]
    assert other.receive(10) == 6
    other.close()
