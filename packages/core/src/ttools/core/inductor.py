"""Every private name of TorchInductor that ttools relies on: how `torch.compile` launches kernels.

Inductor writes each kernel to a file of its own, where a `CachingAutotuner` stands around the jit
function. That compiles its configurations, for which it may have worker processes, chooses one, and
has launchers made that leave Triton's own classes aside as far as they can: on a GPU a launcher of
torch's takes the binary, and Triton is not asked any more. What is `launchable` is the same kernel
with launchers that do ask. Works with torch 2.11 to 2.13. Must not know who wants to see launches,
nor where kernels run.
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

#: Where the class of its autotuners is.
MODULE = "torch._inductor.runtime.triton_heuristics"

_config: ContextVar[Any] = ContextVar("ttools_inductor_config", default=None)


def autotuner_class() -> Any:
    """`CachingAutotuner`; None while Inductor was not imported."""
    return getattr(sys.modules.get(MODULE), "CachingAutotuner", None)


def kernel_name(autotuner: Any) -> str:
    """The Python name of its kernel."""
    return str(autotuner.fn.__name__)


def configurations(autotuner: Any) -> Sequence[Any]:
    """What it chooses from; once it has compiled and chosen, what it chose."""
    if autotuner.configs:
        return list(autotuner.configs)
    return [each.config for each in autotuner.launchers or autotuner.compile_results]


def is_tuned_by_user(autotuner: Any) -> bool:
    """Whether the configurations are those of a kernel that the script has under an autotuner."""
    return getattr(autotuner.heuristic_type, "name", "") == "USER_AUTOTUNE"


def jit_function(autotuner: Any) -> Any:
    """The jit function, of which worker processes send everything but the function.

    It and what it calls are where the script has them, if they are the script's.
    """
    if autotuner.fn.fn is None:
        autotuner.fn = autotuner._reload_kernel().fn
    if autotuner.custom_kernel:
        _locate_in_script(autotuner.fn)
    return autotuner.fn


def _locate_in_script(copied: Any) -> None:
    """Gives a kernel that Inductor copied, and its helpers, their places in the script."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    copied_file = copied.fn.__code__.co_filename
    if copied_file != copied.fn.__globals__.get("__file__"):
        return  # it was given its place before
    of_script: dict[str, list[Any]] = {}
    for kernel in list(kernel_side_table.id_to_kernel.values()):
        for function in _with_callees(innermost_jit_function(kernel)):
            of_script.setdefault(_body(function), []).append(function)
    for copy in _with_callees(copied):
        # The same text in two places: which of them it is cannot be known.
        places = {
            (each.fn.__code__.co_filename, each.starting_line_number): each
            for each in of_script.get(_body(copy), [])
        }
        if copy.fn.__code__.co_filename == copied_file and len(places) == 1:
            locate_as(copy, *places.values())


def _with_callees(kernel: Any) -> list[Any]:
    """A jit function and those it calls by name, directly or not."""
    found, due = [], [kernel]
    while due:
        function = due.pop()
        if function in found:
            continue
        found.append(function)
        named = map(function.fn.__globals__.get, function.fn.__code__.co_names)
        due.extend(each for each in named if isinstance(each, jit_function_class()))
    return found


def _body(function: Any) -> str:
    """The text without the name, which Inductor changes where two kernels share it."""
    return str(function.src).partition("(")[2].strip()


def named_arguments(autotuner: Any, args: Sequence[Any]) -> dict[str, Any]:
    """What a launch passes, by parameter, with constants that are no configuration's.

    Args:
        args: of the call of its `run`; behind those of the kernel are numbers for the grid only.
    """
    function = jit_function(autotuner)
    constants = {p.name for p in function.params if p.is_constexpr}
    names = [name for name in function.arg_names if name not in constants]
    given = autotuner.triton_meta.get("constants", {})
    own = constants.difference(*(config.kwargs for config in configurations(autotuner)))
    return {
        **{name: value for name, value in given.items() if name in own},
        **dict(zip(names, args, strict=False)),
    }


def grid_function(autotuner: Any, args: Sequence[Any]) -> Callable[[Mapping[str, Any]], Any]:
    """The grid of a launch as Triton takes it: a function of the configuration's constants."""
    from torch._inductor.runtime.triton_heuristics import GridExpr

    # Not the autotuner itself: one with launchers cannot be sent to processes that time.
    every, written = list(configurations(autotuner)), autotuner.inductor_meta
    extra = autotuner.inductor_meta.get("extra_launcher_args", ())
    named = named_arguments(autotuner, args)
    named.update(zip(extra, args[len(args) - len(extra) :], strict=True))

    def grid(meta: Mapping[str, Any]) -> Any:
        suits = (c for c in every if all(meta.get(k) == v for k, v in c.kwargs.items()))
        expression = GridExpr.from_meta(written, next(suits, every[0]))
        return expression.eval_slow({**meta, **named})

    return grid


