"""Rejection of configurations that a GPU cannot run, by compiling them; no GPU is required.

Memory and threads are known long before machine code is generated, so most configurations that do
not fit are rejected early. Only violations of launch rules lead to rejection; the cost model
handles configurations that are merely slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ttools.core import triton_versions
from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.resources import Occupancy, Resources, allocated_needs
from ttools.core.gpus.launch_rules import Violation, broken_rules, limits_of
from ttools.core.gpus.targets import Target
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.space.candidate import Candidate

_NO_OPTIONS = ("grid", "warmup")


def specialised(launch: TunedCall, candidate: Candidate) -> KernelSource:
    """Return the kernel in a given configuration, specialised as the launch requires.

    Raises:
        Exception: Triton's front end rejects the kernel.
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
    """Return why a target cannot launch a kernel, judging by memory and threads alone.

    The kernel is only compiled until its memory is allocated; at this point, its registers are not
    known yet.

    Raises:
        CompilationError: The target's compiler rejects the kernel.
    """
    return _refusal(broken_rules(allocated_needs(source, target), limits_of(target)))


def over_limit(inspection: Inspection) -> str | None:
    """Return why a target cannot launch a kernel; None if it can."""
    return _refusal(inspection.broken_rules)


def _refusal(broken: Sequence[Violation]) -> str | None:
    return broken[0].message if broken else None


class _Target(TypedDict, total=False):
    target: str
    threads: int
    blocks_per_multiprocessor: int | None
    limited_by: str | None


class StaticResources(_Target):
    """Static resources of a kernel, as the store contains them."""

    registers: int
    spilled: int
    shared: int
    occupancy: float | None


def figures(own: Resources, occupied: Occupancy | None, target: Target) -> StaticResources:
    """Return static resources in the form that the store contains."""
    return {
        "target": target.name,
        "registers": own.registers,
        "spilled": own.spilled,
        "shared": own.shared,
        "threads": own.threads,
        "blocks_per_multiprocessor": occupied.blocks if occupied else None,
        "occupancy": occupied.share if occupied else None,
        "limited_by": occupied.limited_by if occupied else None,
    }
