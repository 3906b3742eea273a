"""The way of a launch through Triton, and how its steps are observed or taken over.

    kernel[grid]       SUBSCRIPT   `__getitem__` makes what is called with the arguments
      Heuristics.run   HEURISTICS  computes constants from the arguments
      Autotuner.run    TUNED       chooses a configuration, trying each by `_bench` (TRIAL)
      JITFunction.run  CALL        specialises, compiles if need be (COMPILE), launches
      CompiledKernel   METADATA    is asked with all arguments what hooks may want to know
      CompiledKernel   LAUNCHER    `run` gives what is called with grid, stream and arguments

TorchInductor, which `torch.compile` writes kernels with, compiles and launches them without the
classes above CompiledKernel:

    kernel.run(…, stream=…)  INDUCTOR        compiles (INDUCTOR_COMPILE), chooses, launches
      its launcher           INDUCTOR_TRIAL  `bench` tries a configuration
      CompiledKernel         METADATA, LAUNCHER, which it leaves out unless they are taken over

Triton 3.6 to 3.9 and torch 2.11 to 2.13 have these methods in common, and whoever wants to see or
to make launches goes through this file, so that all who do so at once know of each other
(`Patches`). A warm-up takes the same way as far as CALL, with the argument `warmup`. Must not know
who observes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ttools.core import inductor, triton_versions
from ttools.core.imports import after_import
from ttools.core.patches import Patches

Method = Callable[..., Any]
#: Takes the object that the step belongs to, and its arguments.
Before = Callable[[Any, tuple[Any, ...], dict[str, Any]], object]
#: The same with the result, None where the step raised.
After = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], object]


@dataclass(frozen=True)
class Step:
    """A method that launches go through.

    Attributes:
        owner: gives its class; None while Triton has not made that.
        module: what has to be imported before that, if the program imports it at all.
    """

    owner: Callable[[], Any]
    method: str
    module: str | None = None


CALL = Step(triton_versions.jit_function_class, "run")
COMPILE = Step(triton_versions.jit_function_class, "_do_compile")
SUBSCRIPT = Step(triton_versions.jit_function_class, "__getitem__")
#: The same for kernels under an autotuner or heuristics.
OUTER_SUBSCRIPTS = (
    Step(triton_versions.autotuner_class, "__getitem__"),
    Step(triton_versions.heuristics_class, "__getitem__"),
)
HEURISTICS = Step(triton_versions.heuristics_class, "run")
TUNED = Step(triton_versions.autotuner_class, "run")
TRIAL = Step(triton_versions.autotuner_class, "_bench")
METADATA = Step(triton_versions.compiled_kernel_class, "launch_metadata")
LAUNCHER = Step(triton_versions.compiled_kernel_class, "run")
#: In the place of CALL for kernels that were decorated under TRITON_INTERPRET=1.
INTERPRETED = Step(triton_versions.interpreted_function_class, "run")
INDUCTOR = Step(inductor.autotuner_class, "run", inductor.MODULE)
INDUCTOR_TRIAL = Step(inductor.autotuner_class, "bench", inductor.MODULE)
INDUCTOR_COMPILE = Step(inductor.autotuner_class, "precompile", inductor.MODULE)


def take_over(patches: Patches, step: Step, make: Callable[[Any], Any]) -> None:
    """Puts something in the place of a step.

    Args:
        patches: undo it.
        step: what is replaced; left out where Triton has not made its class.
        make: makes the replacement from what is there; calls cost what it costs, and no more.
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


def _have_inductor_ask(patches: Patches) -> None:
    """Has Inductor's launches go through Triton, also of kernels that it has compiled before."""
    known: dict[int, tuple[Any, Any]] = {}  # with the autotuner, which keeps its `id` its own

    def launched(method: Method) -> Method:
        def run(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
            if inductor.is_launchable(autotuner):
                return method(autotuner, *args, **kwargs)
            found = known.get(id(autotuner))
            if found is None:
                tuner = inductor.launchable(autotuner, for_gpu=True)
                found = known.setdefault(id(autotuner), (autotuner, tuner))
            return method(found[1], *args, **kwargs)

        return run

    take_over(patches, INDUCTOR, launched)
    take_over(patches, INDUCTOR_COMPILE, inductor.asking)
    patches.callback(known.clear)


def observe(
    patches: Patches, step: Step, *, before: Before | None = None, after: After | None = None
) -> None:
    """Has functions called around a step.

    Args:
        patches: undo it.
        before: called first; what it raises is raised instead.
        after: called at the end, however that came about.
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
