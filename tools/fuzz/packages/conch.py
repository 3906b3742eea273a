"""Launches kernels of conch-triton-kernels on small tensors."""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call"

from __future__ import annotations

import contextlib
from typing import Any

import torch
from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul
from conch.ops.activation.silu_and_mul import silu_and_mul
from conch.ops.embedding.rotary_embedding import rotary_embedding
from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm
from conch.ops.quantization.fp8 import scaled_fp8_quant
from conch.ops.quantization.int8 import scaled_int8_quant
from conch.ops.vision.bev_pool import bev_pool, bev_pool_backward
from conch.ops.vision.nms import nms

ROWS, COLUMNS = 5, 40


def launch(dtype: Any) -> None:
    """Run each operator once."""

    def x(*shape: int) -> Any:
        return torch.randn(*(shape or (ROWS, COLUMNS))).to(dtype)

    points = torch.randint(0, 2, (20, 4), dtype=torch.int32)
    starts, lengths = (torch.tensor(n, dtype=torch.int32) for n in ([0, 5, 9, 15], [5, 4, 6, 5]))
    corners = torch.rand(12, 2) * 10
    boxes = torch.cat([corners, corners + torch.rand(12, 2) * 5], 1)
    calls = [
        lambda: gelu_tanh_and_mul(x()),
        lambda: silu_and_mul(x()),
        lambda: rms_norm(x(), x(COLUMNS), 1e-6),
        lambda: fused_add_rms_norm(x(), x(), x(COLUMNS), 1e-6),
        lambda: gemma_rms_norm(x(), x(COLUMNS), 1e-6),
        lambda: rotary_embedding(torch.arange(ROWS), x(ROWS, 64), x(ROWS, 32), 32, x(16, 32)),
        lambda: scaled_int8_quant(x()),
        lambda: scaled_int8_quant(x(), torch.tensor([0.1])),
        lambda: scaled_fp8_quant(x(), torch.tensor([0.1])),
        lambda: bev_pool(x(20, 8), points, starts, lengths, 2, 2, 2, 2),
        lambda: bev_pool_backward(x(2, 2, 2, 2, 8), points, starts, lengths),
        lambda: nms(boxes, torch.rand(12), 0.3),
    ]
    for call in calls:
        # Other versions of the package may lack an operator, and some operators need a GPU.
        with contextlib.suppress(Exception):
            call()


torch.manual_seed(0)
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    launch(dtype)
