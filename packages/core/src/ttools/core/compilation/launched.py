"""The kernel specialisations that a program launches, regardless of how they were compiled."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core import triton_versions
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.launch_path import METADATA, observe
from ttools.core.patches import Patches


@contextmanager
def launched() -> Iterator[list[Any]]:
    """Collect the compiled kernels that are launched in the `with` block, in order, each once."""
    kernels: list[Any] = []
    kernel_ids: set[int] = set()  # `found` keeps the kernels alive, so ids stay unique
    lock = threading.Lock()

    def note(kernel: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        with lock:
            if id(kernel) not in kernel_ids:
                kernel_ids.add(id(kernel))
                kernels.append(kernel)

    with Patches() as patches:
        observe(patches, METADATA, before=note)
        yield kernels


def source_by_kernel(kernels: Iterable[Any]) -> dict[Any, KernelSource]:
    """Return the source of each compiled kernel, by its `src`; equal sources are one object.

    Kernels that were not compiled from a Python function are left out.
    """
    sources: dict[KernelSource, KernelSource] = {}
    by_kernel: dict[Any, KernelSource] = {}
    for kernel in kernels:
        fields = triton_versions.specialised_source(kernel)
        if fields is not None:
            source = KernelSource(**fields, compiled=kernel)
            by_kernel[kernel.src] = sources.setdefault(source, source)
    return by_kernel
