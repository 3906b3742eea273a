"""Accesses that leave their memory because an integer wrapped on the way: one defect, not two.

The check of an overflow stands right before the access that its address reaches, so the first
access behind it in the kernel is the one. Must not know how either is reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.runtime.monitor import Count


def wrapped_accesses(
    counts: Sequence[Count], sites: Sequence[ProbeSite]
) -> list[tuple[Count, Sequence[Count]]]:
    """Failed accesses in no more lanes than those of overflows that reach them.

    Args:
        counts: what failed in one launch.
        sites: all probes of the kernel.

    Returns:
        Each with those overflows, in the order of the kernel.
    """
    overflows = [count for count in counts if _is_overflow(count.witness.site)]
    if not overflows:
        return []
    accesses = sorted({site.operation for site in sites if site.kind != "check"})
    by_access: dict[int, list[Count]] = {}
    for count in overflows:
        operation = count.witness.site.operation
        behind = next((access for access in accesses if access > operation), None)
        if behind is not None:
            by_access.setdefault(behind, []).append(count)
    found: list[tuple[Count, Sequence[Count]]] = []
    for count in counts:
        site = count.witness.site
        causes = by_access.get(site.operation, ())
        leaves = site.kind != "check" and count.witness.test != "overwritten"
        if leaves and causes and count.lanes <= sum(cause.lanes for cause in causes):
            found.append((count, causes))
    return found


def _is_overflow(site: ProbeSite) -> bool:
    return site.kind == "check" and dict(site.attributes)["check"] == "overflow"
