"""Memory layout of the structure by which a launch is passed to native code.

The layout is declared only here. Emitted code, the runtime's C code and Python take the offsets of
fields from this module. A change of the layout requires a new `ABI_VERSION`.
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
#: The LLVM type of each field type; unsigned fields hold addresses.
_LLVM_TYPES: dict[Any, str] = {
    ctypes.c_int32: "i32",
    ctypes.c_int64: "i64",
    ctypes.c_uint64: "ptr",
}


class NativeLaunch(ctypes.Structure):
    """The in-memory form of a launch that native code reads.

    Unlike a `LaunchSpec`, which describes a launch as data, this is a C structure. It is followed
    by the kernel's parameters, 8 bytes each.

    Kernels read the fields up to `stopped_site`. They come first, so that a `Runner` of
    `runtime/blocked_programs.py` can hold a copy of only these fields for a single program. The
    remaining fields belong to the runtime. The fields from `stopped` on are initialised to zero.
    """

    _fields_ = [
        ("next", ctypes.c_int64),  # position of the next program to start
        ("count", ctypes.c_int64),  # number of programs
        ("order", ctypes.c_uint64),  # address of program ids by position; 0 if they are in order
        ("grid_x", ctypes.c_int32),
        ("grid_y", ctypes.c_int32),
        ("grid_z", ctypes.c_int32),
        ("abort", ctypes.c_int32),  # if not 0, no further program starts and loops may stop
        ("parameters", ctypes.c_uint64),  # address of the parameters
        ("callback", ctypes.c_uint64),  # function that calls Python, see `runtime.callbacks`
        ("batch", ctypes.c_int64),  # number of programs that a thread takes at a time
        ("note_stop", ctypes.c_uint64),  # function to call when a loop stops because of `abort`
        ("stopped", ctypes.c_int64),  # 1 if a loop of some program stopped because of `abort`
        ("stopped_program", ctypes.c_int64),  # the first such program
        ("stopped_site", ctypes.c_int64),  # the site of its loop
        ("_reserved", ctypes.c_int64 * 4),
        ("pending", ctypes.c_int64),  # unfinished jobs, an i32; on a cache line of its own
        ("longest_sleep", ctypes.c_int64),  # longest sleep of a waiting program, in nanoseconds
        ("returned", ctypes.c_int64),  # number of programs that were given back and not taken again
        ("first_return", ctypes.c_uint64),  # the runner that returned programs last
        ("contended", ctypes.c_int64),  # 1 if any program has waited
        ("_unused", ctypes.c_int64 * 3),
    ]


@lru_cache(maxsize=64)
def offset(field: str) -> int:
    """Return the offset of a field in the structure, in bytes."""
    byte_offset: int = getattr(NativeLaunch, field).offset
    return byte_offset


@lru_cache(maxsize=64)
def size_and_type(field: str) -> tuple[int, str]:
    """Return the size of a field in bytes and its LLVM type."""
    kind = next(kind for name, kind, *_ in NativeLaunch._fields_ if name == field)
    return ctypes.sizeof(kind), _LLVM_TYPES[kind]


#: Size of the part that kernels may read, in bytes.
KERNEL_BYTES = offset("pending")
#: Offset of the parameters, in bytes.
PARAMETERS = ctypes.sizeof(NativeLaunch)

#: Size of the part that is not initialised to zero, in bytes.
FILLED_BYTES = offset("stopped")
_FILLED = [
    kind
    for name, kind, *_ in NativeLaunch._fields_
    if getattr(NativeLaunch, name).offset < FILLED_BYTES
]
#: The `struct` format of the whole structure. A launch is packed in one call with this format,
#: followed by the formats of the parameters.
FORMAT = f"={''.join(_FORMATS[kind] for kind in _FILLED)}{PARAMETERS - FILLED_BYTES}x"
assert struct.calcsize(FORMAT) == PARAMETERS
# Native code takes programs by an atomic addition to the address of the launch, that is, to `next`.
assert offset("next") == 0
