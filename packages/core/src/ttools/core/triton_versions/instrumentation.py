"""The instrumentation modes of the installed Triton, and the memory that their kernels need."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

#: The compiler pass of each mode; the passes of the address sanitizer belong to AMD's backend.
_PASSES = {
    "consan": "add_concurrency_sanitizer",
    "gsan": "add_global_sanitizer",
    "fpsan": "add_fp_sanitizer",
}
#: For each mode without a pass: module, class and attribute of the option that enables the mode.
_OPTIONS = {"iisan": ("triton.backends.nvidia.compiler", "CUDAOptions", "enable_iisan")}


def instrumentation_modes() -> frozenset[str]:
    """Return the modes for `TRITON_INSTRUMENTATION_MODE` and `TRITON_ENABLE_ASAN`; imports Triton.

    `gsan` also needs an allocator, which is compiled on first use.
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
        options_class = getattr(importlib.import_module(module), options, None)
        if hasattr(options_class, attribute):
            modes.add(mode)
    if "gsan" in modes and importlib.util.find_spec("triton.experimental.gsan") is None:
        modes.remove("gsan")
    return frozenset(modes)


def allocate_by_torch() -> None:
    """Let launches allocate memory through torch if the program has set no allocator.

    Instrumented kernels need memory from an allocator even if the original kernels do not.
    """
    import torch

    allocation = importlib.import_module("triton.runtime._allocation")

    def allocate(_self: Any, size: int, alignment: int, stream: int | None) -> Any:
        return torch.empty(size, dtype=torch.int8, device="cuda")

    allocation.NullAllocator.__call__ = allocate


def gsan_memory() -> Any:
    """Return a context manager in which torch allocates CUDA memory that `gsan` can check."""
    import torch

    pool = importlib.import_module("triton.experimental.gsan").create_mem_pool()
    return torch.cuda.use_mem_pool(pool)
