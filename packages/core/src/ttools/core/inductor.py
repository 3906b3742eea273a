"""The private interfaces of TorchInductor that ttools uses to follow launches of `torch.compile`.

Inductor writes each kernel to a file of its own, in which a `CachingAutotuner` wraps the jit
function. The autotuner compiles its configurations, possibly in worker processes, and chooses one.
Its launchers bypass Triton's own classes where possible: on a GPU, torch's static launcher loads
the binary, and Triton takes no further part in the launch. `launchable` makes a copy of the
autotuner whose launches go through Triton's `CompiledKernel`. All of this works with torch 2.11 to
2.13.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ref

from ttools.core.imports import after_import
from ttools.core.patches import Patches
from ttools.core.triton_versions.functions import (
    innermost_jit_function,
    jit_function_class,
    locate_as,
)

#: The module that defines `CachingAutotuner`.
MODULE = "torch._inductor.runtime.triton_heuristics"

_config: ContextVar[Any] = ContextVar("ttools_inductor_config", default=None)


def autotuner_class() -> Any:
    """Return `CachingAutotuner`, or None if Inductor has not been imported."""
    return getattr(sys.modules.get(MODULE), "CachingAutotuner", None)


def kernel_name(autotuner: Any) -> str:
    """Return the Python name of the kernel."""
    return str(autotuner.fn.__name__)


def configurations(autotuner: Any) -> Sequence[Any]:
    """Return the configurations to choose from; after compilation, those that still remain."""
    if autotuner.configs:
        return list(autotuner.configs)
    return [compiled.config for compiled in autotuner.launchers or autotuner.compile_results]


def is_tuned_by_user(autotuner: Any) -> bool:
    """Return whether the configurations come from an autotuner in the user's program."""
    return getattr(autotuner.heuristic_type, "name", "") == "USER_AUTOTUNE"


def jit_function(autotuner: Any) -> Any:
    """Return the jit function; reload it if a worker process sent it without its source.

    If the user wrote the kernel, the jit function and its callees get their locations in the user's
    file.
    """
    if autotuner.fn.fn is None:
        autotuner.fn = autotuner._reload_kernel().fn
    if autotuner.custom_kernel:
        _locate_in_script(autotuner.fn)
    return autotuner.fn


def _locate_in_script(copied: Any) -> None:
    """Give a kernel that Inductor copied, and its callees, their locations in the user's file."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    copied_file = copied.fn.__code__.co_filename
    if copied_file != copied.fn.__globals__.get("__file__"):
        return  # an earlier call has set the locations
    of_script: dict[str, list[Any]] = {}
    for kernel in list(kernel_side_table.id_to_kernel.values()):
        for function in _with_callees(innermost_jit_function(kernel)):
            of_script.setdefault(_body(function), []).append(function)
    for copy in _with_callees(copied):
        # If the same text occurs in two places of the user's program, it is unknown which one
        # Inductor copied, so the copy keeps its own locations.
        places = {
            (original.fn.__code__.co_filename, original.starting_line_number): original
            for original in of_script.get(_body(copy), [])
        }
        if copy.fn.__code__.co_filename == copied_file and len(places) == 1:
            locate_as(copy, *places.values())


def _with_callees(kernel: Any) -> list[Any]:
    """Return a jit function and all jit functions that it calls by name, directly or indirectly."""
    functions, pending = [], [kernel]
    while pending:
        function = pending.pop()
        if function in functions:
            continue
        functions.append(function)
        named = map(function.fn.__globals__.get, function.fn.__code__.co_names)
        pending.extend(callee for callee in named if isinstance(callee, jit_function_class()))
    return functions


def _body(function: Any) -> str:
    """Return the source after the function's name, because Inductor may rename kernels."""
    return str(function.src).partition("(")[2].strip()


