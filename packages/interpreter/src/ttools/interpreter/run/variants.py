"""The native variants of one kernel: one for each combination of launch facts and emit options.

`Variants` converts the TTIR text of a kernel to native code when a variant is needed, and keeps all
variants that were compiled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from ttools.core.errors import KernelError, during
from ttools.core.process.phases import PhaseStopped, Work, current_work, phase
from ttools.interpreter.abi.module import (
    EmitOptions,
    EmittedModule,
    Facts,
    Instruments,
    MemoryEffects,
)
from ttools.interpreter.analysis.accesses import accesses, mark_proved
from ttools.interpreter.analysis.address_sources import address_sources
from ttools.interpreter.analysis.effects import memory_effects
from ttools.interpreter.analysis.launch_bounds import AccessBounds, Memory
from ttools.interpreter.emit.instruments.synchronisation import synchronises_programs
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.run.stats import Statistics
from ttools.interpreter.runtime.cache import Compilation, get_or_compile
from ttools.interpreter.runtime.launch import INTERRUPTED, Kernel
from ttools.ir import Module
from ttools.ir.parser import parse_module


class Variants:
    """The native variants of one kernel.

    Attributes:
        effects: Parameters that the kernel may write through.
        parameters: MLIR text of each parameter's type.
        addresses: Sources of the integers that the kernel converts to pointers.
    """

    def __init__(self, name: str, ttir: str) -> None:
        self._name = name
        self._ttir = ttir
        self._lock = threading.RLock()  # re-entrant: a rewrite may read `module` while it compiles
        self._kernels: dict[tuple[Facts, EmitOptions], Kernel] = {}
        self._latest: tuple[Facts, EmitOptions, Instruments | None, Kernel] | None = None
        start = time.perf_counter()
        with during(f"reading the TTIR of kernel `{name}`"):
            module = parse_module(ttir)
            self.effects: MemoryEffects = memory_effects(module)
            arguments = module.kernel.regions[0].entry.arguments
            self.parameters = tuple(str(value.type) for value in arguments)
            self.addresses = address_sources(module)
            self._defined = module.kernel.location
        self._module: Module | None = module
        self._shared = False
        self._read_s = time.perf_counter() - start

    def kernel(
        self,
        facts: Facts,
        options: EmitOptions,
        statistics: Statistics | None,
        instruments: Instruments | None = None,
        rewrite: Callable[[Module], None] | None = None,
        seconds: float | None = None,
    ) -> Kernel:
        """Return the variant for some facts and options, and compile it if necessary.

        Launchers and observers pass the same objects for equal facts and options. Therefore a
        launch like the previous one is recognised by comparing identities.

        Args:
            facts: The facts about the arguments of the launch.
            options: Options for emitting the kernel.
            statistics: Counts the compilation and its time.
            instruments: The instruments, if they differ from those in `options`.
            rewrite: Applies the rewrites that the instruments name.
            seconds: Time limit of the compilation; None for no limit. It is ignored if the work of
                this thread already has a time limit.

        Raises:
            KernelError: The compilation took longer (kind `timeout`).
        """
        latest = self._latest
        if (
            latest is not None
            and latest[0] is facts
            and latest[1] is options
            and latest[2] is instruments
        ):
            return latest[3]
        how = options if instruments is None else replace(options, instruments=instruments)
        compiled = self._find_or_compile(facts, how, statistics, rewrite, seconds)
        self._latest = facts, options, instruments, compiled
        return compiled

    def _find_or_compile(
        self,
        facts: Facts,
        options: EmitOptions,
        statistics: Statistics | None,
        rewrite: Callable[[Module], None] | None,
        seconds: float | None,
    ) -> Kernel:
        compiled = self._kernels.get((facts, options))
        if compiled is not None:
            return compiled
        with self._lock:
            compiled = self._kernels.get((facts, options))
            if compiled is None:
                start = time.perf_counter()
                with self._limited(seconds):
                    compilation = self._compile(facts, options, rewrite)
                compiled = self._kernels[facts, options] = compilation.kernel
                if statistics is not None:
                    seconds = time.perf_counter() - start + self._read_s
                    statistics.count_compilation(self._name, seconds, compilation.hit)
                self._read_s = 0.0
        return compiled

    @contextmanager
    def _limited(self, seconds: float | None) -> Iterator[None]:
        """Return a context that stops a compilation when its time limit is reached.

        If the work of this thread has a time limit already, the context has no effect.

        Raises:
            KernelError: The time limit was reached (kind `timeout`).
        """
        if seconds is None or current_work() is not None:
            yield
            return
        try:
            with Work(self._name, 1, seconds, "compilation"):
                yield
        except PhaseStopped as stop:
            if stop.reason == "interrupt":
                raise SystemExit(INTERRUPTED) from None  # ends a thread without a message
            raise KernelError(
                f"compilation of kernel `{self._name}` was stopped after {stop.seconds:.3g} s, so "
                "the kernel was not launched",
                self._defined,
                kind="timeout",
            ) from None

    @property
    def ttir(self) -> str:
        return self._ttir

    @property
    def module(self) -> Module:
        """The kernel's module, which must not be changed. Callers may keep it."""
        with self._lock:
            self._shared = True
            return self._read()

    def _read(self) -> Module:
        module = self._module
        if module is None:
            module = self._module = parse_module(self._ttir)
        return module

    @cached_property
    def synchronises(self) -> bool:
        """True if one program of the kernel can observe effects of another."""
        return synchronises_programs(self._read())

    def proved(
        self,
        grid: Sequence[int],
        scalars: Mapping[int, int],
        memory: Mapping[int, Memory | None],
    ) -> tuple[int, tuple[int, ...]]:
        """Return the module's number of accesses, and the indices of the accesses proved in bounds.

        Args:
            grid: Number of programs along each axis.
            scalars: Values of integer parameters by index.
            memory: Memory behind each pointer parameter by index; None if unknown.
        """
        with self._lock:
            module = self._read()
            all_accesses = accesses(module)
            bounds = AccessBounds(module.kernel, grid, scalars, memory)
            return len(all_accesses), tuple(
                n for n, op in enumerate(all_accesses) if bounds.is_inside(op)
            )

    def _take(self) -> Module:
        """Return a module that emission may change.

        Most kernels are compiled once, so their module is not copied. If a caller of `module` may
        still read it, the text is parsed again. Otherwise, an analysis that refers to operations by
        position would refer to different operations after the emission.
        """
        if self._shared:
            return self.parse()
        module, self._module = self._read(), None
        return module

    def parse(self) -> Module:
        """Return a copy of the kernel's module, which the caller may change."""
        return parse_module(self._ttir)

    def _compile(
        self, facts: Facts, options: EmitOptions, rewrite: Callable[[Module], None] | None
    ) -> Compilation:
        def emit() -> EmittedModule:
            if rewrite is None:
                module = self._take()
                mark_proved(module, options.instruments.proved)
                return emit_kernel(module, facts, options)
            module = self.parse()
            mark_proved(module, options.instruments.proved)
            rewrite(module)
            return emit_kernel(module, facts, options)

        with phase("compilation"), during(f"compiling kernel `{self._name}` for the CPU"):
            return get_or_compile(
                self._ttir, facts, options, emit, name=self._name, defined=self._defined
            )
