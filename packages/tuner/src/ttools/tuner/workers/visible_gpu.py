"""The GPU that a program has chosen for itself, as other processes are given it.

Owns the variables that say which GPUs a process sees. Must not know what runs on them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_CUDA, _HIP = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
#: What a driver reads once, when a process first asks for a GPU.
_READ = (_CUDA, "CUDA_DEVICE_ORDER", _HIP, "ROCR_VISIBLE_DEVICES")


def visible_gpus() -> dict[str, str]:
    """What the environment says now of the GPUs that a new process sees."""
    return {name: os.environ[name] for name in _READ if name in os.environ}


def chosen_gpu(before: Mapping[str, str]) -> dict[str, str]:
    """Variables with which a process sees the current GPU of this one, and no other.

    Args:
        before: `visible_gpus()` of when processes were started.

    Returns:
        None of them where these see it first anyway: this program has chosen nothing.
    """
    import torch

    number = torch.cuda.current_device()
    if number == 0 and visible_gpus() == before:
        return {}
    return _only(torch, number)


def _only(torch: Any, number: int) -> dict[str, str]:
    name = _HIP if torch.version.hip else _CUDA
    listed = [each.strip() for each in os.environ.get(name, os.environ.get(_CUDA, "")).split(",")]
    own = listed[number] if listed[0] and number < len(listed) else str(number)
    # By its identity, where the list may have changed since the driver read it. A part of a GPU
    # (MIG) goes by the name that it has in the list.
    identity = getattr(torch.cuda.get_device_properties(number), "uuid", None)
    if name == _CUDA and identity is not None and not own.startswith("MIG"):
        own = f"GPU-{identity}"
    return {name: own}