def named_arguments(autotuner: Any, args: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of a launch by parameter.

    The result includes constants that no configuration sets.

    Args:
        args: Positional arguments of `CachingAutotuner.run`. Arguments beyond the kernel's
            parameters are numbers for the grid.
    """
    function = jit_function(autotuner)
    constants = {p.name for p in function.params if p.is_constexpr}
    names = [name for name in function.arg_names if name not in constants]
    meta_constants = autotuner.triton_meta.get("constants", {})
    unconfigured = constants.difference(*(config.kwargs for config in configurations(autotuner)))
    return {
        **{name: value for name, value in meta_constants.items() if name in unconfigured},
        **dict(zip(names, args, strict=False)),
    }


def grid_function(autotuner: Any, args: Sequence[Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Return the grid of a launch in the form that Triton expects.

    The grid is a function of the configuration's constants.
    """
    from torch._inductor.runtime.triton_heuristics import GridExpr

    # The closure must not refer to the autotuner, which cannot be pickled once it has launchers.
    configs, inductor_meta = list(configurations(autotuner)), autotuner.inductor_meta
    extra = autotuner.inductor_meta.get("extra_launcher_args", ())
    named = named_arguments(autotuner, args)
    named.update(zip(extra, args[len(args) - len(extra) :], strict=True))

    def grid(meta: Mapping[str, Any]) -> Any:
        matching = (c for c in configs if all(meta.get(k) == v for k, v in c.kwargs.items()))
        expression = GridExpr.from_meta(inductor_meta, next(matching, configs[0]))
        return expression.eval_slow({**meta, **named})

    return grid


def compiled_for(autotuner: Any) -> dict[str, Any]:
    """Return the compilation parameters of the chosen configuration, or else of the first one.

    Returns:
        The fields `signature`, `constants`, `configs` and options, as Triton passes them to
        `jit_cache_hook`.
    """
    function, meta = jit_function(autotuner), autotuner.triton_meta
    config = configurations(autotuner)[0]
    constants = {**meta.get("constants", {}), **config.kwargs}
    signature = {name: meta["signature"].get(name, "constexpr") for name in function.arg_names}
    return {
        "signature": {n: "constexpr" if n in constants else t for n, t in signature.items()},
        "constants": {(function.arg_names.index(n),): value for n, value in constants.items()},
        "configs": meta["configs"],
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }


def triton_autotuner(autotuner: Any) -> Any:
    """Return a Triton autotuner with the same configurations; there is one for each original."""
    from triton import autotune

    tuner = vars(autotuner).get("_ttools_autotuner")
    if tuner is None:
        function = jit_function(autotuner)
        constants = {p.name for p in function.params if p.is_constexpr}
        signature = autotuner.triton_meta["signature"]
        key = [n for n, kind in signature.items() if n not in constants and kind[:1] != "*"]
        zeroed = list(autotuner.reset_to_zero_arg_names)
        tuner = autotune(
            list(configurations(autotuner)),
            key=key,
            reset_to_zero=zeroed,
            restore_value=[n for n in autotuner.mutated_arg_names if n not in zeroed],
        )(function)
        autotuner._ttools_autotuner = tuner
    return tuner


def forget_choices(patches: Patches) -> None:
    """Make Inductor ignore earlier processes' tunings and compile all configurations again."""

    def install(config: Any) -> None:
        patches.enter(config.patch(force_disable_caches=True))

    patches.callback(after_import("torch._inductor.config", install))


def launch_by_triton(autotuner: Any, args: Sequence[Any]) -> None:
    """Launch a kernel through a Triton autotuner and jit function.

    Args:
        args: Positional arguments of `CachingAutotuner.run`.
    """
    named = named_arguments(autotuner, args)
    triton_autotuner(autotuner)[grid_function(autotuner, args)](**named)


@contextmanager
def _asking_triton() -> Iterator[None]:
    """Make kernels compiled in the `with` block use Triton's launcher instead of torch's."""
    from torch._inductor import config

    with config.patch(use_static_cuda_launcher=False):
        yield


def launchable(autotuner: Any, configs: Sequence[Any] | None = None, *, for_gpu: bool) -> Any:
    """Return a copy of an autotuner whose launches go through Triton's `CompiledKernel`.

    The copy has no compiled kernels yet. `asking` wraps `precompile`, which compiles them when they
    are needed.

    Args:
        autotuner: The original, which is not changed.
        configs: Configurations to choose from; by default the original's.
        for_gpu: True if kernels run on the GPU for which they are compiled. Inductor may then
            search for configurations by timing launches, and cache the results.
    """
    jit_function(autotuner)
    tuner = object.__new__(type(autotuner))  # copying by `copy` would pickle it
    vars(tuner).update(vars(autotuner), _ttools_original=ref(autotuner))
    tuner.lock = threading.Lock()
    tuner.configs = list(configs or configurations(autotuner))
    tuner.compile_results, tuner.launchers = [], []
    tuner._cached_launcher = None
    if not for_gpu:
        # These settings disable searches that time launches on the GPU, and the caching of their
        # results.
        leave_out = ("coordinate_descent_tuning", "combo_tuning_groups", "dynamic_scale_rblock")
        tuner.inductor_meta = {**tuner.inductor_meta, **dict.fromkeys(leave_out, False)}
        tuner.save_cache_hook = None
    return tuner


def is_launchable(autotuner: Any) -> bool:
    """Return whether `launchable` made this autotuner."""
    return "_ttools_original" in vars(autotuner)


def original(autotuner: Any) -> Any:
    """Return the autotuner that `launchable` copied, or the argument itself if it is not a copy."""
    copied_from = vars(autotuner).get("_ttools_original")
    return autotuner if copied_from is None else copied_from()


def asking(precompile: Callable[..., None]) -> Callable[..., None]:
    """Wrap `CachingAutotuner.precompile` so that launchers of copies call Triton at each launch."""

    def compile_configs(tuner: Any, *args: Any, **kwargs: Any) -> None:
        if not is_launchable(tuner):
            precompile(tuner, *args, **kwargs)
            return
        with _asking_triton():
            precompile(tuner, *args, **kwargs)
        for launcher in tuner.launchers:
            _ask_each_time(launcher)

    return compile_configs


def _ask_each_time(launcher: Any) -> None:
    """Make a launcher look up `kernel.run` at every launch, not once at its creation."""
    scope = launcher.__globals__  # these globals belong to this launcher alone
    kernel, config = scope["bin"], launcher.config

    def launch(*words: Any) -> Any:
        token = _config.set(config)
        try:
            return kernel.run(*words)
        finally:
            _config.reset(token)

    scope["runner"] = launch


def launched_config() -> Any:
    """Return the configuration of the current launch, or None outside launches by Inductor."""
    return _config.get()


def trial(tuner: Any, launcher: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a function for `CachingAutotuner.bench` to time; it launches with copied arguments."""
    interface = tuner.get_device_interface()
    stream = interface.get_raw_stream(interface.current_device())

    def launch() -> None:
        cloned, named = tuner.clone_args(*args, **kwargs)
        tuner.reset_to_zero_args(*args, **kwargs)
        launcher(*cloned, **named, stream=stream)

    return launch
