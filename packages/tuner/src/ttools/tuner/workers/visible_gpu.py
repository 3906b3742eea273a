"""Environment variables that make other processes see the GPU that a program has chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_CUDA, _HIP = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
#: Variables that a driver reads once, when a process first uses a GPU.
_READ = (_CUDA, "CUDA_DEVICE_ORDER", _HIP, "ROCR_VISIBLE_DEVICES")


def visible_gpus() -> dict[str, str]:
    """Return the current environment variables that select visible GPUs for new processes."""
    return {name: os.environ[name] for name in _READ if name in os.environ}


def chosen_gpu(before: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make other processes see only the current GPU of this process.

    Args:
        before: Result of `visible_gpus()` when the other processes were started.

    Returns:
        Empty if the program has not chosen a GPU, because the other processes then use the same
        first GPU.
    """
    import torch

    number = torch.cuda.current_device()
    if number == 0 and visible_gpus() == before:
        return {}
    return _only(torch, number)


def _only(torch: Any, number: int) -> dict[str, str]:
    name = _HIP if torch.version.hip else _CUDA
    listed = [entry.strip() for entry in os.environ.get(name, os.environ.get(_CUDA, "")).split(",")]
    own = listed[number] if listed[0] and number < len(listed) else str(number)
    # The GPU is named by its UUID, because the list may have changed since the driver read it. A
    # MIG instance keeps the name that it has in the list.
    identity = getattr(torch.cuda.get_device_properties(number), "uuid", None)
    if name == _CUDA and identity is not None and not own.startswith("MIG"):
        own = f"GPU-{identity}"
    return {name: own}
