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


def source_by_kernel(kernels: Iterable[Any]) -> dict[int, KernelSource]:
    """What compiled kernels were compiled from, by the `id` of `src`; equal sources are one object.

    Kernels of no Python function are left out.
    """
    found: list[KernelSource] = []
    by_kernel: dict[int, KernelSource] = {}
    for kernel in kernels:
        source = triton_versions.specialised_source(kernel)
        if source is None:
            continue
        new = KernelSource(**source, compiled=kernel)
        alike = (e for e in found if e.function is new.function and repr(e) == repr(new))
        known = next(alike, None)
        if known is None:
            found.append(known := new)
        by_kernel[id(kernel.src)] = known
    return by_kernel
