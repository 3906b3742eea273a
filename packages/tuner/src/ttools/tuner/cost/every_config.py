"""The kernels of a program in all configurations of their autotuners, as sources to compile."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ttools.core import triton_versions
from ttools.core.compilation.config_matrix import Configured
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.process.host_line import host_line
from ttools.interpreter.run.tuned_launch import TunedCall, run_first
from ttools.tuner.cost.limits import specialised
from ttools.tuner.space.candidate import Candidate, candidates


class ConfigCollector:
    """Collects the configurations of autotuned launches, and runs only the first of them.

    The method `tune` is passed to `interpret`. Configurations that the autotuner's early pruning
    removes are left out, because Triton does not try them either.

    Args:
        names: Names of the kernels to collect; empty for all.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names
        self._lock = threading.Lock()
        #: Keeping each key's autotuner alive ensures that its `id` in the key stays unique.
        self._calls: dict[tuple[int, object], Any] = {}
        self._functions: list[Any] = []
        self._launches: list[list[Configured]] = []

    def tune(self, call: TunedCall) -> Any:
        """Collect the configurations of a call, and run the first one."""
        key = id(call.tuner), repr(call.key)
        with self._lock:
            is_new = key not in self._calls
            self._calls[key] = call.tuner
        if is_new and (not self._names or call.kernel in self._names):
            line = host_line()
            configs = [_configured(call, config, line) for config in candidates(call.configs)]
            with self._lock:
                self._launches.append(configs)
                self._functions.append(triton_versions.innermost_jit_function(call.tuner))
        return run_first(call)

    def launches(self, captured: Sequence[KernelSource]) -> list[list[Configured]]:
        """Return all configurations of each launch.

        Args:
            captured: The sources of all launches; sources of autotuned kernels are ignored.
        """
        alone = [
            [Configured(kernel=s.name, values={}, source=s, launched=s.launched)]
            for s in captured
            if all(s.function is not function for function in self._functions)
        ]
        return [*self._launches, *alone]


def _configured(call: TunedCall, candidate: Candidate, line: str | None) -> Configured:
    source, error = None, ""
    try:
        source = replace(specialised(call, candidate), launched=line)
    except Exception as reason:  # noqa: BLE001 - Triton's front end may raise anything
        error = " ".join(f"{type(reason).__name__}: {reason}".split())
    return Configured(
        kernel=call.kernel, values=candidate.values, source=source, error=error, launched=line
    )


def configs_of_kernel(kernel: Any, source: KernelSource) -> list[Configured]:
    """Return a kernel with a given signature in all configurations of its autotuner.

    Args:
        kernel: The kernel with its decorators.
        source: The kernel with the signature; the configurations override its constants.
    """
    tuner = _autotuner_of(kernel)
    if tuner is None:
        return [Configured(kernel=source.name, values={}, source=source)]
    return [
        Configured(
            kernel=source.name, values=candidate.values, source=_overridden(source, candidate)
        )
        for candidate in candidates(tuner.configs)
    ]


def _autotuner_of(kernel: Any) -> Any:
    while kernel is not None:
        if isinstance(kernel, triton_versions.autotuner_class()):
            return kernel
        kernel = getattr(kernel, "fn", None)
    return None


def _overridden(source: KernelSource, candidate: Candidate) -> KernelSource:
    names = list(source.signature)
    parameters: Mapping[str, Any] = candidate.config.kwargs
    constants: dict[tuple[int, ...], Any] = dict(source.constants)
    for name, value in parameters.items():
        if name in names:
            constants[(names.index(name),)] = value
    return replace(
        source,
        signature={
            name: "constexpr" if name in parameters else kind
            for name, kind in source.signature.items()
        },
        constants=constants,
        hints={
            path: hint for path, hint in source.hints.items() if names[path[0]] not in parameters
        },
        options={**candidate.values, **source.options},
    )
