"""Launches that are made several times although the program makes them once.

What a launch may have written is put back before the next, so that kernels that work in place, and
atomics, do the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ttools.profiler.gpu.copies import OwnCopies
from ttools.profiler.gpu.launched_kernel import GpuKernel, Words
from ttools.profiler.run.repetition import NOT_REPEATED


def repeated(
    kernel: GpuKernel,
    words: Words,
    times: int,
    notes: dict[str, str],
    own_copies: OwnCopies,
) -> Iterator[Callable[[], None]]:
    """Yields as often as a launch is to be made; what it yields puts memory back after it.

    Args:
        times: how often to make it; not at all if it is unknown what it writes.
        notes: takes why it cannot be repeated.
        own_copies: Takes note of the copies that keep memory and put it back.
    """
    written = kernel.written(words)
    if written is None:
        notes.setdefault(kernel.name, NOT_REPEATED)
        return
    import torch

    storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in written}
    kept: list[tuple[Any, Any]] = []
    before_copies = own_copies.now()
    for tensor in storages.values():
        # As bytes in one piece: these are copied without any kernel that would be timed.
        everything = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        everything.set_(tensor.untyped_storage())
        kept.append((everything, everything.clone()))

    own_copies.add(before_copies, (len(each) for each, _ in kept))

    def again() -> None:
        own_copies.add(own_copies.now(), (len(each) for each, _ in kept))
        for everything, before in kept:
            everything.copy_(before)

    for _ in range(times):
        yield again
