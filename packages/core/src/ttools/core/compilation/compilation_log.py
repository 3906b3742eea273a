"""The compilations of a run, in order, with their durations and the launches that used them.

`observe_compilations` observes the launches, and the step in which Triton finds that it has no
variant of a kernel for a launch. This adds one dictionary look-up to each launch. The causes of the
compilations are determined afterwards, see `compilation_causes.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from ttools.core import inductor
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.context_values import bound
from ttools.core.launch_path import CALL, COMPILE, INDUCTOR, TRIAL, TUNED, observe, take_over
from ttools.core.patches import Patches
from ttools.core.process.host_line import host_line
from ttools.core.triton_versions import CompileTimes, always_compiles, observe_compile_times

#: Options that are reported even if they have their default values.
_ALWAYS = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")
#: Options that depend on the target or on the kernel's files, not on the launch.
_OF_TARGET = ("arch", "backend_name", "warp_size", "ptx_version", "supports_fp8e4nv")

#: The compilation in progress for each log, by `id` of the log; logs may be nested.
_compiling: ContextVar[Mapping[int, LoggedCompilation]] = ContextVar(
    "ttools_logged_compilations", default=MappingProxyType({})
)
_in_trial: ContextVar[bool] = ContextVar("ttools_launch_is_a_trial", default=False)
#: Identifies the call of an autotuned kernel that is in progress; one such call may launch several
#: configurations.
_tuned_call: ContextVar[object] = ContextVar("ttools_tuned_call", default=None)


@dataclass(eq=False, kw_only=True)
class LoggedCompilation:
    """One compilation of a kernel in a run, or its load from Triton's cache on disk.

    Attributes:
        source: The kernel with its specialisation and options.
        key: Triton's key of the variant in the memory of this process.
        device: Number of the device.
        warm_up: True if `kernel.warmup` requested it, so that nothing was launched.
        earlier_launches: Number of launches of the kernel before the one that needed the variant. A
            call of an autotuned kernel counts as one launch.
        seconds: Duration, including the time for accesses to a cache on disk.
        phases: Seconds by stage of Triton's compiler; empty if unknown.
        cached: True if the kernel was loaded from Triton's cache on disk; None if unknown.
        always_compiles: True if TRITON_ALWAYS_COMPILE disabled that cache.
        metadata: Triton's data about the compiled kernel; empty if unknown.
        launches: Number of launches that used the variant, except launches of an autotuner's
            search.
        trials: Number of launches by which an autotuner timed the variant.
        failed: True if the compiler raised an exception.
    """

    source: KernelSource
    key: str = ""
    device: Any = None
    warm_up: bool = False
    earlier_launches: int = 0
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    cached: bool | None = None
    always_compiles: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    launches: int = 0
    trials: int = 0
    failed: bool = False

    @property
    def kernel(self) -> tuple[str, int, str]:
        """Identify the kernel by file, line and name, because it may be decorated several times."""
        return kernel_identity(self.source.function)


def kernel_identity(function: Any) -> tuple[str, int, str]:
    """Return file, first line and qualified name of a jit function."""
    python = function.fn
    return python.__code__.co_filename, python.__code__.co_firstlineno, python.__qualname__


class CompilationLog:
    """The compilations of a run; `observe_compilations` fills it.

    Attributes:
        compilations: All compilations in the order in which they began.
        earlier_variants: Number of launches that used variants compiled before the observation.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.compilations: list[LoggedCompilation] = []
        self.earlier_variants = 0
        self._names = names
        self._lock = threading.Lock()
        self._by_kernel: dict[int, LoggedCompilation | None] = {}
        self._kept: list[Any] = []  # keeps compiled kernels alive, so that their ids stay unique
        #: For each kernel, the number of its launches and the autotuned call that made the last
        #: one.
        self._launches: dict[Any, tuple[int, object]] = {}
        self._by_triton: set[Any] = set()

    def by_kernel(self) -> list[list[LoggedCompilation]]:
        """Return the compilations by kernel, in the order of each kernel's first compilation."""
        groups: dict[tuple[str, int, str], list[LoggedCompilation]] = {}
        for entry in self.compilations:
            groups.setdefault(entry.kernel, []).append(entry)
        return list(groups.values())

    # ---- observation

    def _compiled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(function: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._observes(function):
                return original(function, key, *args, **kwargs)
            entry = self._begin(function, key, *args, **kwargs)
            start = time.perf_counter()
            kernel = None
            try:
                with bound(_compiling, {**_compiling.get(), id(self): entry}):
                    kernel = original(function, key, *args, **kwargs)
            except BaseException:
                entry.failed = True
                raise
            finally:
                entry.seconds = time.perf_counter() - start
                self._finish(entry, kernel)
            return kernel

        return compile

    def _observes(self, function: Any) -> bool:
        return not self._names or function.fn.__name__ in self._names

    def _begin(
        self,
        function: Any,
        key: Any,
        signature: Mapping[str, Any],
        device: Any,
        constants: Mapping[Any, Any],
        options: Any,
        hints: Mapping[Any, Any],
        warmup: bool,
    ) -> LoggedCompilation:
        entry = LoggedCompilation(
            source=KernelSource(
                name=function.fn.__name__,
                function=function,
                signature=dict(signature),
                constants=dict(constants),
                hints=dict(hints),
                options=_reported_options(options),
                launched=host_line(),
            ),
            key=str(key),
            device=device,
            warm_up=bool(warmup),
            always_compiles=always_compiles(),
        )
        with self._lock:
            entry.earlier_launches = self._earlier(entry.kernel)
            self._by_triton.add(function)
            self.compilations.append(entry)
        return entry

    def _finish(self, entry: LoggedCompilation, kernel: Any) -> None:
        with self._lock:
            if kernel is None:
                return
            self._kept.append(kernel)
            self._by_kernel[id(kernel)] = entry

    def _timed(self, times: CompileTimes) -> None:
        entry = _compiling.get().get(id(self)) or self._unfinished(times.source)
        if entry is not None:
            entry.phases, entry.cached, entry.metadata = times.seconds, times.cached, times.metadata

    def _unfinished(self, source: Any) -> LoggedCompilation | None:
        """Return the unfinished compilation that a compiler call in another thread belongs to."""
        function = getattr(source, "fn", None)
        with self._lock:
            for entry in self.compilations:
                ours = entry.source
                if (
                    ours.function is function
                    and entry.cached is None
                    and dict(source.signature) == dict(ours.signature)
                    and dict(source.constants) == dict(ours.constants)
                ):
                    return entry
        return None

    def _launched(
        self, function: Any, _args: tuple[Any, ...], kwargs: dict[str, Any], kernel: Any
    ) -> None:
        if kernel is None or kwargs.get("warmup") or not self._observes(function):
            return
        with self._lock:
            self._count(self._by_kernel.get(id(kernel)))

    def _count(self, entry: LoggedCompilation | None) -> None:
        if entry is None:
            self.earlier_variants += 1
        elif _in_trial.get():
            entry.trials += 1
        else:
            entry.launches += 1
            self._launches[entry.kernel] = self._earlier(entry.kernel) + 1, _tuned_call.get()

    def _earlier(self, kernel: object) -> int:
        """Return the number of launches of a kernel before the one in progress."""
        count, call = self._launches.get(kernel, (0, None))
        return count - (call is not None and call is _tuned_call.get())

    def _by_inductor(
        self, tuner: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any
    ) -> None:
        """Count a launch by TorchInductor, which compiles kernels without Triton's jit function."""
        with self._lock:
            variant = self._by_kernel.get(id(tuner))
            if variant is not None:
                self._count(variant)
                return
        function = inductor.jit_function(tuner)
        if function in self._by_triton or not self._observes(function):
            return
        compiled = inductor.compiled_for(tuner)
        (hints,) = compiled["configs"]
        source = KernelSource(
            name=function.fn.__name__,
            function=function,
            signature=dict(compiled["signature"]),
            constants=dict(compiled["constants"]),
            hints=dict(hints),
            options={name: compiled[name] for name in _ALWAYS if name in compiled},
            launched=host_line(),
        )
        with self._lock:
            entry = next((e for e in self.compilations if e.source == source), None)
            if entry is None:
                entry = LoggedCompilation(source=source)
                entry.earlier_launches = self._earlier(entry.kernel)
                self.compilations.append(entry)
            self._kept.append(tuner)
            self._by_kernel[id(tuner)] = entry
            self._count(entry)


@contextmanager
def observe_compilations(
    *, names: Sequence[str] = (), log: CompilationLog | None = None
) -> Iterator[CompilationLog]:
    """Record the compilations of Triton kernels and the launches that use them.

    Compilations by TorchInductor are recorded at the first launch, without durations, because
    Inductor may compile in other processes.

    Args:
        names: Names of the kernels to record; empty for all.
        log: A log of an earlier observation that is continued, with its own names; a new log by
            default.

    Yields:
        The log, which grows during the `with` block.

    Examples:
        >>> with observe_compilations() as log:
        ...     serve_requests()
        >>> [entry.source.name for entry in log.compilations]
        ['softmax_kernel', 'softmax_kernel']
    """
    log = CompilationLog(names) if log is None else log
    with Patches() as patches:
        take_over(patches, COMPILE, log._compiled)
        take_over(patches, TRIAL, _marked)
        take_over(patches, TUNED, _identified)
        observe(patches, CALL, after=log._launched)
        observe(patches, INDUCTOR, after=log._by_inductor)
        observe_compile_times(patches, log._timed)
        yield log


def _marked(original: Callable[..., Any]) -> Callable[..., Any]:
    def bench(*args: Any, **kwargs: Any) -> Any:
        with bound(_in_trial, True):
            return original(*args, **kwargs)

    return bench


def _identified(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with bound(_tuned_call, object()):
            return original(*args, **kwargs)

    return run


def _reported_options(options: Any) -> dict[str, Any]:
    """Return the options to report: the usual ones, and those that differ from their defaults."""
    defaults = {f.name: f.default for f in fields(options)} if is_dataclass(options) else {}
    return {
        name: value
        for name, value in vars(options).items()
        if name in _ALWAYS
        or (
            name not in _OF_TARGET
            and (value is None or isinstance(value, (bool, int, float, str)))
            and value != defaults.get(name)
        )
    }
