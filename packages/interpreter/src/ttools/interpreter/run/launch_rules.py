"""Checks whether launches on the CPU comply with the launch rules of a GPU.

A launch is meant for a GPU if one of its arguments is a CUDA tensor, or if an earlier launch under
the same device map had one. If such a launch breaks a rule, it is rejected with Triton's message.
Any other launch is made even if it breaks a rule, because no GPU is involved, but a warning is
given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ttools.core.device_map import memory
from ttools.core.errors import LaunchRefusedError
from ttools.core.gpus.launch_rules import (
    ANY_CUDA,
    CUDA_GRID,
    MOST_PROGRAMS,
    GpuLimits,
    GpuNeeds,
    Violation,
    broken_rules,
    limits_of,
    wrong_device,
)
from ttools.core.gpus.targets import MAX_THREADS, target_of_machine

_WARP = 32
_MOST_WARPS = MAX_THREADS // _WARP
_ALONG_Y, _ALONG_Z = CUDA_GRID[1:]


def violations_of_grid(grid: Sequence[int], warps: int, blocks: int) -> list[Violation]:
    """Return the rules that the grid and the options of a launch break.

    Args:
        grid: Number of programs along one to three axes.
        warps: Number of warps of a program.
        blocks: Number of blocks of a program, `num_ctas`.
    """
    x, y, z = grid if len(grid) == 3 else (*grid, 1, 1)[:3]
    small = y <= _ALONG_Y and z <= _ALONG_Z and x * y * z <= MOST_PROGRAMS
    if small and warps <= _MOST_WARPS and blocks == 1:
        return []
    limits = limits_in_force()
    needs = GpuNeeds(grid=(x, y, z), threads=warps * limits.warp, cluster=blocks)
    return broken_rules(needs, limits)


def limits_in_force() -> GpuLimits:
    """Return the limits of the GPU that a device map names, or of the GPU of this machine.

    If there is neither a device map nor a GPU, return limits of CUDA that no GPU exceeds.
    """
    if memory.is_mapped():
        from ttools.core.device_map.properties import launch_limits

        return launch_limits()
    target = target_of_machine() if "torch" in sys.modules else None
    return ANY_CUDA if target is None else limits_of(target)


def violations_of_devices(
    names: Sequence[str], values: Sequence[Any], pointers: Sequence[int]
) -> tuple[bool, list[Violation]]:
    """Return whether a launch is meant for a GPU, and a violation for each tensor on the CPU.

    Args:
        names: Names of the kernel's parameters.
        values: Argument for each parameter.
        pointers: Indices of the pointer parameters.
    """
    on_host = []
    on_gpu = memory.has_mapped_launch()
    for index in pointers:
        device = getattr(values[index], "device", None)
        kind = getattr(device, "type", None)
        if kind == "cuda":
            on_gpu = True
        elif kind == "cpu":
            on_host.append(index)
    if not on_gpu:
        return False, []
    if memory.is_mapped():
        memory.note_mapped_launch()
    unreachable = [index for index in on_host if not _is_reachable(values[index])]
    return True, [wrong_device(names[index], "the CPU", "a GPU") for index in unreachable]


def _is_reachable(value: Any) -> bool:
    """Return whether CUDA accepts a tensor on the host, because it is pinned or has no memory."""
    tensor = value if hasattr(value, "is_pinned") else getattr(value, "base", value)
    is_pinned = getattr(tensor, "is_pinned", None)
    return int(value.data_ptr()) == 0 or is_pinned is None or bool(is_pinned())


def refused(kernel: str, violations: Sequence[Violation]) -> LaunchRefusedError:
    """Return the error for a launch that a GPU would reject."""
    first = violations[0]
    return LaunchRefusedError(
        f"a GPU rejects this launch of `{kernel}`: {first.message}", help=first.help
    )


def warnings_of(kernel: str, violations: Sequence[Violation]) -> Iterator[str]:
    """Yield warnings about a launch that runs on the CPU but would be rejected by a GPU."""
    for violation in violations:
        yield (f"a GPU rejects this launch of `{kernel}`: {violation.message}; {violation.help}")
