"""Launches kernels of Liger-Kernel, forwards and backwards, on small tensors."""

# mypy: disable-error-code="import-untyped, no-untyped-call"

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from liger_kernel.transformers import functional as liger

ROWS, COLUMNS = 5, 37


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    """Return normally distributed numbers that require a gradient."""
    return torch.randn(*shape).to(dtype).requires_grad_()


def backward(result: Any) -> None:
    """Compute the gradients of all results of an operator."""
    values = result if isinstance(result, tuple) else (result,)
    total = sum(v.float().sum() for v in values if torch.is_tensor(v) and v.requires_grad)
    if torch.is_tensor(total):
        total.backward()


def launch(dtype: Any) -> None:
    """Run each operator once."""

    def x(*shape: int) -> Any:
        return leaf(*(shape or (ROWS, COLUMNS)), dtype=dtype)

    def classes() -> Any:
        return torch.randint(COLUMNS, (ROWS,))

    def distribution() -> Any:
        return F.log_softmax(leaf(ROWS, COLUMNS), -1).detach().to(dtype).requires_grad_()

    calls = [
        lambda: liger.liger_cross_entropy(x(), classes()),
        lambda: liger.liger_cross_entropy(x(), classes(), label_smoothing=0.1, reduction="sum"),
        lambda: liger.liger_rms_norm(x(), x(COLUMNS), 1e-6),
        lambda: liger.liger_layer_norm(x(), x(COLUMNS), x(COLUMNS), 1e-5),
        lambda: liger.liger_group_norm(x(2, 6, 11), x(6), x(6), 6, 3, 1e-5),
        lambda: liger.liger_swiglu(x(), x()),
        lambda: liger.liger_geglu(x(), x()),
        lambda: liger.liger_kl_div(distribution(), F.softmax(leaf(ROWS, COLUMNS), -1).detach()),
        lambda: liger.liger_jsd(distribution(), distribution().detach()),
        lambda: liger.liger_tvd(F.softmax(x(), -1), F.softmax(x(), -1).detach()),
        lambda: liger.liger_dyt(x(), x(1), x(COLUMNS), x(COLUMNS)),
        lambda: liger.liger_softmax(x()),
        lambda: liger.liger_sparsemax(x()),
        lambda: liger.liger_fused_add_rms_norm(x(), x(), x(COLUMNS), 1e-6),
        lambda: liger.liger_fused_linear_cross_entropy(x(), x(COLUMNS, COLUMNS), classes()),
        lambda: liger.liger_rope(x(1, 2, 6, 16), x(1, 2, 6, 16), x(1, 6, 16), x(1, 6, 16)),
        lambda: liger.liger_multi_token_attention(x(1, 1, 8, 8), x(1, 1, 3, 3)),
    ]
    for call in calls:
        # Other versions of the package may lack an operator, and some operators need a GPU.
        with contextlib.suppress(Exception):
            backward(call())


torch.manual_seed(0)
for dtype in (torch.float32, torch.bfloat16):
    launch(dtype)
