"""The launch structure: what native code is given of the launch whose programs it runs.

Declared once; emitted code, the runtime's own code in LLVM text and Python take their offsets from
here. `ABI_VERSION` covers it. Must not know who fills it in.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache
from typing import Any

_FORMATS: dict[Any, str] = {
    ctypes.c_int32: "i",
    ctypes.c_int64: "q",
    ctypes.c_uint64: "Q",
}
#: What LLVM calls them; what has no sign is an address.
_LLVM_TYPES: dict[Any, str] = {
    ctypes.c_int32: "i32",
    ctypes.c_int64: "i64",
    ctypes.c_uint64: "ptr",
}


class NativeLaunch(ctypes.Structure):
    """The structure in memory that native code has of a launch, a layout rather than data.

    The parameters, 64 bits each, lie behind it.

    The fields up to `stopped_site` are for kernels and stand at its beginning, so that a `Runner`
    can have a copy of them for a single program. The others are the runtime's. All from `stopped`
    on begin as zeros.
    """

    _fields_ = [
        ("next", ctypes.c_int64),  # the position of the next program to begin
        ("count", ctypes.c_int64),  # of programs
        ("order", ctypes.c_uint64),  # address of their ids in that order; 0 if it is their own
        ("grid_x", ctypes.c_int32),
        ("grid_y", ctypes.c_int32),
        ("grid_z", ctypes.c_int32),
        ("abort", ctypes.c_int32),  # not 0: no more programs start, running ones may end
        ("parameters", ctypes.c_uint64),  # their address
        ("callback", ctypes.c_uint64),  # what native code calls in Python, see `callbacks`
        ("batch", ctypes.c_int64),  # how many programs a thread takes at a time
        ("note_stop", ctypes.c_uint64),  # what a program calls that sees `abort` in a loop
        ("stopped", ctypes.c_int64),  # whether any program saw `abort` in a loop
        ("stopped_program", ctypes.c_int64),  # the first of them
        ("stopped_site", ctypes.c_int64),  # and the loop
        ("_reserved", ctypes.c_int64 * 4),
        ("pending", ctypes.c_int64),  # unfinished jobs, an i32; on a cache line of its own
        ("longest_sleep", ctypes.c_int64),  # nanoseconds that a wait may sleep
        ("returned", ctypes.c_int64),  # programs given back and not taken again
        ("first_return", ctypes.c_uint64),  # the runner that gave back last
        ("contended", ctypes.c_int64),  # whether any program has waited
        ("_unused", ctypes.c_int64 * 3),
    ]


@lru_cache(maxsize=64)
def offset(field: str) -> int:
    """Where a field lies in the structure, in bytes."""
    found: int = getattr(NativeLaunch, field).offset
    return found


@lru_cache(maxsize=64)
def size_and_type(field: str) -> tuple[int, str]:
    """The bytes of a field, and its type in LLVM."""
    kind = next(kind for name, kind, *_ in NativeLaunch._fields_ if name == field)
    return ctypes.sizeof(kind), _LLVM_TYPES[kind]


#: Bytes that a kernel may look at.
KERNEL_BYTES = offset("pending")
#: Where the parameters begin.
PARAMETERS = ctypes.sizeof(NativeLaunch)

#: Bytes that are filled in with other numbers than zeros.
FILLED_BYTES = offset("stopped")
_FILLED = [
    kind
    for name, kind, *_ in NativeLaunch._fields_
    if getattr(NativeLaunch, name).offset < FILLED_BYTES
]
#: What fills it in at once; formats of parameters may follow.
FORMAT = f"={''.join(_FORMATS[kind] for kind in _FILLED)}{PARAMETERS - FILLED_BYTES}x"
assert struct.calcsize(FORMAT) == PARAMETERS
# Programs are taken by an atomic addition to the launch's own address.
assert offset("next") == 0
