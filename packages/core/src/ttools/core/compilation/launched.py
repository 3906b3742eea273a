"""Which specialisations of kernels a program launches, whoever compiled them and when.

Owns reading them off the kernels that launches return. Must not know targets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core import triton_versions
from ttools.core.compilation.kernel_source import KernelSource


@contextmanager
def launched(
    *, names: Collection[str] = (), ignored_backend: str = ""
) -> Iterator[list[KernelSource]]:
    """Collects the specialisations that are launched in its context, in order.

    Args:
        names: of the kernels wanted; all by default.
        ignored_backend: kernels that this one compiled do not count.
    """
    kind = triton_versions.jit_function_class()
    original: Callable[..., Any] = kind.run
    found: list[KernelSource] = []
    known: dict[int, Any] = {}  # holding the kernels keeps their ids apart
    lock = threading.Lock()

    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = original(function, *args, **kwargs)
        if id(kernel) not in known and not kwargs.get("warmup"):
            with lock:
                known[id(kernel)] = kernel
                source = triton_versions.specialised_source(kernel)
                wanted = source is not None and (not names or function.__name__ in names)
                if source is not None and wanted and source.backend != ignored_backend:
                    _add(found, function, source)
        return kernel

    kind.run = run
    try:
        yield found
    finally:
        kind.run = original


def _add(
    found: list[KernelSource], function: Any, source: triton_versions.SpecialisedSource
) -> None:
    new = KernelSource(
        name=function.__name__,
        function=function,
        signature=source.signature,
        constants=source.constants,
        hints=source.hints,
        options=source.options,
    )
    if not any(each.function is function and repr(each) == repr(new) for each in found):
        found.append(new)
