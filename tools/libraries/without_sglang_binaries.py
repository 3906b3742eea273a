"""A pytest plugin for SGLang's tests of Triton kernels without SGLang's CUDA binaries.

The functions that SGLang calls between its kernels for mixtures of experts are written in torch.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from tools.libraries import absent, experts


def _align_block_size(
    topk_ids: torch.Tensor, number: int, block_size: int, *written: Any, **options: Any
) -> None:
    """Call `experts.align_block_size`; in SGLang, id -1 (on another device) counts as an expert."""
    sorted_ids, expert_ids, tokens_post_pad = written[:3]
    experts.align_block_size(
        topk_ids, number, block_size, sorted_ids, expert_ids, tokens_post_pad, first=-1
    )


importlib.import_module("transformers")  # before torchvision is replaced
absent.install(
    {
        "sgl_kernel": {
            "moe_align_block_size": _align_block_size,
            "topk_softmax": experts.topk_softmax,
            "silu_and_mul": experts.silu_and_mul,
            "gelu_and_mul": experts.gelu_and_mul,
            "moe_sum_reduce": experts.sum_of_experts,
            "sgl_per_tensor_quant_fp8": experts.quantise_tensor,
            "sgl_per_token_quant_fp8": experts.quantise_rows,
            "sgl_per_token_group_quant_8bit": experts.quantise_groups,
        },
        "torchvision": {},
        "datasets": {},
        "gguf": {},
    }
)

# SGLang registers fake kernels for these operators when it is imported; nothing calls them.
_fragment: Any = torch.library.Library
_library = _fragment("sgl_kernel", "FRAGMENT")
for _name in (
    *("sgl_per_token_group_quant_8bit", "sgl_per_token_group_quant_fp8", "fp8_scaled_mm"),
    *("sgl_per_token_quant_fp8", "sgl_per_tensor_quant_fp8", "moe_fused_gate"),
):
    _library.define(f"{_name}() -> ()")


class _AutoImageProcessor:
    """Replaces a class of transformers with which SGLang registers its image processors."""

    @classmethod
    def register(cls, *args: object, **options: object) -> None:
        """Do nothing; the class of transformers requires torchvision."""


importlib.import_module("sglang")  # replaces the module `transformers` by another one
vars(sys.modules["transformers"])["AutoImageProcessor"] = _AutoImageProcessor
