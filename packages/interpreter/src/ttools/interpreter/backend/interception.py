"""Replaces parts of Triton while runs of `interpret()` are active, and restores them afterwards.

Selected kernels are launched by the CPU driver even if another driver is active. Triton then sees a
`Dispatcher` in place of both drivers; a context variable determines which driver handles a call.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from itertools import repeat
from typing import Any
from weakref import WeakKeyDictionary

from ttools.core import triton_versions
from ttools.core.buffers import as_argument
from ttools.core.context_values import bound
from ttools.core.errors import UsageError
from ttools.core.launch_path import (
    CALL,
    COMPILE,
    INTERPRETED,
    TRIAL,
    TUNED,
    take_over,
    take_over_overrides,
)
from ttools.core.patches import Patches
from ttools.interpreter.backend.autotuners import tuned_on_cpu
from ttools.interpreter.backend.driver import eager_device, launches_are_eager
from ttools.interpreter.backend.front_end import compile_for_run
from ttools.interpreter.backend.inductor import InductorKernels
from ttools.interpreter.backend.tuned_config import known_trial
from ttools.interpreter.run.interpretation import Run, selecting_run

#: Device number of the CPU driver next to a GPU driver; no GPU has this number.
_DEVICE_BESIDE_A_GPU = -1

_to_cpu: ContextVar[bool] = ContextVar("ttools_kernel_goes_to_cpu", default=False)


def _routed(to_cpu: bool) -> AbstractContextManager[None]:
    return bound(_to_cpu, to_cpu)


class Dispatcher:
    """Triton's active driver during runs for which another driver is also needed.

    Args:
        cpu: Driver for the selected kernels.
        other: Driver for all other calls.
    """

    def __init__(self, cpu: Any, other: Any) -> None:
        self._cpu = cpu
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cpu if _to_cpu.get() else self._other, name)


def _install(patches: Patches) -> None:
    is_default = _take_driver(patches)
    take_over(patches, CALL, _routed_run)
    take_over(patches, COMPILE, _timed_compile)
    take_over(patches, TRIAL, known_trial)
    for replace in (take_over, take_over_overrides):
        replace(patches, TUNED, lambda run: tuned_on_cpu(run, is_default, _cpu_tuner, _routed))
    take_over(patches, INTERPRETED, _refusing_run)
    if not is_default:
        InductorKernels(is_default=False, routed=_routed).install(patches)


def _take_driver(patches: Patches) -> bool:
    """Make the CPU driver reachable; return whether it was the active driver already."""
    from ttools.interpreter.backend.driver import CPUDriver

    config = triton_versions.driver_config()
    other = triton_versions.active_driver()
    if isinstance(other, CPUDriver):
        return True
    cpu = CPUDriver(_DEVICE_BESIDE_A_GPU)
    patches.callback(lambda: config.set_active(other))
    config.set_active(cpu if other is None else Dispatcher(cpu, other))
    return False


#: The replacements are shared by all runs, because Triton's classes are global: they are installed
#: when the first run begins and undone when the last one ends.
INTERCEPTION = Patches(_install)

_cpu_tuners: WeakKeyDictionary[Run, WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()


def _cpu_tuner(tuner: Any, run: Run) -> Any:
    """Return the copy of an autotuner that a run uses.

    The copy has its own cache and timer, so that times measured on the CPU never determine the
    configuration on a GPU.
    """
    tuners = _cpu_tuners.setdefault(run, WeakKeyDictionary())
    cpu_tuner = tuners.get(tuner)
    if cpu_tuner is None:
        cpu_tuner = tuners[tuner] = copy.copy(tuner)
        cpu_tuner.cache, cpu_tuner.left_by_key = {}, {}
        cpu_tuner.__dict__.pop("do_bench", None)
        # If the tuner was given the old arguments `warmup`, `rep` and `use_cuda_graph`, its timer
        # is one for a GPU.
        cpu_tuner._do_bench = None
    return cpu_tuner


def _routed_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest and IPython leave such frames out
        chosen = selecting_run(self.fn.__name__)
        if chosen is not None:
            kwargs["grid"] = _checked_grid(kwargs.get("grid"), self.fn.__name__)
            args, kwargs = _with_buffers(args, kwargs)
        # Do not use a context manager here: creating one takes time, and every launch runs this
        # code.
        token = _to_cpu.set(chosen is not None)
        try:
            eager = chosen is not None and chosen.engine == "eager"
            if eager == launches_are_eager():
                return original(self, *args, **kwargs)
            with eager_device("eager" if eager else False):
                return original(self, *args, **kwargs)
        finally:
            _to_cpu.reset(token)

    return run


def _with_buffers(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a launch, with NumPy arrays wrapped in objects that act as pointers.

    Raises:
        UsageError: An array cannot be the argument of a kernel.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return args, kwargs
    wrapped = numpy.ndarray, tuple
    types = repeat(wrapped)
    count = sum(map(isinstance, args, types)) + sum(map(isinstance, kwargs.values(), types))
    if count == isinstance(kwargs.get("grid"), wrapped):
        return args, kwargs
    return (
        tuple(map(as_argument, args)),
        {name: as_argument(value) for name, value in kwargs.items()},
    )


def _checked_grid(grid: Any, kernel: str) -> Any:
    """Return a grid unchanged if it has one to three extents; Triton would ignore further ones.

    If the grid is a function, return a function that also checks its result.

    Raises:
        UsageError: The grid has no extent, or more than three.
    """
    if callable(grid):
        return lambda meta: _checked_grid(grid(meta), kernel)
    if isinstance(grid, (tuple, list)) and not 1 <= len(grid) <= 3:
        raise UsageError(
            f"kernel `{kernel}`: the grid {tuple(grid)} has {len(grid)} dimensions; Triton grids "
            "have one to three"
        )
    return grid


def _timed_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    def _do_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = self.fn.__name__
        compiles = lambda: original(self, *args, **kwargs)  # noqa: E731
        return compile_for_run(selecting_run(name), name, compiles)

    return _do_compile


def _refusing_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = self.fn.__name__
        if selecting_run(name) is not None:
            raise UsageError(
                f"kernel `{name}` was decorated while TRITON_INTERPRET was set, so it runs in "
                "Triton's interpreter instead of ttools; unset TRITON_INTERPRET"
            )
        return original(self, *args, **kwargs)

    return run
