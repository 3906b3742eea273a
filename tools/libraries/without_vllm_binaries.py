"""A pytest plugin for vLLM's tests of Triton kernels: a CUDA platform without vLLM's binaries.

vLLM imports libraries that are built for CUDA, and queries NVIDIA's management library for the GPU.
The functions that it calls around its kernels for mixtures of experts are written in torch.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch

from tools.libraries import experts


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

# vLLM calls these functions when it is imported; CUTLASS kernels are not available.
_fragment: Any = torch.library.Library
_library = _fragment("_C", "FRAGMENT")
for _name in ("cutlass_scaled_mm_supports_block_fp8", "cutlass_scaled_mm_supports_fp8"):
    _library.define(f"{_name}(int capability) -> bool")
    _library.impl(_name, lambda capability: False, "CompositeExplicitAutograd")


def _silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    experts.silu_and_mul(x, out)


def _masked_activation(
    out: torch.Tensor, x: torch.Tensor, rows: torch.Tensor, name: str, *limits: float
) -> None:
    """Apply the activation to the first `rows` rows of each expert; other rows are unused."""
    if name != "silu":
        raise NotImplementedError(f"the activation {name}")
    for expert, count in enumerate(rows.tolist()):
        experts.silu_and_mul(x[expert, :count], out[expert, :count])


def _per_tensor(out: torch.Tensor, x: torch.Tensor, scale: torch.Tensor) -> None:
    experts.quantise_tensor(x, out, scale, static=False)


def _per_token(
    out: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, largest: torch.Tensor | None
) -> None:
    if largest is not None:
        raise NotImplementedError("scales with an upper bound")
    experts.quantise_rows(x, out, scale)


def _topk_softmax(
    weights: torch.Tensor,
    ids: torch.Tensor,
    rows: torch.Tensor,
    logits: torch.Tensor,
    renormalize: bool,
    *further: torch.Tensor | None,
) -> None:
    if any(each is not None for each in further):
        raise NotImplementedError("a choice of experts with a bias or padding")
    experts.topk_softmax(weights, ids, logits, renormalize)


_experts = _fragment("_moe_C", "FRAGMENT")
_scaled = "Tensor! out, Tensor x, Tensor! scale"
_masked = "Tensor! out, Tensor x, Tensor rows, str name"
_limits = "float clamp, float alpha, float beta, float situ, float linear"
_chosen = "Tensor! weights, Tensor! ids, Tensor! rows, Tensor logits, bool renormalize"
for _owner, _name, _arguments, _function in (
    (_library, "silu_and_mul", "Tensor! out, Tensor x", _silu_and_mul),
    (_library, "masked_moe_activation", f"{_masked}, {_limits}", _masked_activation),
    (_library, "dynamic_scaled_fp8_quant", _scaled, _per_tensor),
    (_library, "dynamic_per_token_scaled_fp8_quant", f"{_scaled}, Tensor? largest", _per_token),
    (_experts, "topk_softmax", f"{_chosen}, Tensor? bias, Tensor? padding", _topk_softmax),
):
    _owner.define(f"{_name}({_arguments}) -> ()")
    _owner.impl(_name, _function, "CUDA")

_platforms = importlib.import_module("vllm.platforms")
_cuda = importlib.import_module("vllm.platforms.cuda")
_platforms.__dict__["_current_platform"] = _cuda.NonNvmlCudaPlatform()
