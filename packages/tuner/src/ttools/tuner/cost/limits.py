"""Which configurations a GPU that need not be there can run at all, by compiling them for it.

Memory and threads are known long before machine code is, so most that do not fit cost little.

Owns the limits that the driver enforces when a kernel is loaded or launched. Only those reject;
whatever merely slows a kernel down is for the cost model. Must not know what a cost is.
"""

from __future__ import annotations

from typing import TypedDict

from ttools.core import triton_versions
from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.resources import Occupancy, Resources, occupancy
from ttools.core.compilation.stages import allocate_for
from ttools.core.gpus.targets import MAX_TENSOR_MEMORY, MAX_THREADS, Target
from ttools.interpreter.run.tuned_launch import TunedLaunch
from ttools.tuner.space.candidate import Candidate

_NO_OPTIONS = ("grid", "warmup")


def specialised(launch: TunedLaunch, candidate: Candidate) -> KernelSource:
    """A configuration of a launch, specialised as the launch has it.

    Raises:
        Exception: Triton's front end refuses it.
    """
    source = launch.compiled(candidate.config).src
    function = triton_versions.innermost_jit_function(launch.tuner)
    options = {
        name: value
        for name, value in launch.arguments.items()
        if name not in function.arg_names and name not in _NO_OPTIONS
    }
    return KernelSource(
        name=launch.kernel,
        function=source.fn,
        signature=dict(source.signature),
        constants=dict(source.constants),
        hints=dict(source.attrs),
        options={**options, **candidate.values},
    )


def over_allocated(source: KernelSource, target: Target) -> str | None:
    """Why a target cannot launch a kernel, by its memory and threads alone.

    Found by compiling until memory is allocated; registers are not known then.

    Raises:
        CompilationError: the target's compiler refuses it.
    """
    taken = allocate_for(source, target)
    own = Resources(
        registers=0,
        spilled=0,
        shared=taken.shared,
        warps=taken.warps,
        threads=taken.warps * target.threads,
    )
    limits = target.limits
    return exceeded(own, occupancy(own, limits) if limits else None, target, taken.tensor)


def over_limit(inspection: Inspection) -> str | None:
    """Why a target cannot launch a kernel; None if it can, or if its limits are not known."""
    return exceeded(
        inspection.resources,
        inspection.occupancy,
        inspection.target,
        inspection.compilation.metadata.get("tmem_size"),
    )


def exceeded(
    own: Resources, held: Occupancy | None, target: Target, tensor_memory: int | None = None
) -> str | None:
    """Why a target cannot launch a kernel of known resources.

    Args:
        held: its occupancy; None if the target's limits are not known.
        target: whose limits count.
        tensor_memory: columns that the kernel takes, if there is such memory.
    """
    limits = target.limits
    if own.threads > MAX_THREADS:
        return f"a block has {own.threads:,} threads; {target.name} allows {MAX_THREADS:,}"
    if (tensor_memory or 0) > MAX_TENSOR_MEMORY:
        return (
            f"takes {tensor_memory} columns of tensor memory; {target.name} has {MAX_TENSOR_MEMORY}"
        )
    if limits is None or held is None:
        return None
    if own.shared > limits.shared_per_block:
        return (
            f"takes {own.shared:,} bytes of shared memory; a block has at most "
            f"{limits.shared_per_block:,} on {target.name}"
        )
    if held.allowed["registers"] == 0:
        return (
            f"takes {own.registers} registers in each of {own.threads:,} threads, more than "
            f"{target.name} has"
        )
    return None


class _Target(TypedDict, total=False):
    target: str
    threads: int
    blocks_per_multiprocessor: int | None
    limited_by: str | None


class StaticResources(_Target):
    """Static resources of a kernel, as they are stored."""

    registers: int
    spilled: int
    shared: int
    occupancy: float | None


def figures(own: Resources, held: Occupancy | None, target: Target) -> StaticResources:
    """Static resources, as they are stored."""
    return {
        "target": target.name,
        "registers": own.registers,
        "spilled": own.spilled,
        "shared": own.shared,
        "threads": own.threads,
        "blocks_per_multiprocessor": held.blocks if held else None,
        "occupancy": held.share if held else None,
        "limited_by": held.limited_by if held else None,
    }
