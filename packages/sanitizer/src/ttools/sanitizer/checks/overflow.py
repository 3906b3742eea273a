"""overflow: narrow integers that wrap around on their way into an address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ttools.interpreter.ir import IntegerType, Module, as_signed
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.passes import overflow
from ttools.sanitizer.passes.rewrites import Pass


class Overflow(Check):
    """Wrapped offsets, looked for where the numbers passed leave room for them."""

    name = "overflow"
    kinds: ClassVar[Kinds] = {
        "int_overflow": Kind(
            severity="error",
            meaning="A narrow integer, signed or unsigned, wraps on its way to an address: in an "
            "operation, or inside a sum, product or scan of several.",
            help="widen one of the operands before, for example with `.to(tl.int64)`",
        )
    }

    def passes(self) -> Sequence[Pass]:
        """The pass for the operations that may wrap in this launch, mostly none."""
        kernel, launch = self.checked.kernel, self.checked.launch
        raw, grid = launch.raw_parameters, (*map(int, launch.grid), 1, 1, 1)[:3]
        integers = kernel.fact(_integers)
        key = (Overflow, grid, *[raw[n] for n, _ in integers])
        return kernel.remember(key, lambda: self._passes(raw, grid, integers))

    def _passes(
        self, raw: Sequence[int], grid: Sequence[int], integers: Sequence[tuple[int, int]]
    ) -> Sequence[Pass]:
        kernel = self.checked.kernel
        scalars = {n: as_signed(raw[n] & ((1 << bits) - 1), bits) for n, bits in integers}
        found = overflow.find(kernel.module, scalars, grid)
        return kernel.remember((Overflow, found), lambda: _pass_for(found)) if found else ()


def _pass_for(found: frozenset[overflow.Candidate]) -> Sequence[Pass]:
    name = ",".join(f"{position}:{bits}" for position, bits in sorted(found))
    return (Pass("overflow", f"overflow {name}", lambda module: overflow.apply(module, found)),)


def _integers(module: Module) -> tuple[tuple[int, int], ...]:
    """Index and bits of each parameter that is an integer."""
    types = enumerate(value.type for value in module.kernel.regions[0].entry.arguments)
    return tuple((n, type.width) for n, type in types if isinstance(type, IntegerType))
