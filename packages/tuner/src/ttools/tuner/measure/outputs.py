"""Copies of the tensors that a launch writes, by argument name."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ttools.core.errors import TtoolsError
from ttools.interpreter.analysis.effects import memory_effects
from ttools.ir.parser import parse_module
from ttools.tuner.measure.pointer_tables import Pointees

if TYPE_CHECKING:
    from ttools.interpreter.run.kernel_launch import KernelLaunch

_UNKNOWN_WRITES = (
    "`{}` stores through pointers that are loaded from memory or are not tensors, and {}; the "
    "memory that it writes therefore cannot be restored between trials"
)


class CannotTuneError(TtoolsError):
    """The kernel cannot be repeated on the same memory, or its outputs cannot be read."""


def require_restorable(launch: KernelLaunch, pointees: Pointees) -> None:
    """Check before a launch that everything the launch may write can be restored.

    Args:
        pointees: Memory that the launch reaches through tables of addresses.

    Raises:
        CannotTuneError: The launch may write memory that is not reached from any argument.
    """
    if launch.written_storages is None and not pointees.is_known:
        raise unknown_writes(launch.kernel.name, pointees)


def require_known_writes(kernel: str, ttir: str, pointees: Pointees) -> None:
    """Perform the check of `require_restorable` for a kernel that is compiled but has not run.

    Raises:
        CannotTuneError: The kernel stores through pointers that it reads from memory, and the
            memory that they point to is not known from tables of addresses.
    """
    if not pointees.is_known and memory_effects(parse_module(ttir)).unknown_writes:
        raise unknown_writes(kernel, pointees)


def unknown_writes(kernel: str, pointees: Pointees) -> CannotTuneError:
    """Return the error for a kernel whose writes cannot be restored."""
    names = ", ".join(f"`{name}`" for name in pointees.stray)
    why = (
        f"{names} has an address that cannot be followed"
        if names
        else "none of its arguments is a table of addresses of live tensors"
    )
    return CannotTuneError(_UNKNOWN_WRITES.format(kernel, why))


def outputs_of(
    launch: KernelLaunch, pointees: Pointees, without: Collection[str] = ()
) -> dict[str, Any]:
    """Copy the tensors that a launch may have written.

    Args:
        pointees: Memory that the launch reaches through tables of addresses.
        without: Names of arguments whose contents are not compared.
    """
    effects = launch.kernel.variants.effects
    reached = pointees.tensors if effects.unknown_writes else {}
    written = sorted(effects.written)
    return {name: _copy(tensor) for name, tensor in reached.items()} | {
        launch.kernel.plan.names[index]: _copy(launch.arguments[index])
        for index in written
        if launch.kernel.plan.names[index] not in without and launch.arguments[index] is not None
    }


def _copy(argument: Any) -> Any:
    """Copy an argument into a new tensor; arguments without a shape yield flat bytes."""
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
