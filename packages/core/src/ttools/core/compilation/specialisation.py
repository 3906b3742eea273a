"""Why a kernel was compiled again: which argument differs from what it was compiled for before.

Owns the record of compilations that a script causes. Must not know targets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ttools.core import inductor
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.launch_path import INDUCTOR, observe
from ttools.core.patches import Patches
from ttools.core.process.host_line import host_line

#: Options of a launch that a compilation depends on, as Triton's hook tells them.
_OPTIONS = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one parameter or option was compiled for before, and is now."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


def changes(before: KernelSource, now: KernelSource) -> list[Change]:
    """How one specialisation of a kernel differs from another."""
    pairs = [
        *_pairs(before.parameters(), now.parameters()),
        *_pairs(dict(before.options), dict(now.options)),
    ]
    return [Change(name=n, before=str(b), now=str(a)) for n, b, a in pairs if b != a]


def _pairs(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in {**before, **now}:
        yield name, before.get(name, "default"), now.get(name, "default")


def reason(earlier: Sequence[KernelSource], now: KernelSource) -> list[Change]:
    """Why a kernel is compiled again: the fewest changes from any specialisation of it before.

    Returns:
        Nothing for its first compilation.
    """
    same = [each for each in earlier if each.function is now.function]
    return min((changes(each, now) for each in same), key=len, default=[])


@contextmanager
def captured(*, names: Sequence[str] = ()) -> Iterator[list[KernelSource]]:
    """Collects the specialisations that Triton compiles or loads in its context, in order.

    Args:
        names: of the kernels wanted; all by default.
    """
    from triton import knobs

    found: list[KernelSource] = []
    lock = threading.Lock()
    known: set[tuple[object, ...]] = set()

    def noting(following: Callable[..., Any] | None) -> Callable[..., Any]:
        def hook(**given: Any) -> Any:
            note(given)
            return following(**given) if following else None

        return hook

    def note(given: dict[str, Any]) -> None:
        keep(given["fn"].jit_function, given["compile"])

    def compiled(tuner: Any, args: tuple[Any, ...], given: dict[str, Any], result: Any) -> None:
        keep(inductor.jit_function(tuner), inductor.compiled_for(tuner))

    def keep(function: Any, given: dict[str, Any]) -> None:
        source = _source(function, given)
        key = (function, repr(source.signature), repr(source.constants), repr(source.hints))
        with lock:
            new = (*key, repr(source.options)) not in known
            known.add((*key, repr(source.options)))
            if new and (not names or source.name in names):
                found.append(source)

    with Patches() as patches:
        patches.wrap(knobs.runtime, "jit_cache_hook", noting)
        observe(patches, INDUCTOR, after=compiled)
        yield found


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
