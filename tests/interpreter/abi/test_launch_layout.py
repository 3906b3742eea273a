"""Tests of the layout of the launch structure, which Python, emitted code and the runtime share."""

from __future__ import annotations

import ctypes
import struct

from ttools.interpreter.abi.launch_layout import (
    FILLED_BYTES,
    FORMAT,
    KERNEL_BYTES,
    PARAMETERS,
    NativeLaunch,
    offset,
)
from ttools.interpreter.runtime.support.native_runtime import Runner

_FIELDS = [name for name, *_ in NativeLaunch._fields_ if offset(name) < FILLED_BYTES]


def test_packed_values_are_read_by_the_fields() -> None:
    numbers = list(range(11, 11 + len(_FIELDS)))
    packed = ctypes.create_string_buffer(PARAMETERS + 8)
    struct.pack_into(f"{FORMAT}Q", packed, 0, *numbers, 99)
    launch = NativeLaunch.from_buffer(packed)
    assert [getattr(launch, name) for name in _FIELDS] == numbers
    assert struct.unpack_from("<Q", packed, PARAMETERS) == (99,)
    assert launch.pending == launch.contended == launch.stopped == 0


def test_fields_are_aligned_for_atomics() -> None:
    for name, kind, *_ in NativeLaunch._fields_:
        assert offset(name) % ctypes.alignment(kind) == 0, name
    assert offset("pending") % 64 == 0, (
        "threads that finish would share a cache line with those that begin"
    )


def test_a_runner_begins_with_the_structure_of_kernels() -> None:
    assert Runner.launch.offset == 0
    assert Runner.launch.size == KERNEL_BYTES
