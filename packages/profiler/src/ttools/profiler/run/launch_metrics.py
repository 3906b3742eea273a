"""What kernels say of their launches: the numbers that `@triton.jit(launch_metadata=...)` gives.

Owns which of them count: those that Proton's own hook takes.
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
    """Hands over what each launch's kernel says of it, before it runs, while the context lasts.

    Args:
        take: called for each launch; with nothing where the kernel says nothing.
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
    """What a kernel says of a launch.

    Attributes:
        metrics: its numbers.
        name: what Proton's hook calls the launch; empty where that is the kernel's own name.
    """

    metrics: Mapping[str, float]
    name: str = ""


def of_launch(
    compiled: Any, metadata: Any, grid: tuple[int, ...], arguments: Sequence[Any]
) -> KernelMetadata:
    """What the kernel says of a launch.

    Args:
        compiled: Triton's `CompiledKernel`.
        metadata: what Triton made for hooks; None without any.
        arguments: of the launch, constants included.
    """
    function = compiled.src.fn
    if metadata is not None:
        said = metadata.get()
    elif function.launch_metadata is None:
        return KernelMetadata({})
    else:
        named = dict(zip(function.arg_names, arguments, strict=False))
        said = function.launch_metadata(grid, compiled.metadata, named)
    name = str(said.get("name") or "")
    return KernelMetadata(_known(said), name if name != function.__name__ else "")


def _known(said: Mapping[str, Any]) -> dict[str, float]:
    known = {name: said[name] for name in _NAMES if name in said}
    return numbers(known) if known else {}


def flops_of(metrics: Mapping[str, float]) -> float | None:
    """Operations of all widths together; None if none are reported."""
    found = [value for name, value in metrics.items() if name.startswith("flops")]
    return sum(found) if found else None
