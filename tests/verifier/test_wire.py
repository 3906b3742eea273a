"""Messages between processes survive the way, and nothing in them is code."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.verifier.workers.wire import (
    Channel,
    TensorImage,
    WorkerGoneError,
    WorkerSlowError,
    decode,
    encode,
)

_LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.floats() | st.binary()
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
)


@given(_VALUES)
def test_values_survive(value: Any) -> None:
    blobs: list[bytes] = []
    assert repr(decode(encode(value, blobs), blobs)) == repr(value)


def test_a_message_with_a_tensor_survives() -> None:
    reads, writes = os.pipe()
    channel = Channel(reads, writes)
    image = TensorImage("float32", (1, 2), (2, 1), 0, bytes(8), True)
    channel.send({"x": image, "n": 3})
    assert channel.receive(1) == {"x": image, "n": 3}
    with pytest.raises(WorkerSlowError):
        channel.receive(0.01)
    os.write(writes, b"\xff" * 64)
    with pytest.raises(WorkerGoneError, match="something else"):
        channel.receive(1)
    channel.close()


def test_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        encode(object(), [])
