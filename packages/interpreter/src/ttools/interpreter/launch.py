"""Runs a compiled kernel over its grid.

Owns the `Launch` structure that native code reads, the grid's checks and the launch options. It
must not know how code was made nor what the parameters mean.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ttools.core.errors import UsageError
from ttools.interpreter.emit.module import EmittedModule
from ttools.interpreter.jit import NativeCode


class Launch(ctypes.Structure):
    """What native code sees of a launch; offsets are part of the ABI."""

    _fields_ = [
        ("next", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("order", ctypes.c_void_p),
        ("grid_x", ctypes.c_int32),
        ("grid_y", ctypes.c_int32),
        ("grid_z", ctypes.c_int32),
        ("abort", ctypes.c_int32),
        ("params", ctypes.c_void_p),
        ("callback", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
    ]


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """How to run the programs of a launch."""

    threads: int | None = None
    order: Literal["natural", "reverse", "random"] = "natural"
    seed: int = 0
    programs: str | None = None


@dataclass(frozen=True)
class Kernel:
    """Loaded native code and the emitter's description of it."""

    emitted: EmittedModule
    native: NativeCode


@dataclass
class LaunchReport:
    """What a launch did."""

    programs: int
    seconds: float
    warnings: list[str] = field(default_factory=list)


def run(
    kernel: Kernel,
    params: Sequence[int],
    grid: Sequence[int],
    options: LaunchOptions | None = None,
) -> LaunchReport:
    """Runs every program of `grid` once.

    Args:
        kernel: what to run.
        params: raw 64-bit values of the parameters, in order.
        grid: one to three extents.
        options: how; all programs in natural order by default.
    """
    x, y, z = (*grid, 1, 1, 1)[:3]
    count = x * y * z
    if min(x, y, z) < 0:
        raise UsageError(f"grid {tuple(grid)}: an extent cannot be negative")
    slots = (ctypes.c_uint64 * max(1, len(params)))(*params)
    launch = Launch(0, count, None, x, y, z, 0, ctypes.addressof(slots), None, 16)
    arena = mmap.mmap(-1, max(1, kernel.emitted.arena_bytes))
    anchor = ctypes.c_char.from_buffer(arena)
    start = time.perf_counter()
    kernel.native.function(ctypes.addressof(launch), ctypes.addressof(anchor))
    return LaunchReport(count, time.perf_counter() - start)
