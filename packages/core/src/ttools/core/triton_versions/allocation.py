"""Compilation up to the allocation of shared and tensor memory, without generating machine code.

Triton's backends call a hook for instrumentation between their passes to LLVM IR, immediately after
memory is allocated. Our hook ends the stage there and runs the passes that the backend has added up
to that point. The list of the backend's passes is therefore not duplicated here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ttools.core.patches import Patches
from ttools.core.triton_versions.staged import begin_compilation

_STAGES = ("ttir", "ttgir")
_POINTS = ("ttgpuir_to_llvmir", "ttgpuir-to-llvmir")  # until 3.8, since 3.9


@dataclass(frozen=True)
class AllocatedMemory:
    """The resources that a block needs.

    Attributes:
        shared: Bytes of shared memory.
        tensor: Columns of tensor memory; 0 if the GPU has none.
        warps: Warps per block, including those that warp specialisation adds.
    """

    shared: int
    tensor: int
    warps: int


class _AllocatedError(Exception):
    """Ends a compilation stage, and contains the pass manager with the passes up to allocation."""

    def __init__(self, passes: Any) -> None:
        super().__init__()
        self.passes = passes


def allocate_memory(source: Any, target: Any, options: Mapping[str, Any]) -> AllocatedMemory:
    """Compile a source for a target until its memory is allocated.

    Args:
        source: The kernel as Triton's `ASTSource`.
        target: The GPU as Triton's `GPUTarget`.
        options: Launch options that the backend supports.

    Raises:
        Exception: Any error of the compiler.
    """
    compilation = begin_compilation(source, target, options)
    stages, module, metadata = compilation.stages, compilation.module, compilation.metadata
    for name in _STAGES:
        module = stages[name](module, metadata)
    with _ending_when_allocated(type(compilation.backend)):
        try:
            stages["llir"](module, metadata)
        except _AllocatedError as ended:
            ended.passes.run(module, "allocate_memory")
    warps = module.get_int_attr("ttg.total-num-warps") or module.get_int_attr("ttg.num-warps")
    return AllocatedMemory(
        shared=int(module.get_int_attr("ttg.shared") or 0),
        tensor=int(module.get_int_attr("ttg.tensor_memory_size") or 0),
        warps=int(warps or metadata["num_warps"]),
    )


class _Ending:
    """Replaces the class attribute `instrumentation` of the backend.

    Up to Triton 3.8, this attribute has the hook.
    """

    def load_dialects(self, context: Any) -> None:
        """Load nothing."""

    def patch(self, point: str, passes: Any, context: Any) -> None:
        """End the compilation stage when the hook after allocation is called."""
        if point in _POINTS:
            raise _AllocatedError(passes)


@contextmanager
def _ending_when_allocated(backend: Any) -> Iterator[None]:
    module = sys.modules[backend.__module__]
    owner, name = (
        (backend, "instrumentation")
        if hasattr(backend, "instrumentation")
        else (
            module,
            "instrument",
        )
    )

    def ending(original: Callable[..., Any]) -> Callable[..., Any]:
        def instrument(passes: Any, *, point: str, **more: Any) -> None:
            if point in _POINTS:
                raise _AllocatedError(passes)
            original(passes, point=point, **more)

        return instrument

    with Patches() as patches:
        if owner is backend:
            patches.replace(owner, name, _Ending())
        else:
            patches.wrap(owner, name, ending)
        yield
