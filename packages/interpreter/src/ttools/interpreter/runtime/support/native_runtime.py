"""Binds the functions of the runtime that run without the GIL (`native_runtime.c`).

They are the waiting loop of a worker, the distribution of a launch to workers, the driver of
kernels whose programs wait for each other, and signal handlers. The C file is also checked in as
LLVM text (`tools/native_code.py`), which the JIT for kernels compiles, so that users need no C
compiler. Decisions, such as the number of threads and the detection of a deadlock, are made in
`pool.py` and `blocked_programs.py`.
"""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttools.core.lazy_values import once
from ttools.interpreter.abi.launch_layout import KERNEL_BYTES
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_text, native_module


class Mailbox(ctypes.Structure):
    """Passes jobs to one worker; `state` is a futex, and a mailbox occupies a whole cache line."""

    _fields_ = [
        ("state", ctypes.c_int32),  # 0 idle, 1 has a job, 3 runs it, 2 must exit
        ("sleeping", ctypes.c_int32),
        ("entry", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("pending", ctypes.c_void_p),
        ("_pad", ctypes.c_int64 * 3),
    ]


class Runner(ctypes.Structure):
    """The state of one thread in a launch whose programs wait for each other.

    It begins with a `NativeLaunch` of a single program, which the kernel receives. The other fields
    identify this program, and describe the time and the place of its current wait. Only native code
    writes this structure.
    """

    _fields_ = [
        ("launch", ctypes.c_int64 * (KERNEL_BYTES // 8)),
        ("shared", ctypes.c_void_p),  # the launch that provides the programs
        ("entry", ctypes.c_void_p),
        ("program", ctypes.c_int64),  # linear id of the current program, -1 between programs
        ("position", ctypes.c_int64),  # position of the program in the order of starting
        ("calls", ctypes.c_int64),  # callbacks from the current wait; 0 if no wait is known
        ("instance", ctypes.c_int64),  # number of waits that this thread has begun so far
        ("finished", ctypes.c_int64),  # number of programs that this thread has finished
        ("site", ctypes.c_int64),  # site of the loop that waits, -1 if no wait is known
        ("iterations", ctypes.c_int64),  # iterations of this loop at the last callback
        ("callback", ctypes.c_void_p),  # function for callbacks other than those of waits
        ("cpu", ctypes.c_int64),  # CPU time of the thread when the last call returned, in ns
        ("next", ctypes.c_int64),  # positions `next` to `end` are taken but not started
        ("end", ctypes.c_int64),
        ("returned_next", ctypes.c_int64),  # first of the positions that the thread has given back
        ("returned_end", ctypes.c_int64),
        ("returned_link", ctypes.c_void_p),  # the runner that gave back positions before this one
    ]


class Note(ctypes.Structure):
    """Texts of the crash report that the signal handler writes; zero-terminated, or null."""

    _fields_ = [
        ("head", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("advice", ctypes.c_void_p),
        ("compiled", ctypes.c_void_p),  # the whole report for a thread that is running LLVM
        ("compiling_thread", ctypes.c_uint64),
        ("before", ctypes.c_void_p),  # the previous handlers: a `SignalAction` for each signal
    ]


class SignalTarget(ctypes.Structure):
    """Data of the handler for signals that ask the process to terminate."""

    _fields_ = [
        ("pipe", ctypes.c_int32),  # file descriptor to which it writes the signals' numbers
        ("owner", ctypes.c_int32),  # id of the process that reads these numbers
        ("ends", ctypes.c_int32),  # 1 if SIGTERM is reported, too
        ("count", ctypes.c_int32),  # number of signals that it has written
        ("before", ctypes.c_void_p),  # the previous handlers: a `SignalAction` for each signal
        ("interrupt", ctypes.c_void_p),  # `PyErr_SetInterrupt`, which handlers may call
    ]


class SignalAction(ctypes.Structure):
    """`struct sigaction` of the C library."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


#: Size in bytes of the stack on which signal handlers run. It must have space for the state of
#: AVX-512 and AMX, and for a few frames.
ALTERNATE_STACK_BYTES = 64 * 1024

_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 128, 129
#: LLVM intrinsics that inform the processor about a busy-waiting loop, by architecture.
_PAUSE = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.hint(i32 1)"}

#: Time for which a worker busy-waits before it sleeps. It is longer than Python takes from one
#: launch to the next; otherwise, each launch would wait until a worker is awake.
BUSY_NANOSECONDS = 300_000


@dataclass(frozen=True)
class NativeRuntime:
    """The compiled functions: addresses for native code, ctypes functions for Python.

    Attributes:
        worker: Address of the start routine of worker threads, which takes a `Mailbox`.
        run_each: Address of the function that is called instead of `ttools_run` if the programs of
            a kernel wait for each other.
        callback: Address of the callback for launches of kernels whose programs wait for each
            other.
        post: Function `(boxes, n, state)` that sets the state of workers' mailboxes.
        share: Function `(boxes, n, entry, launch, stride, arena, pending, tick) -> jobs left`.
        await_jobs: Function `(pending, tick) -> jobs left`.
        crashed: Address of the handler for signals that kill the process.
        exited: Address of the function that writes the report if LLVM terminates the process.
        note: Texts of the crash report that `crashed` and `exited` write.
        signalled: Address of the handler for signals that ask the process to terminate.
        signal_target: Data that `signalled` reads.
        answered: Address of a function that sets an i32 to 0, for `Py_AddPendingCall`.
        note_stop: Address of the function that programs call after they have left a loop because
            the launch was stopped.
        code: The compiled module, which owns the functions.
    """

    worker: int
    run_each: int
    callback: int
    post: Any
    share: Any
    await_jobs: Any
    crashed: int
    exited: int
    note: Note
    signalled: int
    signal_target: SignalTarget
    answered: int
    note_stop: int
    code: jit.NativeCode


def runtime_ir(machine: str | None = None) -> str:
    """Return the text of the module for this machine."""
    machine = machine or platform.machine()
    path = Path(__file__).with_name("native_runtime.ll")
    text = module_text(path, {"SYS_FUTEX": _SYS_FUTEX.get(machine, 98)})
    call = _PAUSE.get(machine)
    body, intrinsic = "ret void", ""
    if call is not None:
        body, intrinsic = f"call void @{call} ret void", f"declare void @{call.replace(' 1', '')}"
    pause = f"define internal void @pause_processor() alwaysinline {{ {body} }}"
    return text.replace("declare void @pause_processor()", f"{intrinsic}\n{pause}")


@once
def native_runtime() -> NativeRuntime:
    """Return the runtime's functions, compiled or read from the object cache at first use."""
    called = ("worker", "run_each", "callback", "crashed", "exited", "signalled", "answered")
    exports = (*called, "note_stop", "post", "share", "await", "crash_note", "signal_target")
    code = native_module(runtime_ir(), exports, name="the runtime", opt=1)
    i32, i64, pointer = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
    signatures: dict[str, Any] = {
        "post": ctypes.CFUNCTYPE(None, pointer, i64, i32),
        "share": ctypes.CFUNCTYPE(i32, pointer, i64, pointer, pointer, i64, pointer, pointer, i64),
        "await": ctypes.CFUNCTYPE(i32, pointer, i64),
    }
    functions = {name: kind(code.symbols[name]) for name, kind in signatures.items()}
    return NativeRuntime(
        worker=code.symbols["worker"],
        run_each=code.symbols["run_each"],
        callback=code.symbols["callback"],
        post=functions["post"],
        share=functions["share"],
        await_jobs=functions["await"],
        crashed=code.symbols["crashed"],
        exited=code.symbols["exited"],
        note=Note.from_address(ctypes.CFUNCTYPE(pointer)(code.symbols["crash_note"])()),
        signalled=code.symbols["signalled"],
        signal_target=SignalTarget.from_address(
            ctypes.CFUNCTYPE(pointer)(code.symbols["signal_target"])()
        ),
        answered=code.symbols["answered"],
        note_stop=code.symbols["note_stop"],
        code=code,
    )
