"""Launches kernels of SageAttention on small tensors."""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call"

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch

from ttools.interpreter import device_map


def launch(dtype: Any, size: int) -> None:
    """Run each operator once."""

    def x() -> Any:
        return torch.randn(1, 2, 70, size, device="cuda").to(dtype)

    def kernels(module: str) -> Any:
        return importlib.import_module(f"sageattention.{module}")

    calls = [
        lambda: importlib.import_module("sageattention").sageattn(x(), x(), x()),
        lambda: importlib.import_module("sageattention").sageattn(x(), x(), x(), is_causal=True),
        lambda: kernels("quant_per_block").per_block_int8(x(), x()),
    ]
    for call in calls:
        # Other versions of the package may lack an operator.
        with contextlib.suppress(Exception):
            call()


torch.manual_seed(0)
with device_map("cuda=cpu"):
    for head in (64, 128):
        launch(torch.float16, head)
