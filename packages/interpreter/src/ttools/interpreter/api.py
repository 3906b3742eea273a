"""Public interface of the CPU engine: `interpret()` runs chosen Triton kernels on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

from ttools.core.device_map.map_option import emulated_gpu, read_device_map
from ttools.core.device_map.mapping import map_devices
from ttools.core.errors import UsageError
from ttools.core.json_document import json_text
from ttools.core.kernel_selector import kernel_selector
from ttools.core.reports.notebook import Part, Table, Text
from ttools.core.reports.result import Result
from ttools.interpreter.abi.module import DotMode
from ttools.interpreter.run.delayed_activation import Beginning
from ttools.interpreter.run.interpretation import CompileKernel, Run, enter, leave
from ttools.interpreter.run.skipped_accesses import SkippedAccess
from ttools.interpreter.run.stats import KernelStats, stats_as_data
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.interpreter.runtime import selection
from ttools.interpreter.runtime.launch_options import LaunchOptions

if TYPE_CHECKING:
    from ttools.interpreter.run.kernel_launch import Observer

__all__ = ["Interpretation", "KernelStats", "device_map", "interpret"]


class Interpretation(ContextDecorator, Result):
    """A run of the engine, as a context manager and as a decorator; `interpret` creates it.

    It may be entered repeatedly, even while it is active, and by several threads. Its statistics
    then cover all of its launches. Launches of threads that have not entered any run, such as
    autograd's threads, belong to the run that was entered last.
    """

    def __init__(self, run: Run, device_map: str | None = None) -> None:
        self._run = run
        self._device_map = device_map
        #: Actions that undo the run's activation when it is left: one stack for each time it was
        #: entered.
        self._begun: list[ExitStack] = []

    def unshared(self) -> Interpretation:
        """Exclude launches of threads that have not entered any run, and return this run."""
        self._run.shared = False
        return self

    @property
    def stats(self) -> list[KernelStats]:
        """Launches, programs and times of each kernel, in the order of first use."""
        return self._run.statistics.kernels

    @property
    def warnings(self) -> list[str]:
        """Warnings about launches that completed."""
        return self._run.warnings

    @property
    def skipped(self) -> list[SkippedAccess]:
        """Accesses outside tensors that were skipped, one entry per launch and line."""
        return self._run.skipped

    @property
    def failures(self) -> list[SkippedAccess]:
        """Same as `skipped`: accesses outside tensors."""
        return self.skipped

    @property
    def notes(self) -> list[str]:
        """Notes on Triton's behaviour, such as assertions that are off without `debug`."""
        return self._run.notes

    def _formats(self) -> Mapping[str, Callable[[], str]]:
        return {**super()._formats(), "json": lambda: json_text(stats_as_data(self.stats))}

    def _shown(self) -> Iterator[Part]:
        columns = ("kernel", *(f">{name}" for name in ("launches", "programs")))
        times = (">front end ms", ">compile ms", ">run ms", ">cached")
        yield Table(
            "Kernel launches",
            (*columns, *times),
            [_row(kernel_stats) for kernel_stats in self.stats],
        )
        yield from map(Text, (*self.warnings, *self.notes))

    def __enter__(self) -> Interpretation:
        with ExitStack() as begun:
            enter(self._run)
            begun.callback(leave, self._run)
            if self._device_map is not None:
                begun.enter_context(device_map(self._device_map))
            # TRITON_INTERPRET must be handled before the program imports Triton, so begin at once
            # if it is set. Otherwise, the run begins when Triton is imported.
            now = bool(os.environ.get("TRITON_INTERPRET"))
            beginning = Beginning(self._take_over, now=now)
            begun.callback(self._end, beginning)
            self._begun.append(begun.pop_all())
        return self

    def _take_over(self) -> None:
        from ttools.core.triton_versions import take_over_triton_interpret

        if take_over_triton_interpret():
            self._run.warn("TRITON_INTERPRET is set; it is ignored, and kernels run in ttools")
        from ttools.interpreter.backend.interception import INTERCEPTION

        INTERCEPTION.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._begun.pop().close()

    def _end(self, beginning: Beginning) -> None:
        if beginning.end():
            from ttools.interpreter.backend.interception import INTERCEPTION

            INTERCEPTION.__exit__(None, None, None)


@contextmanager
def device_map(text: str = "cuda=cpu") -> Iterator[None]:
    """Map CUDA devices to the CPU while the context is active, in all threads.

    Tensors of the mapped device stay usable afterwards.

    Args:
        text: A device map in the format of `--device-map`: `cuda=cpu`, optionally with the
            properties that scripts see, such as `capability=9.0` and `sms=132`; or `off`, which
            changes nothing.

    Raises:
        UsageError: The text is not a device map, or differs from the active map.

    Examples:
        >>> with device_map("cuda=cpu,capability=9.0"):
        ...     kernel[grid](torch.ones(1024, device="cuda"))
    """
    with map_devices(read_device_map(text) or {}):
        yield


