"""Figures that kernels report about their launches with `@triton.jit(launch_metadata=...)`.

The recognised figures are those of Proton's own hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ttools.profiler.run.proton_scopes import numbers

_NAMES = ("flops", "flops8", "flops16", "flops32", "flops64", "bytes")


@contextmanager
def reported(take: Callable[[dict[str, float]], None]) -> Iterator[None]:
    """Pass the figures of each launch to a function before the launch, during the `with` block.

    Args:
        take: Called for each launch, with an empty dictionary if the kernel reports nothing.
    """
    from triton import knobs

    def enter(metadata: Any) -> None:
        take(_known(metadata.get()))

    hooks = knobs.runtime.launch_enter_hook
    hooks.add(enter)
    try:
        yield
    finally:
        hooks.remove(enter)


@dataclass(frozen=True)
class KernelMetadata:
    """Metadata that a kernel reports about a launch.

    Attributes:
        metrics: The reported figures, such as `flops16` and `bytes`.
        name: Name of the launch in Proton's hook; empty if it is the kernel's own name.
    """

    metrics: Mapping[str, float]
    name: str = ""


def of_launch(
    compiled: Any, metadata: Any, grid: tuple[int, ...], arguments: Sequence[Any]
) -> KernelMetadata:
    """Return the metadata that a kernel reports about a launch.

    Args:
        compiled: Triton's `CompiledKernel` that is launched.
        metadata: The object that Triton passes to launch hooks; None if there are no hooks.
        grid: Number of programs along each axis.
        arguments: Arguments of the launch, including constants.
    """
    function = compiled.src.fn
    if metadata is not None:
        reported = metadata.get()
    elif function.launch_metadata is None:
        return KernelMetadata({})
    else:
        named = dict(zip(function.arg_names, arguments, strict=False))
        reported = function.launch_metadata(grid, compiled.metadata, named)
    name = str(reported.get("name") or "")
    return KernelMetadata(_known(reported), name if name != function.__name__ else "")


def _known(reported: Mapping[str, Any]) -> dict[str, float]:
    figures = {name: reported[name] for name in _NAMES if name in reported}
    return numbers(figures) if figures else {}


def flops_of(metrics: Mapping[str, float]) -> float | None:
    """Return the sum of the reported operations of all widths; None if there are none."""
    values = [value for name, value in metrics.items() if name.startswith("flops")]
    return sum(values) if values else None
