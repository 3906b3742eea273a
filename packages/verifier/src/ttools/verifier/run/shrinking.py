"""Reduces the inputs of a failure to small sizes and ordinary values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Case

T = TypeVar("T")
#: A kind of finite values that are all different. Other kinds change only some elements, which
#: small tensors may not contain.
_DISTINCT = "graded"


def shrunk(
    case: Case, domain: Domain, failure_of: Callable[[Case], T | None], tries: int
) -> tuple[Case, T] | None:
    """Return the simplest case that still fails, with its failure; None if no simpler case fails.

    Args:
        case: Case that fails, which is not run again.
        domain: Domain of the inputs.
        failure_of: Returns the failure of a case, or None if the case does not fail in the same
            way.
        tries: Maximum number of cases to run.
    """
    best: tuple[Case, T] | None = None
    now = case
    while tries > 0:
        for plainer in _plainer(now, domain):
            tries -= 1
            problem = failure_of(plainer)
            if problem is not None:
                now, best = plainer, (plainer, problem)
                break
            if tries <= 0:
                break
        else:
            break
    return best


def _plainer(case: Case, domain: Domain) -> Iterator[Case]:
    """Yield cases that are one step simpler, the largest steps first."""
    if (case.values != "drawn" or case.values_of) and not case.reuse:
        yield replace(case, values="drawn", values_of={})
        if case.values != _DISTINCT:
            yield replace(case, values=_DISTINCT, values_of={})
    if case.views:
        yield replace(case, views={})
    if case.only_grad:
        yield replace(case, only_grad="")
    if case.only_output:
        yield replace(case, only_output="")
    if case.passes != "once":
        yield replace(case, passes="once")
    if case.late_grad:
        yield replace(case, late_grad=False)
    if len(case.after) > 1:
        yield replace(case, after=case.after[-1:])
    for small in (1, 2, 3):
        sizes = {
            name: max(low, min(small, case.sizes[name])) for name, (low, _) in domain.sizes.items()
        }
        if sizes != case.sizes:
            yield _with_sizes(case, sizes)
    for name, (low, _) in domain.sizes.items():
        own = case.sizes[name]
        for value in (1, 2, own // 2, own - 1):
            if low <= value < own and value >= min(1, own):
                yield _with_sizes(case, {**case.sizes, name: value})


def _with_sizes(case: Case, sizes: dict[str, int]) -> Case:
    """Return a case with new sizes; earlier calls with the same sizes also get the new sizes."""
    after = tuple(
        replace(earlier, sizes=sizes) if earlier.sizes == case.sizes else earlier
        for earlier in case.after
    )
    return replace(case, sizes=sizes, after=after)
