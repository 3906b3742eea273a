"""The specialisations of kernels that a program compiles or launches, and their differences."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ttools.core import inductor, triton_versions
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.launch_path import INDUCTOR, METADATA, observe
from ttools.core.patches import Patches
from ttools.core.process.host_line import host_line

#: Launch options that affect the compilation, as named by Triton's hook.
_OPTIONS = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A parameter or option with its earlier and its current specialisation."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


def changes(before: KernelSource, now: KernelSource) -> list[Change]:
    """Return the differences between two specialisations of a kernel."""
    pairs = [
        *_pairs(before.parameters(), now.parameters()),
        *_pairs(dict(before.options), dict(now.options)),
    ]
    return [Change(name=n, before=str(b), now=str(a)) for n, b, a in pairs if b != a]


def _pairs(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in {**before, **now}:
        yield name, before.get(name, "default"), now.get(name, "default")


def reason(earlier: Sequence[KernelSource], now: KernelSource) -> list[Change]:
    """Return the differences from the most similar earlier specialisation of the kernel.

    The list is empty for the first compilation.
    """
    same = [source for source in earlier if source.function is now.function]
    return min((changes(source, now) for source in same), key=len, default=[])


@contextmanager
def captured(
    *, names: Sequence[str] = (), on_source: Callable[[KernelSource], object] = lambda _: None
) -> Iterator[list[KernelSource]]:
    """Collect the specialisations that Triton compiles or loads in the `with` block, in order.

    Args:
        names: Names of the kernels to collect; empty for all.
        on_source: Function to call with each specialisation before Triton compiles it.
    """
    from triton import knobs

    sources: list[KernelSource] = []
    lock = threading.Lock()
    keys: set[tuple[object, ...]] = set()

    def noting(following: Callable[..., Any] | None) -> Callable[..., Any]:
        def hook(**fields: Any) -> Any:
            note(fields)
            return following(**fields) if following else None

        return hook

    def note(fields: dict[str, Any]) -> None:
        keep(fields["fn"].jit_function, fields["compile"])

    def compiled(tuner: Any, args: tuple[Any, ...], fields: dict[str, Any], result: Any) -> None:
        keep(inductor.jit_function(tuner), inductor.compiled_for(tuner))

    def keep(function: Any, fields: dict[str, Any]) -> None:
        source = _source(function, fields)
        key = (function, repr(source.signature), repr(source.constants), repr(source.hints))
        with lock:
            new = (*key, repr(source.options)) not in keys
            keys.add((*key, repr(source.options)))
            if new and (not names or source.name in names):
                sources.append(source)
                on_source(source)

    with Patches() as patches:
        patches.wrap(knobs.runtime, "jit_cache_hook", noting)
        observe(patches, INDUCTOR, after=compiled)
        yield sources


def _source(function: Any, given: dict[str, Any]) -> KernelSource:
    (hints,) = given["configs"]
    return KernelSource(
        name=function.__name__,
        function=function,
        signature=dict(given["signature"]),
        constants=dict(given["constants"]),
        hints=dict(hints),
        options={name: given[name] for name in _OPTIONS if name in given},
        launched=host_line(),
    )


@contextmanager
def launched() -> Iterator[list[Any]]:
    """Collect the distinct compiled kernels launched in the `with` block, in order."""
    kernels: list[Any] = []
    kernel_ids: set[int] = set()  # `kernels` keeps them alive, so ids stay unique
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
    """Map the `src` of each compiled kernel to its source; equal sources are the same object.

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
