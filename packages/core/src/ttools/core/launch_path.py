"""The steps of a launch through Triton, and functions that observe or replace them.

    kernel[grid]       SUBSCRIPT   `__getitem__` returns the function that takes the arguments
      Heuristics.run   HEURISTICS  computes constants from the arguments
      Autotuner.run    TUNED       chooses a configuration, trying each by `_bench` (TRIAL)
      JITFunction.run  CALL        specialises, compiles if need be (COMPILE), launches
      CompiledKernel   METADATA    `launch_metadata` gets all arguments, for launch hooks
      CompiledKernel   LAUNCHER    `run` returns the function that takes grid, stream, arguments

TorchInductor, which writes the kernels of `torch.compile`, compiles and launches them without the
classes above CompiledKernel:

    kernel.run(…, stream=…)  INDUCTOR        compiles (INDUCTOR_COMPILE), chooses, launches
      its launcher           INDUCTOR_TRIAL  `bench` tries a configuration
      CompiledKernel         METADATA, LAUNCHER: used only if a caller replaces one of them

Triton 3.6 to 3.9 and torch 2.11 to 2.13 have these methods in common. All code that observes or
makes launches goes through this file, so that several replacements of a step can coexist
(`Patches`). A warm-up passes through the same steps as far as CALL, with the argument `warmup`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ttools.core import inductor, triton_versions
from ttools.core.imports import after_import
from ttools.core.patches import Patches

Method = Callable[..., Any]
#: A function that receives the object whose method is called, and the positional and keyword
#: arguments.
Before = Callable[[Any, tuple[Any, ...], dict[str, Any]], object]
#: A function that receives the arguments of `Before`, and the result of the method, which is None
#: if the method raised an exception.
After = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], object]


@dataclass(frozen=True)
class Step:
    """A method that launches go through.

    Attributes:
        owner: Function that returns the class of the method, or None if Triton or torch has not
            defined the class yet.
        module: Module that must be imported before `owner` is called; None if no import is needed.
    """

    owner: Callable[[], Any]
    method: str
    module: str | None = None


CALL = Step(triton_versions.jit_function_class, "run")
COMPILE = Step(triton_versions.jit_function_class, "_do_compile")
SUBSCRIPT = Step(triton_versions.jit_function_class, "__getitem__")
#: The same step as SUBSCRIPT, for kernels under an autotuner or heuristics.
OUTER_SUBSCRIPTS = (
    Step(triton_versions.autotuner_class, "__getitem__"),
    Step(triton_versions.heuristics_class, "__getitem__"),
)
HEURISTICS = Step(triton_versions.heuristics_class, "run")
TUNED = Step(triton_versions.autotuner_class, "run")
TRIAL = Step(triton_versions.autotuner_class, "_bench")
METADATA = Step(triton_versions.compiled_kernel_class, "launch_metadata")
LAUNCHER = Step(triton_versions.compiled_kernel_class, "run")
#: Replaces CALL for kernels that were decorated under TRITON_INTERPRET=1.
INTERPRETED = Step(triton_versions.interpreted_function_class, "run")
INDUCTOR = Step(inductor.autotuner_class, "run", inductor.MODULE)
INDUCTOR_TRIAL = Step(inductor.autotuner_class, "bench", inductor.MODULE)
INDUCTOR_COMPILE = Step(inductor.autotuner_class, "precompile", inductor.MODULE)


def take_over(patches: Patches, step: Step, make: Callable[[Any], Any]) -> None:
    """Replace a step.

    Args:
        patches: The collection that undoes the replacement.
        step: The step; nothing happens if its class does not exist.
        make: Function that makes the replacement from the current method.
    """
    if step in (METADATA, LAUNCHER):
        _have_inductor_ask(patches)

    def install(_: object = None) -> None:
        owner = step.owner()
        if owner is not None:
            patches.wrap(owner, step.method, make)

    if step.module is None:
        install()
    else:
        patches.callback(after_import(step.module, install))


def take_over_overrides(patches: Patches, step: Step, make: Callable[[Any], Any]) -> None:
    """Replace the method of a step in the subclasses that override it without calling it.

    FlagGems, for example, has a subclass of `Autotuner` whose `run` selects configurations itself.
    Overriding methods that use `super` reach the replaced step anyway. Subclasses that are defined
    later keep their methods.
    """
    for subclass in _subclasses(step.owner()):
        method = vars(subclass).get(step.method)
        code = getattr(method, "__code__", None)
        if code is not None and "__class__" not in code.co_freevars:
            patches.wrap(subclass, step.method, make)


def _subclasses(owner: type) -> list[type]:
    """Return all subclasses of a class, direct ones first."""
    direct: list[type] = owner.__subclasses__()
    return [*direct, *itertools.chain.from_iterable(map(_subclasses, direct))]


def _have_inductor_ask(patches: Patches) -> None:
    """Make Inductor's launches go through Triton, including kernels that are already compiled."""
    copies: dict[int, tuple[Any, Any]] = {}  # holds the autotuner so that its `id` stays unique

    def launched(method: Method) -> Method:
        def run(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
            if inductor.is_launchable(autotuner):
                return method(autotuner, *args, **kwargs)
            entry = copies.get(id(autotuner))
            if entry is None:
                tuner = inductor.launchable(autotuner, for_gpu=True)
                entry = copies.setdefault(id(autotuner), (autotuner, tuner))
            return method(entry[1], *args, **kwargs)

        return run

    take_over(patches, INDUCTOR, launched)
    take_over(patches, INDUCTOR_COMPILE, inductor.asking)
    patches.callback(copies.clear)


def observe(
    patches: Patches, step: Step, *, before: Before | None = None, after: After | None = None
) -> None:
    """Call functions before or after a step.

    Args:
        patches: The collection that ends the observation.
        before: Function to call first. If it raises an exception, the step is not executed.
        after: Function to call at the end, even if the step raised an exception.
    """
    if before is not None:
        take_over(patches, step, lambda method: _preceded(method, before))
    if after is not None:
        take_over(patches, step, lambda method: _followed(method, after))


def _preceded(method: Method, before: Before) -> Method:
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before(self, args, kwargs)
        return method(self, *args, **kwargs)

    return step


def _followed(method: Method, after: After) -> Method:
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = None
        try:
            result = method(self, *args, **kwargs)
        finally:
            after(self, args, kwargs, result)
        return result

    return step