def compiled_for(autotuner: Any) -> dict[str, Any]:
    """What a kernel is compiled for in its first configuration, or in the one that it chose.

    Returns:
        As Triton's `jit_cache_hook` tells it: `signature`, `constants`, `configs`, and options.
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
    """An autotuner of Triton's over the same configurations, one for each of Inductor's."""
    from triton import autotune

    made = vars(autotuner).get("_ttools_autotuner")
    if made is None:
        function = jit_function(autotuner)
        constants = {p.name for p in function.params if p.is_constexpr}
        signature = autotuner.triton_meta["signature"]
        key = [n for n, kind in signature.items() if n not in constants and kind[:1] != "*"]
        zeroed = list(autotuner.reset_to_zero_arg_names)
        made = autotune(
            list(configurations(autotuner)),
            key=key,
            reset_to_zero=zeroed,
            restore_value=[n for n in autotuner.mutated_arg_names if n not in zeroed],
        )(function)
        autotuner._ttools_autotuner = made
    return made


def forget_choices(patches: Patches) -> None:
    """Has Inductor compile anew, with all configurations, what an earlier process has tuned."""

    def install(config: Any) -> None:
        patches.enter(config.patch(force_disable_caches=True))

    patches.callback(after_import("torch._inductor.config", install))


def launch_by_triton(autotuner: Any, args: Sequence[Any]) -> None:
    """Launches as Triton does, by its own autotuner and jit function.

    Args:
        args: of the call of its `run`.
    """
    named = named_arguments(autotuner, args)
    triton_autotuner(autotuner)[grid_function(autotuner, args)](**named)


@contextmanager
def _asking_triton() -> Iterator[None]:
    """Has kernels compiled here launched by Triton's launcher instead of torch's."""
    from torch._inductor import config

    with config.patch(use_static_cuda_launcher=False):
        yield


def launchable(autotuner: Any, configs: Sequence[Any] | None = None, *, for_gpu: bool) -> Any:
    """A copy of an autotuner whose launches are to go through Triton's `CompiledKernel`.

    It has nothing compiled yet: `asking` has its `precompile` do so as it should.

    Args:
        autotuner: it stays as it is.
        configs: to choose from; its own by default.
        for_gpu: whether what is learnt by timing holds for the GPU that it is for.
    """
    jit_function(autotuner)
    tuner = object.__new__(type(autotuner))  # copying by `copy` would pickle it
    vars(tuner).update(vars(autotuner), _ttools_original=ref(autotuner))
    tuner.lock = threading.Lock()
    tuner.configs = list(configs or configurations(autotuner))
    tuner.compile_results, tuner.launchers = [], []
    tuner._cached_launcher = None
    if not for_gpu:
        # Searches that take a GPU's time for the measure, and notes of their results.
        leave_out = ("coordinate_descent_tuning", "combo_tuning_groups", "dynamic_scale_rblock")
        tuner.inductor_meta = {**tuner.inductor_meta, **dict.fromkeys(leave_out, False)}
        tuner.save_cache_hook = None
    return tuner


def is_launchable(autotuner: Any) -> bool:
    """Whether it is what `launchable` made."""
    return "_ttools_original" in vars(autotuner)


def original(autotuner: Any) -> Any:
    """What it was copied from, if it is what `launchable` made; itself if it is not."""
    copied_from = vars(autotuner).get("_ttools_original")
    return autotuner if copied_from is None else copied_from()


def asking(precompile: Callable[..., None]) -> Callable[..., None]:
    """`CachingAutotuner.precompile`, whose launchers of launchable kernels ask Triton each time."""

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
    """Has a launcher take from Triton what launches its kernel, which it had done once."""
    scope = launcher.__globals__  # made for this launcher alone
    kernel, config = scope["bin"], launcher.config

    def launch(*words: Any) -> Any:
        token = _config.set(config)
        try:
            return kernel.run(*words)
        finally:
            _config.reset(token)

    scope["runner"] = launch


def launched_config() -> Any:
    """The configuration of the launch that is being made; None if it is none of Inductor's."""
    return _config.get()


def trial(tuner: Any, launcher: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A function that makes a launch of which nothing remains, for `CachingAutotuner.bench`."""
    interface = tuner.get_device_interface()
    stream = interface.get_raw_stream(interface.current_device())

    def launch() -> None:
        given, named = tuner.clone_args(*args, **kwargs)
        tuner.reset_to_zero_args(*args, **kwargs)
        launcher(*given, **named, stream=stream)

    return launch
