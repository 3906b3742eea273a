"""The classes that Triton uses for kernels, and access to the parts of their objects."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ttools.core.errors import UsageError


def jit_function_class() -> Any:
    """Return `triton.runtime.jit.JITFunction`."""
    from triton.runtime.jit import JITFunction

    return JITFunction


def autotuner_class() -> Any:
    """Return `triton.runtime.autotuner.Autotuner`."""
    from triton.runtime.autotuner import Autotuner

    return Autotuner


def interpreted_function_class() -> Any:
    """Return the class of kernels decorated under TRITON_INTERPRET=1; None if there are none."""
    module = sys.modules.get("triton.runtime.interpreter")
    return getattr(module, "InterpretedFunction", None)


def innermost_jit_function(kernel: Any) -> Any:
    """Return the jit function under any layers of autotune and heuristics."""
    while not hasattr(kernel, "fn") or not hasattr(kernel.fn, "__code__"):
        kernel = kernel.fn
    return kernel


def kernel_name(kernel: Any) -> str:
    """Return the Python name of a kernel under any layers of autotune and heuristics."""
    return str(innermost_jit_function(kernel).fn.__name__)


def heuristic_names(kernel: Any) -> list[str]:
    """Return the parameters whose values are computed by heuristics around a jit function."""
    names: list[str] = []
    while kernel is not innermost_jit_function(kernel):
        names += getattr(kernel, "values", ())
        kernel = kernel.fn
    return names


def locate_as(copy: Any, original: Any) -> None:
    """Give a jit function the source location of another jit function with the same text.

    From then on, compiled code, tracebacks and debuggers show that location.
    """
    moved_by = _definition_line(original) - _definition_line(copy)
    code = copy.fn.__code__
    copy.fn.__code__ = code.replace(
        co_filename=original.fn.__code__.co_filename,
        # `co_firstlineno` is the line of the first decorator, and the two functions may have
        # different decorators.
        co_firstlineno=max(1, code.co_firstlineno + moved_by),
    )
    copy.raw_src, copy.starting_line_number = original.raw_src, original.starting_line_number
    if hasattr(original, "def_file_line_number"):  # set at creation, since Triton 3.9
        copy.file_name = original.file_name
        copy.def_file_line_number = original.def_file_line_number
        copy.def_file_col_number = original.def_file_col_number


def _definition_line(function: Any) -> int:
    before = itertools.takewhile(lambda line: not line.strip().startswith("def "), function.raw_src)
    return int(function.starting_line_number) + sum(1 for _ in before)


def restored_arguments(tuner: Any) -> frozenset[str] | None:
    """Return the arguments that an autotuner restores between launches; None if it has hooks."""
    hooks = [getattr(tuner, f"user_defined_{when}_hook", False) for when in ("pre", "post")]
    if any(hooks) or any(config.pre_hook is not None for config in tuner.configs):
        return None
    return frozenset([*tuner.restore_value, *tuner.reset_to_zero])


def set_benchmark(tuner: Any, benchmark: Callable[..., Any]) -> None:
    """Make an autotuner time its configurations by calling `benchmark(call, quantiles)`."""
    # `do_bench` is a cached property, which the instance's dictionary overrides.
    tuner.__dict__["do_bench"] = benchmark


_interpret_lock = threading.RLock()


def take_over_triton_interpret() -> bool:
    """Make `@triton.jit` create compiled kernels although TRITON_INTERPRET is set.

    This function must be called before kernels are decorated.

    Returns:
        True if the variable was set.

    Raises:
        UsageError: Triton's own library was already imported in interpreter mode, which cannot be
            undone in this process.
    """
    with _interpret_lock:
        was_set = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")
        if was_set and "triton" not in sys.modules:
            del os.environ["TRITON_INTERPRET"]
        from triton import knobs, language

        if not isinstance(language.zeros, jit_function_class()):
            raise UsageError(
                "TRITON_INTERPRET was set when Triton was imported, so its own library runs in "
                "Triton's interpreter and ttools would see no launch; unset TRITON_INTERPRET, or "
                "import ttools and enter interpret() before importing triton"
            )
        if knobs.runtime.interpret:
            os.environ.pop("TRITON_INTERPRET", None)
            # The program may also have set Triton's knob instead of the environment variable.
            knobs.runtime.interpret = False
            was_set = True
        return was_set


def is_triton_kernel(value: Any) -> bool:
    """Return whether a value is a jit function, or one under autotune or heuristics."""
    return isinstance(value, (jit_function_class(), autotuner_class(), heuristics_class()))


def constexpr_function_class() -> Any:
    """Return `triton.runtime.jit.ConstexprFunction`, a host function that kernels may call."""
    from triton.runtime.jit import ConstexprFunction

    return ConstexprFunction


def bound_constexpr_function_class() -> Any:
    """Return `triton.runtime.jit.BoundConstexprFunction`, the class of constexpr methods."""
    from triton.runtime.jit import BoundConstexprFunction

    return BoundConstexprFunction


def has_allocator() -> bool:
    """Return whether the program has called `triton.set_allocator`."""
    from triton.runtime import _allocation

    current: Any = _allocation._allocator
    return not isinstance(current.get(), _allocation.NullAllocator)


def prints_autotuning() -> bool:
    """Return whether TRITON_PRINT_AUTOTUNING requests a report of autotuning."""
    from triton import knobs

    return bool(knobs.autotuning.print)


def autotuning_listener() -> Any:
    """Return the function that Triton calls after each autotuning; None if there is none."""
    from triton import knobs

    return getattr(knobs.autotuning, "listener", None)


def heuristics_class() -> Any:
    """Return `triton.runtime.autotuner.Heuristics`."""
    from triton.runtime.autotuner import Heuristics

    return Heuristics
