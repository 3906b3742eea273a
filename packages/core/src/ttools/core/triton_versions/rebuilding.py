"""Reconstruction of kernels in another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.triton_versions.functions import (
    autotuner_class,
    bound_constexpr_function_class,
    constexpr_function_class,
    heuristics_class,
    is_triton_kernel,
    jit_function_class,
    kernel_name,
)


def plain_autotuner(tuner: Any, configs: Sequence[Any]) -> Any:
    """Return a copy of an autotuner with the given configurations and without pruning."""
    return _autotuned_again(*_autotuner_parts(tuner, configs))


def _autotuner_parts(tuner: Any, configs: Sequence[Any]) -> tuple[Any, ...]:
    hooks = {
        name: getattr(tuner, name)
        for name in ("pre_hook", "post_hook")
        if getattr(tuner, f"user_defined_{name}")
    }
    names = (tuner.keys, tuner.reset_to_zero, tuner.restore_value)
    return (tuner.fn, list(configs), *map(list, names), hooks)


#: For each argument of `triton.jit`, the attribute of the jit function that contains its value.
_JIT_OPTIONS = {
    "version": "version",
    "do_not_specialize": "do_not_specialize",
    "do_not_specialize_on_alignment": "do_not_specialize_on_alignment",
    "debug": "debug",
    "noinline": "noinline",
    "repr": "_repr",
    "launch_metadata": "launch_metadata",
}


def rebuilds(value: Any) -> bool:
    """Return whether `rebuilding` supports an object."""
    constexpr_functions = (constexpr_function_class(), bound_constexpr_function_class())
    return is_triton_kernel(value) or isinstance(value, constexpr_functions)


def rebuilding(kernel: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a picklable function, and picklable arguments with which it recreates the kernel.

    Args:
        kernel: A jit function, one under autotune or heuristics, or a constexpr function.

    Raises:
        UsageError: The class of the kernel is not one of Triton's own.
    """
    if isinstance(kernel, autotuner_class()):
        return _autotuned_again, _autotuner_parts(kernel, kernel.configs)
    if isinstance(kernel, heuristics_class()):
        return _heuristics_again, (kernel.fn, kernel.values)
    if isinstance(kernel, bound_constexpr_function_class()):
        return type(kernel), (kernel.__self__, kernel.__func__)
    if isinstance(kernel, constexpr_function_class()):
        return type(kernel), (kernel.fn,)
    if type(kernel) is not jit_function_class():
        raise UsageError(f"`{kernel_name(kernel)}` is a {type(kernel).__name__}")
    options = {name: getattr(kernel, attribute, None) for name, attribute in _JIT_OPTIONS.items()}
    return _jit_again, (kernel.fn, options)


def _autotuned_again(
    function: Any,
    configs: list[Any],
    keys: list[str],
    reset_to_zero: list[str],
    restore_value: list[str],
    hooks: dict[str, Any],
) -> Any:
    arguments = (function, function.arg_names, configs, keys, reset_to_zero, restore_value)
    return autotuner_class()(*arguments, **hooks)


def _heuristics_again(function: Any, values: dict[str, Any]) -> Any:
    return heuristics_class()(function, function.arg_names, values)


def _jit_again(function: Any, options: dict[str, Any]) -> Any:
    return jit_function_class()(function, **options)
