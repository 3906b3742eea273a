"""Triton's classes of kernels, and the ones that `interpret()` intercepts."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ttools.core.errors import UsageError


def jit_function_class() -> Any:
    """`triton.runtime.jit.JITFunction`."""
    from triton.runtime.jit import JITFunction

    return JITFunction


def autotuner_class() -> Any:
    """`triton.runtime.autotuner.Autotuner`."""
    from triton.runtime.autotuner import Autotuner

    return Autotuner


def interpreted_function_class() -> Any:
    """What `@triton.jit` makes under TRITON_INTERPRET=1; None if none was made yet."""
    module = sys.modules.get("triton.runtime.interpreter")
    return getattr(module, "InterpretedFunction", None)


def innermost_jit_function(kernel: Any) -> Any:
    """The jit function under any layers of autotune and heuristics."""
    while not hasattr(kernel, "fn") or not hasattr(kernel.fn, "__code__"):
        kernel = kernel.fn
    return kernel


def kernel_name(kernel: Any) -> str:
    """The Python name of a kernel under any layers of autotune and heuristics."""
    return str(innermost_jit_function(kernel).fn.__name__)


def heuristic_names(kernel: Any) -> list[str]:
    """The parameters that layers of heuristics around a jit function decide."""
    names: list[str] = []
    while kernel is not innermost_jit_function(kernel):
        names += getattr(kernel, "values", ())
        kernel = kernel.fn
    return names


def locate_as(copy: Any, original: Any) -> None:
    """Gives a jit function the place in the source of one with the same text.

    What is compiled of it from then on, tracebacks and debuggers name that place.
    """
    moved_by = _definition_line(original) - _definition_line(copy)
    code = copy.fn.__code__
    copy.fn.__code__ = code.replace(
        co_filename=original.fn.__code__.co_filename,
        # Decorators, which may be others, count as lines of the function.
        co_firstlineno=max(1, code.co_firstlineno + moved_by),
    )
    copy.raw_src, copy.starting_line_number = original.raw_src, original.starting_line_number
    if hasattr(original, "def_file_line_number"):  # noted when a function is made, since 3.9
        copy.file_name = original.file_name
        copy.def_file_line_number = original.def_file_line_number
        copy.def_file_col_number = original.def_file_col_number


def _definition_line(function: Any) -> int:
    before = itertools.takewhile(lambda line: not line.strip().startswith("def "), function.raw_src)
    return int(function.starting_line_number) + sum(1 for _ in before)


def restored_arguments(tuner: Any) -> frozenset[str] | None:
    """The arguments that an autotuner puts back between launches; None if the program does it."""
    hooks = [getattr(tuner, f"user_defined_{when}_hook", False) for when in ("pre", "post")]
    if any(hooks) or any(config.pre_hook is not None for config in tuner.configs):
        return None
    return frozenset([*tuner.restore_value, *tuner.reset_to_zero])


def set_benchmark(tuner: Any, benchmark: Callable[..., Any]) -> None:
    """Makes an autotuner time its configurations with `benchmark(call, quantiles)`."""
    # A cached property of the class: what the instance holds comes first.
    tuner.__dict__["do_bench"] = benchmark


_interpret_lock = threading.RLock()


def take_over_triton_interpret() -> bool:
    """Makes `@triton.jit` compile although TRITON_INTERPRET is set; call before decorating.

    Returns:
        Whether it was set.

    Raises:
        UsageError: Triton's own library was already imported in interpreter mode, which cannot
            be undone in this process.
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
            # The knob may also have been set in the program.
            knobs.runtime.interpret = False
            was_set = True
        return was_set


def is_triton_kernel(value: Any) -> bool:
    """Whether it is a jit function, or one under autotune or heuristics."""
    return isinstance(value, (jit_function_class(), autotuner_class(), heuristics_class()))


def constexpr_function_class() -> Any:
    """`triton.runtime.jit.ConstexprFunction`: a host function that kernels may call."""
    from triton.runtime.jit import ConstexprFunction

    return ConstexprFunction


def bound_constexpr_function_class() -> Any:
    """`triton.runtime.jit.BoundConstexprFunction`: such a function as a method of an object."""
    from triton.runtime.jit import BoundConstexprFunction

    return BoundConstexprFunction


def prints_autotuning() -> bool:
    """Whether TRITON_PRINT_AUTOTUNING asks for what autotuning finds."""
    from triton import knobs

    return bool(knobs.autotuning.print)


def autotuning_listener() -> Any:
    """What is called after each autotuning; None if nothing is, or Triton has no such thing."""
    from triton import knobs

    return getattr(knobs.autotuning, "listener", None)


def heuristics_class() -> Any:
    """`triton.runtime.autotuner.Heuristics`."""
    from triton.runtime.autotuner import Heuristics

    return Heuristics
