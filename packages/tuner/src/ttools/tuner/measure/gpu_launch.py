"""Interception of autotuned launches on a GPU, so that the tuner chooses their configuration."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ttools.core import inductor, triton_versions
from ttools.core.launch_path import INDUCTOR, TUNED, take_over
from ttools.core.patches import Patches
from ttools.interpreter.backend.autotuners import tuning_key
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.measure.code_identity import grid_of

Tune = Callable[[TunedCall], Any]

#: Active contexts of all threads; `Autotuner` is patched for the whole process.
_active: list[Patches] = []


@dataclass(frozen=True, kw_only=True)
class GpuTunedCall(TunedCall):
    """A launch whose preparation and kernel can be timed separately.

    Attributes:
        prepare: Function that runs the hooks and resets that Triton runs before a launch.
        bare: Function that launches the kernel without hooks and resets.
        programs: Function that returns the number of programs of a configuration, or None if the
            grid cannot be computed without a launch.
    """

    prepare: Callable[[Any], None]
    bare: Callable[[Any], Any]
    programs: Callable[[Any], int | None]


def being_captured() -> bool:
    """Return whether launches are now captured into a CUDA graph instead of run."""
    import torch

    return bool(torch.cuda.is_current_stream_capturing())


def is_active() -> bool:
    """Return whether autotuned launches on the GPU are being tuned."""
    return bool(_active)


@contextmanager
def tuning_on_gpu(selects: Callable[[str], bool], tune: Tune) -> Iterator[None]:
    """Pass autotuned launches of the selected kernels to `tune` while the context is active."""

    def tuned(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not selects(triton_versions.kernel_name(self)):
                return original(self, *args, **kwargs)
            return tune(gpu_launch(self, args, kwargs))

        return run

    def compiled(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            chosen = selects(inductor.kernel_name(self))
            if not chosen or len(inductor.configurations(self)) == 1:
                return original(self, *args, **kwargs)
            return inductor.launch_by_triton(self, args)

        return run

    with Patches() as patches:
        take_over(patches, TUNED, tuned)
        take_over(patches, INDUCTOR, compiled)
        inductor.forget_choices(patches)
        _active.append(patches)
        try:
            yield
        finally:
            _active.remove(patches)


def gpu_launch(tuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> GpuTunedCall:
    """Return the description of one call of an autotuned kernel."""
    named = dict(zip(tuner.arg_names, args, strict=False))
    arguments = {**named, **kwargs}
    key = tuning_key(tuner, arguments)

    def prepare(config: Any) -> None:
        values = {**arguments, **config.all_kwargs()}
        tuner.pre_hook(values, reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook(values)

    def bare(config: Any) -> Any:
        return tuner.fn.run(*args, **{**kwargs, **config.all_kwargs()})

    def run(config: Any) -> Any:
        prepare(config)
        return bare(config)

    def choose(config: Any) -> None:
        tuner.cache[key] = tuner.best_config = config

    def compiled(config: Any) -> Any:
        values = {**arguments, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(values)
        values.pop("warmup", None)
        return tuner.fn.run(**values, warmup=True)

    def programs(config: Any) -> int | None:
        grid = grid_of(arguments, config)
        return None if grid is None else math.prod(grid)

    return GpuTunedCall(
        kernel=triton_versions.kernel_name(tuner),
        tuner=tuner,
        configs=_pruned(tuner, named, kwargs),
        arguments=arguments,
        run=run,
        choose=choose,
        compiled=compiled,
        key=key,
        prepare=prepare,
        bare=bare,
        programs=programs,
    )


def _pruned(tuner: Any, named: dict[str, Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """Return the configurations that remain after the autotuner's own pruning."""
    if len(tuner.configs) <= 1:
        return list(tuner.configs)
    pruning = copy.copy(tuner)
    pruning.nargs = named
    return list(pruning.prune_configs(dict(kwargs)))
