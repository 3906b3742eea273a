"""What the checks know of a kernel, whatever its launches: looked up once, kept for all of them.

Owns the cache; what is looked up are functions of the kernel's module, which the checks bring.
Must not know any check, nor what a launch does: what depends on numbers is kept by those numbers.
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
    """A kernel and what was found out about it.

    Attributes:
        module: to look at and not to change; its calls are inlined.
        ttir: the text that Triton gave.
        calls: whether it calls functions, all of which can be inlined.
    """

    def __init__(self, variants: Variants) -> None:
        module: Module = variants.module
        self.calls = any(op.has(CALL) for op in module.kernel.walk())
        if len(module.functions) > 1:
            module = variants.parse()
            self.calls &= not inline_calls(module)
        self.module = module
        self.ttir = variants.ttir
        self._known: dict[Hashable, Any] = {}

    def fact(self, find: Callable[[Module], T]) -> T:
        """What a function says of the kernel's module; it is called once."""
        known = self._known
        if find not in known:
            known[find] = find(self.module)
        return known[find]  # type: ignore[no-any-return]

    def remember(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returned when it was called for this key."""
        known = self._known
        if key not in known:
            known[key] = make()
        return known[key]  # type: ignore[no-any-return]

    def at(
        self,
        find: Callable[[Module], Mapping[Position, T]],
        location: SourceLocation | None,
        other: U,
    ) -> T | U:
        """What a function that looks at positions says of one, else `other`."""
        position = position_of(location)
        return other if position is None else self.fact(find).get(position, other)

    @cached_property
    def waits(self) -> bool:
        functions = self.module.functions
        loops = (op for f in functions.values() for op in f.walk() if op.has(UNCOUNTED))
        return any(waits(loop, functions) for loop in loops)


class KernelFactsTable:
    """The kernels that a run has launched, as long as they live."""

    def __init__(self) -> None:
        self._kernels: WeakKeyDictionary[Variants, KernelFacts] = WeakKeyDictionary()
        self._latest: tuple[weakref.ref[Variants], KernelFacts] | None = None

    def of(self, variants: Variants) -> KernelFacts:
        latest = self._latest
        if latest is not None and latest[0]() is variants:
            return latest[1]
        kernel = self._kernels.get(variants)
        if kernel is None:
            kernel = self._kernels[variants] = KernelFacts(variants)
        self._latest = weakref.ref(variants), kernel
        return kernel
