"""Durations of the stages of Triton's compiler, and the state of its cache on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttools.core.patches import Patches


@dataclass(frozen=True, kw_only=True)
class CompileTimes:
    """The durations of one call of Triton's compiler.

    Attributes:
        source: The `ASTSource` or `IRSource` that was compiled.
        metadata: Triton's data about the compiled kernel: options, environment, target, `hash`.
        seconds: Seconds by stage, in order: `front end`, then Triton's names, such as `ttgir`.
        cached: True if the kernel was loaded from Triton's cache on disk, without compilation.
    """

    source: Any
    metadata: Mapping[str, Any]
    seconds: Mapping[str, float]
    cached: bool


def observe_compile_times(patches: Patches, receive: Callable[[CompileTimes], object]) -> None:
    """Call a function after each call of Triton's compiler, in the thread that compiled."""
    from triton import knobs

    def listening(following: Callable[..., Any] | None) -> Callable[..., Any]:
        def listener(**fields: Any) -> Any:
            times = fields["times"]
            # Triton reports whole microseconds.
            stages = [("front end", times.ir_initialization), *times.lowering_stages]
            cached = bool(fields["cache_hit"])
            receive(
                CompileTimes(
                    source=fields["src"],
                    metadata=dict(fields["metadata"]),
                    seconds={} if cached else {name: value / 1e6 for name, value in stages},
                    cached=cached,
                )
            )
            return following(**fields) if following else None

        return listener

    patches.wrap(knobs.compilation, "listener", listening)


@contextmanager
def without_disk_cache() -> Iterator[None]:
    """Make Triton compile kernels in the `with` block even if its cache on disk contains them."""
    from triton import knobs

    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


def always_compiles() -> bool:
    """Return whether TRITON_ALWAYS_COMPILE disables Triton's cache on disk."""
    from triton import knobs

    return bool(knobs.compilation.always_compile)


def disk_cache_folder() -> Path | None:
    """Return the folder of Triton's cache; None if another cache manager is installed."""
    from triton import knobs
    from triton.runtime.cache import FileCacheManager

    manager = knobs.cache.manager_class
    return Path(knobs.cache.dir) if manager in (None, FileCacheManager) else None
