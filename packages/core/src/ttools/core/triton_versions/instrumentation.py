"""What instrumentation of its own the installed Triton has, and what its kernels need."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

#: The passes that make a mode; those of the address sanitizer are of AMD's backend.
_PASSES = {
    "consan": "add_concurrency_sanitizer",
    "gsan": "add_global_sanitizer",
    "fpsan": "add_fp_sanitizer",
}
#: Where the attribute of the options is that says whether a mode is on.
_OPTIONS = {"iisan": ("triton.backends.nvidia.compiler", "CUDAOptions", "enable_iisan")}


def instrumentation_modes() -> frozenset[str]:
    """The modes that `TRITON_INSTRUMENTATION_MODE` and `TRITON_ENABLE_ASAN` choose; imports Triton.

    `gsan` needs an allocator besides its pass, which is compiled when it is first used.
    """
    knobs: Any = importlib.import_module("triton").knobs
    compilation = getattr(knobs, "compilation", None)
    modes: set[str] = set()
    if hasattr(compilation, "enable_asan"):
        modes.add("asan")
    if not hasattr(compilation, "instrumentation_mode"):
        return frozenset(modes)
    passes = importlib.import_module("triton._C.libtriton").passes.ttgpuir
    modes |= {mode for mode, name in _PASSES.items() if hasattr(passes, name)}
    for mode, (module, options, attribute) in _OPTIONS.items():
        found = getattr(importlib.import_module(module), options, None)
        if hasattr(found, attribute):
            modes.add(mode)
    if "gsan" in modes and importlib.util.find_spec("triton.experimental.gsan") is None:
        modes.remove("gsan")
    return frozenset(modes)


def allocate_by_torch() -> None:
    """Gives launches torch's memory where the program has set no allocator.

    Kernels that are instrumented need some, which the same kernels may not have needed.
    """
    import torch

    allocation = importlib.import_module("triton.runtime._allocation")

    def allocate(_self: Any, size: int, alignment: int, stream: int | None) -> Any:
        return torch.empty(size, dtype=torch.int8, device="cuda")

    allocation.NullAllocator.__call__ = allocate


def gsan_memory() -> Any:
    """A context in which torch's CUDA memory is such as `gsan` finds races in."""
    import torch

    pool = importlib.import_module("triton.experimental.gsan").create_mem_pool()
    return torch.cuda.use_mem_pool(pool)
