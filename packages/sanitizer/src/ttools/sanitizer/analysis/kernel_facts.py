"""A cache of the results of static analyses, per kernel.

Checks analyse the module of a kernel: for example, they look for lock sections or for index loads.
Such a result is the same for all launches of the kernel, so it is computed by the first launch that
needs it. Results that depend on more than the module, such as the values of arguments, are cached
under a key that contains these values.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ttools.core.location import SourceLocation
from ttools.interpreter.analysis.effects import waits
from ttools.interpreter.analysis.positions import Position, position_of
from ttools.interpreter.run.variants import Variants
from ttools.ir import Module
from ttools.ir.dialects.traits import CALL, UNCOUNTED
from ttools.ir.inlining import inline_calls

T = TypeVar("T")
U = TypeVar("U")


class KernelFacts:
    """A kernel and the cached results of analyses of it.

    Attributes:
        module: The kernel's module, with calls inlined where possible. It is shared by all checks,
            which only read it.
        ttir: TTIR of the kernel as Triton generated it.
        calls: True if the kernel calls functions and all of these calls could be inlined.
    """

    def __init__(self, variants: Variants) -> None:
        module: Module = variants.module
        self.calls = any(op.has(CALL) for op in module.kernel.walk())
        if len(module.functions) > 1:
            module = variants.parse()
            self.calls &= not inline_calls(module)
        self.module = module
        self.ttir = variants.ttir
        self._results: dict[Hashable, Any] = {}

    def fact(self, find: Callable[[Module], T]) -> T:
        """Return `find(module)`, from the cache if it was computed before.

        Args:
            find: An analysis of the kernel's module. The function itself is the key of the cache,
                so it must be the same object in each call.
        """
        results = self._results
        if find not in results:
            results[find] = find(self.module)
        return results[find]  # type: ignore[no-any-return]

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value cached under a key; in the first call, compute it by `make`."""
        results = self._results
        if key not in results:
            results[key] = make()
        return results[key]  # type: ignore[no-any-return]

    def at(
        self,
        find: Callable[[Module], Mapping[Position, T]],
        location: SourceLocation | None,
        other: U,
    ) -> T | U:
        """Return the entry for a location in the result of an analysis, or `other` if none.

        Args:
            find: An analysis whose result is a mapping by position; see `fact`.
        """
        position = position_of(location)
        return other if position is None else self.fact(find).get(position, other)

    @cached_property
    def waits(self) -> bool:
        """True if a loop of the kernel seems to wait for other programs."""
        loops = (op for op in self.module.walk() if op.has(UNCOUNTED))
        return any(waits(loop, self.module.functions) for loop in loops)


class KernelFactsTable:
    """The kernels that a run has launched, held by weak references."""

    def __init__(self) -> None:
        self._kernels: WeakKeyDictionary[Variants, KernelFacts] = WeakKeyDictionary()
        self._latest: tuple[weakref.ref[Variants], KernelFacts] | None = None

    def of(self, variants: Variants) -> KernelFacts:
        """Return the cached facts of a kernel; create an empty entry at its first launch."""
        latest = self._latest
        if latest is not None and latest[0]() is variants:
            return latest[1]
        kernel = self._kernels.get(variants)
        if kernel is None:
            kernel = self._kernels[variants] = KernelFacts(variants)
        self._latest = weakref.ref(variants), kernel
        return kernel
