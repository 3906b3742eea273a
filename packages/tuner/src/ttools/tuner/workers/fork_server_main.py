"""The fork server: a process that has imported everything, and forks itself for each worker.

It runs as a separate program that `fork_server` starts. It has no threads and no GPU context, so
that a fork of it behaves like a new process, but starts within milliseconds.

The server also does once what Triton would otherwise do in each process. The server for compiling
workers hashes Triton's files for all processes of the run, and builds the C module of the driver
while other servers still import torch.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import NoReturn

from ttools.core import triton_versions
from ttools.core.process.channel import Channel, PickleCodec
from ttools.core.process.thread_limit import is_thread_limit
from ttools.core.process.worker import Limits, end_with_parent, serve_and_leave, silence

_SERVING = "ttools.tuner.workers.serving"
#: Modules that each kind of worker needs and that take seconds to import. The kinds are workers
#: that run configurations on the CPU or on a GPU, and workers that compile for a GPU, which do not
#: need torch.
IMPORTS = {
    "cpu": ("torch", "llvmlite.binding", "ttools.interpreter.backend.launcher", _SERVING),
    "gpu": ("torch", _SERVING),
    "compile": ("triton.compiler.code_generator", _SERVING),
}
FORK, WAIT, HASH = b"f", b"w", b"h"
NUMBER = struct.Struct("q")
#: Maximum size of a request in bytes; environment variables may be long.
_MOST_BYTES = 1 << 16


def main(descriptor: int, kind: str) -> None:
    """Fork workers on request until the client disconnects; then end all workers.

    Args:
        descriptor: File descriptor of a socket. A request is `FORK` with the worker's additional
            environment variables and its socket, `WAIT` with a process ID, or `HASH`. The answer is
            a process ID, an exit code, or the hash of Triton's files.
        kind: Kind of the workers, see `IMPORTS`.
    """
    try:
        _serve_requests(descriptor, kind)
    except (BlockingIOError, RuntimeError) as error:
        if not (isinstance(error, BlockingIOError) or is_thread_limit(error)):
            raise
        sys.stderr.write(
            "error: the limit on processes and threads has been reached; "
            "raise it with `ulimit -u`\n"
        )
        sys.stderr.flush()
        os._exit(1)


def _serve_requests(descriptor: int, kind: str) -> None:
    gc.disable()  # imported modules do not become garbage
    import_module("triton.compiler")  # first, because the thread hashes its files meanwhile
    if kind == "compile":
        _build_driver_module()  # it forks, so before any thread starts
    hashing = threading.Thread(target=triton_versions.hash_triton)
    if kind != "gpu":  # workers for a GPU receive the hash from the run
        hashing.start()
    for name in IMPORTS[kind]:
        import_module(name)
    if kind != "cpu":
        triton_versions.import_argument_types()
        triton_versions.build_one_at_a_time()
    if kind != "gpu":
        hashing.join()  # a fork has only the forking thread
    gc.freeze()
    gc.enable()
    control = socket.socket(fileno=descriptor)
    children: set[int] = set()
    try:
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, 1)
            if not request:
                return
            if request[:1] == FORK:
                child = _fork(control, descriptors[0], kind, json.loads(request[1:]))
                children.add(child)
                control.send(NUMBER.pack(child))
            elif request[:1] == HASH:
                control.send(triton_versions.hash_triton().encode())
            else:
                (child,) = NUMBER.unpack(request[1:])
                children.discard(child)
                control.send(NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def _fork(control: socket.socket, descriptor: int, kind: str, variables: Mapping[str, str]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _work(control, descriptor, kind, variables, parent)
    os.close(descriptor)
    return child


def _work(
    control: socket.socket, descriptor: int, kind: str, variables: Mapping[str, str], parent: int
) -> NoReturn:
    # Received descriptors are inheritable, so a compiler process that outlives the worker would
    # otherwise keep the connection open.
    os.set_inheritable(descriptor, False)

    def serve_requests(channel: Channel) -> None:
        control.close()
        os.environ.update(variables)  # before CUDA is initialised
        from ttools.tuner.workers.serving import serve, wake_gpu

        if kind == "gpu":
            wake_gpu()
        serve(channel)

    connection = socket.socket(fileno=descriptor)
    serve_and_leave(serve_requests, connection, PickleCodec(), parent, Limits())


def _build_driver_module() -> None:
    parent = os.getpid()
    if os.fork():
        return
    try:
        end_with_parent(parent)
        silence(1)
        triton_versions.build_driver_module()
    finally:
        os._exit(0)
