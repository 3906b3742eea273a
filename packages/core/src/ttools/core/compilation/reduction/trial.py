"""Compiles kernels that may crash or hang, in a worker process that is replaced when necessary.

The worker is a fork of a process that has imported Triton, so that a new one starts quickly. It
announces each stage of a compilation. If it ends or exceeds the time limit, the stage that was
announced last is the one that failed.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import shutil
import tempfile
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ttools.core.compilation.reduction.failure import (
    FRONT_END,
    CompileFailure,
    failure_of_crash,
    failure_of_exception,
)
from ttools.core.compilation.standalone import IMPORTS, Parameter, StandaloneKernel
from ttools.core.gpus.launch_rules import GpuNeeds, broken_rules, limits_of
from ttools.core.gpus.targets import Target
from ttools.core.process.channel import Channel, DataCodec, WorkerGoneError, WorkerSlowError
from ttools.core.process.worker import Limits, Worker, exit_text, fork_worker
from ttools.core.triton_versions import allocate_memory, begin_compilation

#: A worker is replaced after this many kernels, because Triton and LLVM retain memory for each of
#: them.
_KERNELS_PER_WORKER = 500
_LOADING = "loading"
#: Number of bytes that are read from each end of a worker's output to standard error.
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class _Order:
    """A kernel to compile.

    Attributes:
        last_stage: The stage after which the compilation ends; empty to complete it, `RESOURCES`
            to end when memory has been allocated.
    """

    kernel: StandaloneKernel
    last_stage: str


@dataclass(frozen=True)
class _Done:
    """The result of a compilation.

    Attributes:
        failure: The failure; None if the compilation succeeded.
    """

    failure: CompileFailure | None


#: Name of a last stage that allocates memory, but generates no code.
RESOURCES = "resources"


def kernel_codec(*classes: type) -> DataCodec:
    """Return a codec for kernels, failures, and further dataclasses."""
    return DataCodec(StandaloneKernel, Parameter, CompileFailure, *classes)


class Compiler:
    """Compiles kernels for a target in a worker process.

    Args:
        seconds: Time limit for one compilation.
    """

    def __init__(self, target: Target, seconds: float) -> None:
        self._target, self._seconds = target, seconds
        self._folder = Path(tempfile.mkdtemp(prefix="ttools-reduce-"))
        self._worker: Worker | None = None
        self._compiled = 0

    def __enter__(self) -> Compiler:
        import triton.compiler
        import triton.language  # noqa: F401 - imported for the forks

        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def compile(self, kernel: StandaloneKernel, last_stage: str = "") -> CompileFailure | None:
        """Compile a kernel; return the failure, or None if there is none.

        Args:
            last_stage: Stage after which the compilation ends; empty to complete it.
        """
        if self._worker is None or self._compiled >= _KERNELS_PER_WORKER:
            self._end()
            self._worker = self._started()
        self._compiled += 1
        stage, deadline = _LOADING, time.monotonic() + self._seconds
        try:
            self._worker.send(_Order(kernel, last_stage), self._seconds)
            while True:
                answer = self._worker.receive(max(deadline - time.monotonic(), 0.0))
                if isinstance(answer, _Done):
                    return answer.failure
                stage = str(answer)
        except WorkerSlowError:
            self._worker = None
            return CompileFailure(
                kind="timeout",
                stage=stage,
                error=f"the compilation did not end within {self._seconds:g} s",
            )
        except WorkerGoneError as error:
            self._worker = None
            return failure_of_crash(exit_text(error.code), stage, self._output.read())

    @property
    def _output(self) -> _Output:
        return _Output(self._folder / "stderr")

    def _started(self) -> Worker:
        self._compiled = 0
        limits = Limits(cache=str(self._folder))
        serve = partial(_serve, self._target, self._folder, self._output)
        return fork_worker(serve, limits, kernel_codec(_Order, _Done))

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
        self._worker = None


@dataclass(frozen=True)
class _Output:
    """The file that receives the standard error of a worker."""

    path: Path

    def receive(self) -> None:
        """Redirect standard error of this process to the file."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
        os.dup2(descriptor, 2)
        os.close(descriptor)

    def clear(self) -> None:
        os.truncate(self.path, 0)

    def read(self) -> str:
        """Return the output, of which the middle is omitted if it is long."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return ""
        if len(data) > 2 * _READ_BYTES:
            data = data[:_READ_BYTES] + b"\n" + data[-_READ_BYTES:]
        return data.decode(errors="replace")


# ---- in the worker


def _serve(target: Target, folder: Path, output: _Output, channel: Channel) -> None:
    output.receive()
    warnings.simplefilter("ignore")
    for number in range(_KERNELS_PER_WORKER + 1):
        order: _Order = channel.receive()
        output.clear()
        failure = _compile(order, target, folder / f"kernel_{number}.py", channel, output)
        channel.send(_Done(failure))


def _compile(
    order: _Order, target: Target, path: Path, channel: Channel, output: _Output
) -> CompileFailure | None:
    stage = _LOADING
    names: list[str] = []
    constants: dict[str, Any] = {}

    def enter(name: str) -> None:
        nonlocal stage
        stage = name
        channel.send(name)

    path.write_text(f"{IMPORTS}\n{order.kernel.definitions}", "utf-8")
    try:
        namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
        exec(compile(path.read_text("utf-8"), str(path), "exec"), namespace)
        source = eval(order.kernel.source, namespace)
        options = eval(order.kernel.options_text, namespace)
        names.extend(source.signature)
        constants.update((names[i[0]], v) for i, v in source.constants.items() if len(i) == 1)
        enter(FRONT_END)
        staged = begin_compilation(source, target.gpu_target(), options)
        if order.last_stage == FRONT_END:
            return None
        module = staged.module
        for name, run in staged.stages.items():
            enter(name)
            if name == "llir" and order.last_stage in ("", RESOURCES):
                failure = _exceeded(source, target, options)
                if failure is not None or order.last_stage == RESOURCES:
                    return failure
            module = run(module, staged.metadata)
            if name == order.last_stage:
                break
        return None
    except Exception as error:  # noqa: BLE001 - any error of the compiler is a failure
        if stage == _LOADING and not isinstance(error, (SyntaxError, NameError)):
            stage = FRONT_END
        return failure_of_exception(error, stage, output.read(), names, constants)
    finally:
        linecache.cache.pop(str(path), None)
        with contextlib.suppress(OSError):
            path.unlink()


def _exceeded(source: Any, target: Target, options: dict[str, Any]) -> CompileFailure | None:
    """Return a failure if the kernel needs more memory or threads than the GPU has."""
    if target.limits is None:
        return None
    memory = allocate_memory(source, target.gpu_target(), options)
    needs = GpuNeeds(
        threads=memory.warps * target.threads,
        shared=memory.shared,
        tensor_memory=memory.tensor,
        cluster=options.get("num_ctas"),
    )
    violations = broken_rules(needs, limits_of(target, memory.warps))
    if not violations:
        return None
    first = violations[0]
    return CompileFailure(
        kind="resources", stage="llir", error=first.rule, message=first.message, remedy=first.help
    )
