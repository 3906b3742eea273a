"""Launches kernels of flash-linear-attention (fla-core), forwards and backwards."""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call"

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch
import torch.nn.functional as F

from ttools.interpreter import device_map

#: Shape of an operand: sequences, positions, heads, head size.
SHAPE = (1, 65, 2, 16)


def launch(device: str) -> None:
    """Run each operator once."""

    def x(*shape: int) -> Any:
        return torch.randn(*(shape or SHAPE), device=device).requires_grad_()

    def gate(*shape: int) -> Any:
        return F.logsigmoid(x(*shape)).detach().requires_grad_()

    def operator(module: str, name: str) -> Any:
        return getattr(importlib.import_module(f"fla.ops.{module}"), name)

    calls = [
        lambda: operator("linear_attn", "chunk_linear_attn")(x(), x(), x()),
        lambda: operator("linear_attn", "fused_recurrent_linear_attn")(x(), x(), x()),
        lambda: operator("gla", "chunk_gla")(x(), x(), x(), gate()),
        lambda: operator("gla", "fused_recurrent_gla")(x(), x(), x(), gate()),
        lambda: operator("simple_gla", "chunk_simple_gla")(x(), x(), x(), gate(*SHAPE[:3])),
        lambda: operator("hgrn", "fused_recurrent_hgrn")(x(1, 65, 32), gate(1, 65, 32)),
        lambda: operator("hgrn", "chunk_hgrn")(x(1, 65, 32), gate(1, 65, 32)),
        lambda: operator("retention", "chunk_retention")(x(), x(), x()),
        lambda: operator("delta_rule", "fused_recurrent_delta_rule")(
            x(), F.normalize(x(), dim=-1), x(), torch.rand(*SHAPE[:3], device=device)
        ),
        lambda: operator("utils.cumsum", "chunk_local_cumsum")(gate(*SHAPE[:3]), 16),
        lambda: operator("utils.softmax", "softmax_fwd")(x(5, 33)),
    ]
    for call in calls:
        # Other versions of the package may lack an operator.
        with contextlib.suppress(Exception):
            result = call()
            first = result[0] if isinstance(result, tuple) else result
            first.sum().backward()


torch.manual_seed(0)
with device_map("cuda=cpu"):
    launch("cuda")
