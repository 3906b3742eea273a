"""The check `overflow`: narrow integers that wrap around and then reach an address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from ttools.core.findings.findings import Finding, Related
from ttools.core.reports.report import counted
from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.runtime.monitor import Count
from ttools.ir import IntegerType, Module, as_signed
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.passes import numeric, overflow
from ttools.sanitizer.passes.narrow_sums import narrow_sums
from ttools.sanitizer.passes.rewrites import Pass


class Overflow(Check):
    """Finds wrapped offsets and narrow sums; checks only operations that may wrap in the launch."""

    name = "overflow"
    page = "reference/findings.md#overflow-and-hints"
    data_hooks = frozenset[str]()
    rewrites_first = True  # operations are identified by position in the original kernel
    kinds: ClassVar[Kinds] = {
        "int_overflow": Kind(
            severity="error",
            meaning="A narrow integer, signed or unsigned, wraps in an address computation, either "
            "in a single operation or inside a reduction or scan; a warning for a sum of many "
            "integers of 8 or 16 bits that wraps and reaches memory.",
            help="widen one of the operands first, for example with `.to(tl.int64)`",
        )
    }

    def passes(self) -> Sequence[Pass]:
        """Return the passes for the operations that may wrap in this launch, usually none."""
        kernel, launch = self.checked.kernel, self.checked.launch
        narrow: Sequence[Pass] = ()
        # The check `numeric` reports these, too.
        if kernel.fact(narrow_sums) and "numeric" not in self.checked.options.checks:
            unsigned = numeric.unsigned_parameters(launch.kernel.plan.types)
            narrow = kernel.remember((narrow_sums, unsigned), lambda: _narrow_pass(unsigned))
        raw, grid = launch.raw_parameters, (*map(int, launch.grid), 1, 1, 1)[:3]
        integers = kernel.fact(integer_parameters)
        key = (Overflow, grid, *[raw[n] for n, _ in integers])
        wide = kernel.remember(key, lambda: self._passes(raw, grid, integers))
        return (*wide, *narrow) if narrow else wide

    def failures(self, counts: Sequence[Count]) -> Iterator[Finding]:
        """Yield overflows, each with the out-of-bounds access that it causes, if any."""
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
        """Return the finding with a reference to the access whose address has wrapped."""
        witness, site = access.witness, access.witness.site
        argument = self.checked.spec.argument(site.parameter)
        name = f" of `{argument.name}`" if argument else ""
        where = f"outside the {'elements passed' if witness.test == 'view' else 'memory'}{name}"
        lanes = counted(access.lanes, "lane")
        message = f"the overflow leads {where} here, in {lanes}"
        related = Related(message=message, location=site.location)
        return replace(finding, related=(*finding.related, related))

    def _passes(
        self, raw: Sequence[int], grid: Sequence[int], integers: Sequence[tuple[int, int]]
    ) -> Sequence[Pass]:
        kernel = self.checked.kernel
        scalars = {n: as_signed(raw[n] & ((1 << bits) - 1), bits) for n, bits in integers}
        candidates = overflow.find(kernel.module, scalars, grid)
        return (
            kernel.remember((Overflow, candidates), lambda: _pass_for(candidates))
            if candidates
            else ()
        )


def _pass_for(candidates: frozenset[overflow.Candidate]) -> Sequence[Pass]:
    name = ",".join(f"{position}:{bits}" for position, bits in sorted(candidates))
    return (
        Pass("overflow", f"overflow {name}", lambda module: overflow.apply(module, candidates)),
    )


def _narrow_pass(unsigned: tuple[int, ...]) -> Sequence[Pass]:
    apply = partial(numeric.apply, unsigned=unsigned, only_narrow_sums=True)
    return (Pass("overflow", " ".join(["narrow sums", *map(str, unsigned)]), apply),)


def integer_parameters(module: Module) -> tuple[tuple[int, int], ...]:
    """Return the index and the bits of each integer parameter."""
    types = enumerate(value.type for value in module.kernel.regions[0].entry.arguments)
    return tuple((n, type.width) for n, type in types if isinstance(type, IntegerType))


def wrapped_accesses(
    counts: Sequence[Count], sites: Sequence[ProbeSite]
) -> list[tuple[Count, Sequence[Count]]]:
    """Return the failed accesses that overflows have caused, each with its overflows.

    The check for an overflow is inserted right before the access that uses the address, so it
    belongs to the next access in the kernel. An access is attributed to its overflows if it does
    not fail in more lanes than these overflows. In that case, both are the same defect and must not
    be reported twice.

    Args:
        counts: The failed tests of one launch.
        sites: All instrumented operations of the kernel.
    """
    overflows = [count for count in counts if _is_overflow(count.witness.site)]
    if not overflows:
        return []
    accesses = sorted({site.operation for site in sites if site.kind != "check"})
    by_access: dict[int, list[Count]] = {}
    for count in overflows:
        operation = count.witness.site.operation
        following = next((access for access in accesses if access > operation), None)
        if following is not None:
            by_access.setdefault(following, []).append(count)
    explained: list[tuple[Count, Sequence[Count]]] = []
    for count in counts:
        site = count.witness.site
        causes = by_access.get(site.operation, ())
        leaves = site.kind != "check" and count.witness.test != "overwritten"
        if leaves and causes and count.lanes <= sum(cause.lanes for cause in causes):
            explained.append((count, causes))
    return explained


def _is_overflow(site: ProbeSite) -> bool:
    """Return whether a test is the overflow test of an integer that reaches an address."""
    if site.kind != "check":
        return False
    attributes = dict(site.attributes)
    return attributes["check"] == "overflow" and attributes["origin"] != numeric.NARROW_SUM
