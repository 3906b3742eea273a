"""Messages between processes survive the way, and nothing in plain data is code."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.process.channel import (
    Channel,
    DataCodec,
    PickleCodec,
    WorkerGoneError,
    WorkerSlowError,
    codec_of_name,
    wait,
)


@dataclass(frozen=True)
class Image:
    """A dataclass that travels."""

    shape: tuple[int, ...]
    data: bytes


class Shape(tuple[int, ...]):
    """As torch has one."""


_LEAVES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.floats() | st.binary()
    | st.builds(Image, st.lists(st.integers(0, 9)).map(tuple), st.binary())
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


def pair(codec: Any = None) -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair()
    return Channel(ours, codec or DataCodec(Image)), theirs


@given(_VALUES)
def test_values_survive(value: Any) -> None:
    codec = DataCodec(Image)
    assert repr(codec.decode(codec.encode(value))) == repr(value)


def test_subclasses_of_plain_data_become_plain() -> None:
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "not this"

    class Number(float):
        pass

    codec = DataCodec()
    again = codec.decode(codec.encode([Text("a"), Number(0.5), Shape((1, 2))]))
    assert (again, [type(each) for each in again]) == (["a", 0.5, (1, 2)], [str, float, tuple])


def test_messages_keep_their_order() -> None:
    channel, theirs = pair()
    other = Channel(theirs, DataCodec(Image))
    large = Image((1 << 22,), os.urandom(1 << 22))
    sender = threading.Thread(target=lambda: [channel.send(each) for each in (1, large, (2, 3))])
    sender.start()
    assert [other.receive(60) for _ in range(3)] == [1, large, (2, 3)]
    sender.join()


def test_an_equal_encoding_in_another_process() -> None:
    again = codec_of_name(DataCodec(Image).name())
    image = Image((1,), b"x")
    assert again.decode(DataCodec(Image).encode([image])) == [image]
    assert isinstance(codec_of_name(PickleCodec().name()), PickleCodec)


def test_objects_are_refused() -> None:
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
def test_what_is_no_message_is_refused(data: bytes) -> None:
    channel, theirs = pair()
    theirs.sendall(data)
    with pytest.raises(WorkerGoneError, match="something else than a message"):
        channel.receive(10)


def test_deadlines_hold_in_both_directions() -> None:
    channel, theirs = pair()
    with pytest.raises(WorkerSlowError):
        channel.receive(0.01)
    theirs.sendall(struct.pack("<Q", 100) + b"only so much")
    with pytest.raises(WorkerSlowError):
        channel.receive(0.01)
    with pytest.raises(WorkerSlowError):  # nobody reads
        channel.send(bytes(1 << 24), 0.01)


def test_a_closed_connection_is_noticed() -> None:
    channel, theirs = pair()
    theirs.sendall(_frame(DataCodec().encode(5)))
    theirs.close()
    assert wait([channel], 10) == [channel]
    assert channel.receive(10) == 5
    with pytest.raises(WorkerGoneError):
        channel.receive(10)
    with pytest.raises(WorkerGoneError):
        channel.send(bytes(1 << 24))
    channel.close()
    channel.close()


def test_descriptors_beyond_1023_can_be_waited_for() -> None:
    channel, theirs = pair()
    far = socket.socket(fileno=os.dup2(os.dup(channel.fileno()), 1500, inheritable=False))
    other = Channel(far, DataCodec())
    theirs.sendall(_frame(DataCodec().encode(6)))
    assert wait([other], 10) == [other]
    assert other.receive(10) == 6
    other.close()
