"""Resources that a kernel uses on a GPU, from the driver or from the binary.

The driver reports them once the kernel is loaded; before that, they are read from the binary.
"""

from __future__ import annotations

from typing import Any

from ttools.core import triton_versions
from ttools.core.compilation.disassembly import resource_usage
from ttools.core.compilation.resources import (
    Resources,
    local_memory,
    occupancy,
    spilled_bytes,
    threads_of,
)
from ttools.core.errors import TtoolsError
from ttools.core.gpus.targets import ARCHITECTURES, Target, read_target, target_of_machine
from ttools.tuner.cost.limits import StaticResources, figures
from ttools.tuner.cost.static_cost import StaticFacts


def loaded_figures(kernel: Any) -> StaticResources | None:
    """Return the static resources of a launched kernel in the store's form; None if unknown."""
    loaded = triton_versions.loaded_resources(kernel)
    target = target_of_machine()
    if loaded is None or target is None:
        return None
    own = _resources(kernel, target, *loaded)
    return figures(own, occupancy(own, target.limits) if target.limits else None, target)


def compiled_facts(kernel: Any, programs: int) -> StaticFacts | None:
    """Return the static facts of a kernel that was compiled for an NVIDIA GPU but not loaded.

    Args:
        kernel: Triton's handle of the compiled kernel.
        programs: Number of programs of the launch.

    Returns:
        None for other GPUs, or if the binary cannot be read.
    """
    meant = kernel.metadata.target
    name = f"sm_{meant.arch}"
    if meant.backend != "cuda" or name not in ARCHITECTURES:
        return None
    target = read_target(name)
    if target.limits is None:
        return None
    try:
        usage = resource_usage(kernel.asm["cubin"])
    except TtoolsError:
        return None
    own = _resources(kernel, target, usage.get("REG", 0), local_memory(usage))
    return StaticFacts(
        registers=own.registers,
        spilled=own.spilled,
        shared=own.shared,
        threads=own.threads,
        blocks=occupancy(own, target.limits).blocks,
        programs=programs,
    )


def _resources(kernel: Any, target: Target, registers: int, local: int) -> Resources:
    ptx = str(kernel.asm.get("ptx", ""))
    threads = threads_of(ptx, int(kernel.metadata.num_warps), target)
    return Resources(
        registers=registers,
        spilled=spilled_bytes(local, ptx),
        local=local,
        shared=int(kernel.metadata.shared),
        warps=threads // target.threads,
        threads=threads,
    )