def _row(kernel: KernelStats) -> tuple[str, ...]:
    times = (kernel.front_end_s, kernel.compile_s, kernel.run_s)
    return (
        kernel.kernel,
        *(f"{count:,}" for count in (kernel.launches, kernel.programs)),
        *(f"{1e3 * seconds:,.2f}" for seconds in times),
        f"{kernel.cache_hits:,}",
    )


def interpret(
    *,
    only: Sequence[str] | Callable[[str], bool] | None = None,
    threads: int | None = None,
    order: Literal["natural", "reverse", "random"] = "natural",
    seed: int = 0,
    programs: str | None = None,
    first_config: bool = False,
    schedule: Literal["fused", "materialised"] = "fused",
    observer: Observer | None = None,
    tune: Callable[[TunedCall], Any] | None = None,
    compile_kernel: CompileKernel | None = None,
    engine: Literal["native", "eager"] = "native",
    dot: DotMode | None = None,
    device_map: str | None = None,
    gpu: str | None = None,
    timeout: float | None = None,
    unsafe: bool | None = None,
) -> Interpretation:
    """Run Triton kernels on the CPU while the returned context is active.

    Kernels that `only` excludes run where they would run without the context. Tensors on a GPU are
    copied to the host for a launch, and what the launch wrote is copied back. Inside an outer run
    that observes launches, such as `sanitize()`, the launches of this run are observed, too.

    Args:
        only: Names of kernels, or a predicate on names; all kernels by default.
        threads: Number of threads that run the programs of a launch; by default as many as torch
            uses.
        order: Order in which programs start.
        seed: Seed of the random order and of `random:N` in `programs`.
        programs: The programs that run, as in `0,5:8,last,random:64`; all by default.
        first_config: If True, autotuners take their first configuration without timing.
        schedule: `materialised` stores every intermediate tensor, which is slow; it serves as the
            reference implementation.
        observer: Runs each launch with the instruments that it chooses, see
            `run/kernel_launch.py`.
        tune: Runs autotuned launches that are not timed, see `run/tuned_launch.py`; by default they
            run in their first configuration.
        compile_kernel: Called in place of Triton's front end with the name of a kernel and a
            function that compiles it; if it returns None, the launch is skipped.
        engine: `native` runs compiled code. `eager` runs the kernel's source as Python in this
            thread, for debuggers; autotuners then take their first configuration.
        dot: `as-written` computes products of f32 tiles with the `input_precision` of `tl.dot`, as
            a GPU does (tf32 unless the kernel sets another one). `exact` does not round the
            operands. `tensor-core` also sums products of f32, f16 and bf16 bitwise as Hopper's
            tensor cores do, which is many times slower. The default is the value of the variable
            TTOOLS_DOT, or `as-written`.
        device_map: `cuda=cpu` maps CUDA devices to the CPU, see `device_map`; by default no device
            is mapped.
        gpu: Name or architecture of a GPU that the device map emulates, such as `h100` or `sm_90`;
            it replaces `device_map`.
        timeout: Seconds after which a launch, or the compilation of its TTIR, is stopped and raises
            `KernelError`; None or 0, the default, for no limit.
        unsafe: If True, accesses outside tensors are executed, which can corrupt the memory of the
            process. By default they are skipped, and reported once for each line of a kernel. The
            variable TTOOLS_UNSAFE changes the default.

    Returns:
        The run: a context manager and a decorator, with `stats` and `warnings`.

    Raises:
        UsageError: An argument is invalid; on entry, if Triton was imported with its own
            interpreter switched on (TRITON_INTERPRET).

    Examples:
        >>> with interpret(only=["softmax_kernel"]) as run:
        ...     softmax(x)
        >>> run.stats[0].programs
    """
    _check("order", order, ("natural", "reverse", "random"))
    _check("schedule", schedule, ("fused", "materialised"))
    _check("engine", engine, ("native", "eager"))
    if dot is not None:
        _check("dot", dot, get_args(DotMode))
    if engine == "eager" and observer is not None:
        raise UsageError("engine='eager': an observer needs the native engine")
    if programs is not None:
        selection.parse(programs)
    device_map = emulated_gpu(device_map, gpu)
    if device_map is not None:
        read_device_map(device_map)
    return Interpretation(
        Run(
            selects=kernel_selector(only),
            launch_options=LaunchOptions(
                threads=threads, order=order, seed=seed, programs=programs, seconds=timeout or None
            ),
            schedule=schedule,
            first_config=first_config or engine == "eager",
            observer=observer,
            tune=tune,
            compile_kernel=compile_kernel,
            engine=engine,
            dot=dot,
            unsafe=unsafe,
        ),
        device_map,
    )


def _check(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(f"{name}={value!r}: must be one of {', '.join(choices)}")
