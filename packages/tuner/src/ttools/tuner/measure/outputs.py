"""Copies of what a launch writes, as tensors by the name of the argument.

Must not know why they are wanted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ttools.core.errors import TtoolsError
from ttools.interpreter.analysis.effects import memory_effects
from ttools.ir.parser import parse_module
from ttools.tuner.measure.pointees import Pointees

if TYPE_CHECKING:
    from ttools.interpreter.run.kernel_launch import KernelLaunch

_UNKNOWN_WRITES = (
    "`{}` stores through pointers that it loads from memory or that are no tensors, and {}: what "
    "it writes cannot be put back between trials"
)


class CannotTuneError(TtoolsError):
    """A kernel cannot be run again on the same memory, or its outputs cannot be looked at."""


def require_restorable(launch: KernelLaunch, pointees: Pointees) -> None:
    """Finds out before a launch whether what it writes can be put back.

    Args:
        pointees: what the tables among its arguments lead to.

    Raises:
        CannotTuneError: it may write memory that no argument leads to.
    """
    if launch.written_storages is None and not pointees.is_known:
        raise unknown_writes(launch.kernel.name, pointees)


def require_known_writes(kernel: str, ttir: str, pointees: Pointees) -> None:
    """Finds out the same about a kernel that was compiled and has not run.

    Raises:
        CannotTuneError: it stores through pointers from memory that no table leads to.
    """
    if not pointees.is_known and memory_effects(parse_module(ttir)).unknown_writes:
        raise unknown_writes(kernel, pointees)


def unknown_writes(kernel: str, pointees: Pointees) -> CannotTuneError:
    """What is said of a kernel whose writes cannot be put back."""
    names = ", ".join(f"`{name}`" for name in pointees.stray)
    why = (
        f"{names} has an address that cannot be followed"
        if names
        else "none of its arguments is a table of the addresses of tensors that are alive"
    )
    return CannotTuneError(_UNKNOWN_WRITES.format(kernel, why))


def outputs_of(
    launch: KernelLaunch, pointees: Pointees, without: Collection[str] = ()
) -> dict[str, Any]:
    """Copies of the tensors that a launch may have written.

    Args:
        pointees: what the tables among its arguments lead to.
        without: names of arguments whose contents do not matter.
    """
    effects = launch.kernel.variants.effects
    reached = pointees.tensors if effects.unknown_writes else {}
    written = sorted(effects.written)
    return {name: _copy(each) for name, each in reached.items()} | {
        launch.kernel.plan.names[index]: _copy(launch.arguments[index])
        for index in written
        if launch.kernel.plan.names[index] not in without and launch.arguments[index] is not None
    }


def _copy(argument: Any) -> Any:
    """A copy as a tensor of its own; bytes of what is no tensor keep no shape."""
    import torch

    if hasattr(argument, "untyped_storage"):
        return argument.detach().clone()
    if hasattr(argument, "array"):  # ttools.core.buffers
        copy = argument.array.copy()
        return (
            torch.from_numpy(copy.reshape(-1).view("u1")).view(argument.dtype).reshape(copy.shape)
        )
    base = argument.base.detach().clone()
    dtype = getattr(torch, str(getattr(argument, "dtype", "")), None)
    same_size = isinstance(dtype, torch.dtype) and dtype.itemsize == base.element_size()
    return base.view(dtype) if same_size else base
