"""The launch structure: every side takes its offsets from one declaration."""

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


def test_what_is_packed_is_what_fields_hold() -> None:
    numbers = list(range(11, 11 + len(_FIELDS)))
    packed = ctypes.create_string_buffer(PARAMETERS + 8)
    struct.pack_into(f"{FORMAT}Q", packed, 0, *numbers, 99)
    launch = NativeLaunch.from_buffer(packed)
    assert [getattr(launch, name) for name in _FIELDS] == numbers
    assert struct.unpack_from("<Q", packed, PARAMETERS) == (99,)
    assert launch.pending == launch.contended == launch.stopped == 0


def test_fields_that_atomics_change_are_aligned() -> None:
    for name, kind, *_ in NativeLaunch._fields_:
        assert offset(name) % ctypes.alignment(kind) == 0, name
    assert offset("pending") % 64 == 0, "threads that finish must not disturb those that begin"


def test_a_runner_begins_with_what_kernels_see() -> None:
    assert Runner.launch.offset == 0
    assert Runner.launch.size == KERNEL_BYTES
