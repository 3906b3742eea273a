"""The process that worker processes are forked from: it has imported everything and done nothing.

Runs as a program of its own, started by `fork_server`. It has no threads and no GPU context, so a
fork of it is as good as new, and there within milliseconds. Must not know what workers do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import threading
from importlib import import_module
from multiprocessing.connection import Connection

from ttools.core.triton_versions import hash_triton

_SERVING = "ttools.tuner.workers.serving"
#: What workers of a kind need, which takes seconds to import: to run configurations on the CPU or
#: on a GPU, or to compile for a GPU, for which torch is not needed.
IMPORTS = {
    "cpu": ("torch", "llvmlite.binding", "ttools.interpreter.backend.launcher", _SERVING),
    "gpu": ("torch", _SERVING),
    "compile": ("triton.compiler.code_generator", "triton.tools.tensor_descriptor", _SERVING),
}
_PR_SET_PDEATHSIG = 1
FORK, WAIT = b"f", b"w"
NUMBER = struct.Struct("q")


def main(descriptor: int, kind: str) -> None:
    """Forks workers on request until the other side is gone; none of them outlives this process.

    Args:
        descriptor: of a socket; a request is `FORK` with the worker's own socket, or `WAIT` with
            the number of a process. The answer is a number: of the process, or its status.
        kind: of the workers, see `IMPORTS`.
    """
    import_module("triton.compiler")  # first: it hashes its files meanwhile
    hashing = threading.Thread(target=hash_triton)
    hashing.start()
    for name in IMPORTS[kind]:
        import_module(name)
    hashing.join()  # a fork has one thread
    control = socket.socket(fileno=descriptor)
    children: set[int] = set()
    try:
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, 64, 1)
            if not request:
                return
            if request[:1] == FORK:
                child = _fork(control, descriptors[0], kind)
                children.add(child)
                control.send(NUMBER.pack(child))
            else:
                (child,) = NUMBER.unpack(request[1:])
                children.discard(child)
                control.send(NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def _fork(control: socket.socket, descriptor: int, kind: str) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(descriptor)
        return child
    status = 1
    try:
        control.close()
        # Received, so it would be inherited: a compiler that outlives the worker would hold it.
        os.set_inheritable(descriptor, False)
        _die_with(parent)
        _silence_output()
        from ttools.tuner.workers.serving import serve, wake_gpu

        if kind == "gpu":
            wake_gpu()
        serve(Connection(descriptor))
        status = 0
    finally:
        os._exit(status)


def _die_with(parent: int) -> None:
    """Ends with its parent: a worker in an endless loop would not notice that it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _silence_output() -> None:
    """What a kernel prints while it is tried would be said many times over."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
