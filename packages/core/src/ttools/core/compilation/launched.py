"""Which specialisations of kernels a program launches, whoever compiled them and when.

Owns reading them off the kernels that are asked about their launches. Must not know targets.
"""

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
    """Collects the compiled kernels that are launched in its context, in order, each once."""
    found: list[Any] = []
    known: set[int] = set()  # `found` holds the kernels, which keeps their ids apart
    lock = threading.Lock()

    def note(kernel: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        with lock:
            if id(kernel) not in known:
                known.add(id(kernel))
                found.append(kernel)

    with Patches() as patches:
        observe(patches, METADATA, before=note)
        yield found


def source_by_kernel(kernels: Iterable[Any]) -> dict[Any, KernelSource]:
    """Return the source of each compiled kernel, by its `src`; equal sources are one object.

    Kernels that were compiled from no Python function are left out.
    """
    sources: dict[KernelSource, KernelSource] = {}
    by_kernel: dict[Any, KernelSource] = {}
    for kernel in kernels:
        fields = triton_versions.specialised_source(kernel)
        if fields is not None:
            source = KernelSource(**fields, compiled=kernel)
            by_kernel[kernel.src] = sources.setdefault(source, source)
    return by_kernel
