"""What kernels say of their launches: the numbers that `@triton.jit(launch_metadata=...)` gives.

Owns which of them count: those that Proton's own hook takes. Must not know what they are used for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ttools.core.proton_scopes import numbers

_NAMES = ("flops", "flops8", "flops16", "flops32", "flops64", "bytes")


@contextmanager
def told(take: Callable[[dict[str, float]], None]) -> Iterator[None]:
    """Hands over what each launch's kernel says of it, before it runs, while the context lasts.

    Args:
        take: called for each launch; with nothing where the kernel says nothing.
    """
    from triton import knobs

    def enter(metadata: Any) -> None:
        said = metadata.get()
        known = {name: said[name] for name in _NAMES if name in said}
        take(numbers(known) if known else {})

    hooks = knobs.runtime.launch_enter_hook
    hooks.add(enter)
    try:
        yield
    finally:
        hooks.remove(enter)


def flops_of(metrics: Mapping[str, float]) -> float | None:
    """Operations of all widths together; None if none are told."""
    found = [value for name, value in metrics.items() if name.startswith("flops")]
    return sum(found) if found else None
