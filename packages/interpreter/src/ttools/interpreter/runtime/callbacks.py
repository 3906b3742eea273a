"""Callbacks from native code into Python during a launch: prints, failed asserts, bad addresses.

All kernels call one C function, which finds the launch in a table of running launches.
"""

from __future__ import annotations

import ctypes
import threading

from ttools.core.errors import KernelError
from ttools.core.spec import coordinates
from ttools.interpreter.abi.launch_layout import NativeLaunch
from ttools.interpreter.abi.module import CallbackKind, EmittedModule, Site
from ttools.interpreter.runtime import printing
from ttools.interpreter.runtime.monitor import Monitor

Program = tuple[int, int, int]


class Callbacks:
    """The callbacks of one launch and the errors that they recorded.

    Native threads may call back at any time. An exception is never raised into native code:
    `handle` stops the launch and keeps the error, which `raise_first` raises later.
    """

    def __init__(
        self, emitted: EmittedModule, grid: Program, launch: int, monitor: Monitor | None = None
    ) -> None:
        self._emitted = emitted
        self._grid = grid
        self._monitor = monitor
        self.launch = launch
        self._lock = threading.Lock()
        self._failure: tuple[int, Site, int] | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Callbacks:
        _running[self.launch] = self
        return self

    def __exit__(self, *_: object) -> None:
        del _running[self.launch]

    def coordinates(self, program: int) -> Program:
        """Return the ids of a program along the dimensions of the grid."""
        return coordinates(program, self._grid)

    def abort(self) -> None:
        """Stop the launch; no more programs start, and running ones end at their next check."""
        NativeLaunch.from_address(self.launch).abort = 1

    def handle(self, program: int, kind: int, site: int, payload: int) -> int:
        """Handle one callback; a result other than 0 makes the program return immediately.

        Args:
            program: Linear id of the program.
            site: Index of the site or probe.
            payload: Address of the payload.
        """
        try:
            if kind == CallbackKind.PRINT:
                self._print(program, self._emitted.sites[site], payload)
                return 0
            if kind in (CallbackKind.ASSERT, CallbackKind.BAD_ADDRESS):
                self._fail(program, self._emitted.sites[site], payload)
                return 1
            if self._monitor is not None and kind == CallbackKind.EVENT:
                self._monitor.witness(program, site, payload)
            elif self._monitor is not None and kind == CallbackKind.DRAIN:
                self._monitor.drain()
            elif self._monitor is not None and kind == CallbackKind.FIND:
                return int(not self._monitor.find(payload))
            elif self._monitor is not None and kind == CallbackKind.SYNCHRONISE:
                self._monitor.synchronised(program, site, payload)
            elif self._monitor is not None and kind == CallbackKind.WATCH:
                self._monitor.watched(program, site, payload)
            return 0
        except BaseException as error:  # noqa: BLE001 - raised again when the launch has ended
            with self._lock:
                self._error = self._error or error
            self.abort()
            return 1

    def _print(self, program: int, site: Site, payload: int) -> None:
        text = "".join(
            f"{line}\n" for line in printing.lines(site, self.coordinates(program), payload)
        )
        with self._lock:
            # Flush, because the kernel may crash the process next. Unlike `sys.stdout.write`,
            # `print` does nothing if `sys.stdout` is None.
            print(text, end="", flush=True)  # noqa: T201 - on behalf of the kernel

    def _fail(self, program: int, site: Site, payload: int) -> None:
        lane = ctypes.c_int64.from_address(payload).value if payload else 0
        with self._lock:
            if self._failure is None or program < self._failure[0]:
                self._failure = program, site, lane
        self.abort()

    def raise_first(self) -> None:
        """Raise the first error of a callback, or the failure of the program with the lowest id."""
        if self._error is not None:
            raise self._error
        if self._failure is None:
            return
        program, site, lane = self._failure
        where = f"program {self.coordinates(program)}"
        if site.kind == CallbackKind.BAD_ADDRESS:
            raise KernelError(
                f"{site.text} through address {lane:#x} in kernel `{self._emitted.name}`, {where}: "
                "it does not belong to a tensor whose data_ptr() was called during this run",
                site.location,
                program=self.coordinates(program),
            )
        shape = site.operands[0][1] if site.operands else None
        if shape is None:
            where += f", lane {lane}"
        elif shape:
            import numpy as np

            where += f", lane {[int(n) for n in np.unravel_index(lane, shape)]} of {list(shape)}"
        text = f" `{site.text}`" if site.text else ""
        raise KernelError(
            f"device_assert{text} failed in kernel `{self._emitted.name}`, {where}",
            site.location,
            program=self.coordinates(program),
        )


_running: dict[int, Callbacks] = {}


def _on_callback(launch: int, program: int, kind: int, site: int, payload: int | None) -> int:
    callbacks = _running.get(launch)
    return 1 if callbacks is None else callbacks.handle(program, kind, site, payload or 0)


_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_void_p,
)
_function = _TYPE(_on_callback)

#: Address of the callback, for `NativeLaunch`.
CALLBACK = ctypes.cast(_function, ctypes.c_void_p).value or 0
