"""A plugin of pytest for vLLM's tests of Triton kernels: a CUDA platform without vLLM's binaries.

vLLM imports libraries that are built for CUDA, and asks NVIDIA's management library for the GPU.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch


class _Absent(types.ModuleType):
    """A module whose functions can be imported, but not called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def absent(*args: object, **kwargs: object) -> None:
            raise NotImplementedError(f"{self.__name__}.{name} is in a library built for CUDA")

        return absent


_LIBRARIES = ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch", "cumem_allocator")
for _name in (*_LIBRARIES, "vllm_flash_attn", "vllm_flash_attn.flash_attn_interface"):
    sys.modules[f"vllm.{_name}"] = _Absent(f"vllm.{_name}")

# What importing asks of them: no, there are no kernels of CUTLASS.
_fragment: Any = torch.library.Library
_library = _fragment("_C", "FRAGMENT")
for _name in ("cutlass_scaled_mm_supports_block_fp8", "cutlass_scaled_mm_supports_fp8"):
    _library.define(f"{_name}(int capability) -> bool")
    _library.impl(_name, lambda capability: False, "CompositeExplicitAutograd")

_platforms = importlib.import_module("vllm.platforms")
_cuda = importlib.import_module("vllm.platforms.cuda")
_platforms.__dict__["_current_platform"] = _cuda.NonNvmlCudaPlatform()
