"""Compiles large modules in a separate process, which can be ended while LLVM works.

LLVM compiles a module in a single call, which cannot be interrupted by a signal or a time limit,
and llvmlite holds a lock during this call. A small module is compiled in this process, which takes
less time than starting another Python interpreter. A large module is sent to a worker process,
which compiles it with the same functions and returns the same bytes. If the time limit is reached
or the user presses Ctrl-C, the worker is terminated, and other compilations need not wait for it.

A worker compiles one module and ends. If it waited for another module, it would remain a child of
the user's process, and a script that waits for all its children would never end.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, DataCodec, WorkerGoneError
from ttools.core.process.worker import Limits, answer_of, spawn_worker
from ttools.interpreter.native import jit


class CompilerProcessError(TtoolsError):
    """A compiler process could not be started, or has ended unexpectedly."""


@dataclass(frozen=True)
class _Request:
    llvm_ir: str
    name: str
    opt: int


@dataclass(frozen=True)
class _Answer:
    """The outcome of a compilation.

    Attributes:
        object_code: The object; empty if LLVM has rejected the module.
        error: LLVM's message if it has rejected the module; otherwise empty.
        phases: Seconds by phase, see `jit.compile_ir`.
    """

    object_code: bytes
    error: str
    phases: dict[str, float]


_CODEC = DataCodec(_Request, _Answer)


def compile_in_process(llvm_ir: str, *, name: str, opt: int, phases: dict[str, float]) -> bytes:
    """Compile a module as `jit.compile_ir` does, but in a process that can be terminated.

    Args:
        llvm_ir: Text of the module.
        name: The kernel's name, for messages.
        opt: Optimisation level, as for `jit.compile_ir`.
        phases: Receives the seconds of each phase.

    Raises:
        CompilerProcessError: The process could not be started or has ended.
        PhaseStopped: The time limit of this thread's work was reached.
        TtoolsError: The module cannot be compiled, as with `jit.compile_ir`.
    """
    jit.host_target()  # an invalid TTOOLS_CPU must raise the user's error in this process
    request = _Request(llvm_ir, name, opt)
    try:
        worker = spawn_worker(f"{__name__}:serve", (), Limits(errors="dropped"), _CODEC)
    except (OSError, RuntimeError) as error:
        raise CompilerProcessError(f"the process cannot be started: {error}") from error
    try:
        answer: _Answer = answer_of(worker, request)
    except WorkerGoneError as error:
        raise CompilerProcessError(error.message) from error
    if answer.error:
        raise TtoolsError(answer.error)
    phases.update(answer.phases)
    return answer.object_code


def warn_of_fallback(name: str, error: CompilerProcessError) -> None:
    """Warn that a kernel is compiled in this process although it is large.

    Args:
        name: Name of the kernel.
        error: The reason why the compilation in another process failed.
    """
    text = (
        f"kernel `{name}` is compiled in this process, because its compilation in another process "
        f"failed ({error.message}); a time limit or Ctrl-C stops the launch, but not the "
        "compilation"
    )
    if isinstance(error.__cause__, WorkerGoneError):
        text += "; if memory ran out, run fewer processes at a time"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def serve(channel: Channel) -> None:
    """Receive one module over a channel, compile it, and send the result."""
    request: _Request = channel.receive()
    phases: dict[str, float] = {}
    try:
        code = jit.compile_ir(request.llvm_ir, name=request.name, opt=request.opt, phases=phases)
    except TtoolsError as error:
        channel.send(_Answer(b"", error.message, phases))
    else:
        channel.send(_Answer(code, "", phases))
