"""overflow: narrow integers that wrap around on their way into an address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from ttools.core.findings.findings import Finding, Related
from ttools.core.reports.report import counted
from ttools.interpreter.runtime.monitor import Count
from ttools.ir import IntegerType, Module, as_signed
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.checks.wrapped_accesses import wrapped_accesses
from ttools.sanitizer.passes import overflow
from ttools.sanitizer.passes.rewrites import Pass


class Overflow(Check):
    """Wrapped offsets, looked for where the numbers passed leave room for them."""

    name = "overflow"
    rewrites_first = True  # operations are known by their position in the kernel as it was
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

    def failures(self, counts: Sequence[Count]) -> Iterator[Finding]:
        """Overflows; where an address leaves its memory by one, that is part of the finding."""
        monitor = self.checked.launch.monitor
        assert monitor is not None
        effects: dict[int, Count] = {}
        for access, causes in wrapped_accesses(counts, monitor.sites):
            for cause in causes:
                effects.setdefault(id(cause), access)
        for count in filter(self.is_own, counts):
            finding, effect = self.at_site(count), effects.get(id(count))
            yield finding if effect is None else self._with_effect(finding, effect)

    def _with_effect(self, finding: Finding, access: Count) -> Finding:
        """The finding with what the access did that the wrapped address leads to."""
        witness, site = access.witness, access.witness.site
        argument = self.checked.spec.argument(site.parameter)
        name = f" of `{argument.name}`" if argument else ""
        where = f"outside the {'elements passed' if witness.test == 'view' else 'memory'}{name}"
        lanes = counted(access.lanes, "lane")
        related = Related(message=f"it leads {where} here, in {lanes}", location=site.location)
        return replace(finding, related=(*finding.related, related))

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
