"""The check `numeric`: the first NaN, infinity, division by zero and wrong integer in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from ttools.core.findings.findings import Finding, Related
from ttools.core.location import user_location
from ttools.interpreter.runtime.monitor import Count
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.passes import numeric
from ttools.sanitizer.passes.check import places
from ttools.sanitizer.passes.rewrites import Pass
from ttools.sanitizer.passes.truncated_division import HELP


class Numeric(Check):
    """Finds the origins of NaN and other wrong numbers; this check runs only on request."""

    name = "numeric"
    page = "reference/findings.md#the-numeric-check"
    data_hooks = frozenset[str]()
    is_default = False
    kinds: ClassVar[Kinds] = {
        "nan": Kind(
            severity="warning",
            meaning="The operation that produces the first NaN of a launch that reaches memory.",
            help="keep the operands in the range for which the operation is defined",
        ),
        "inf": Kind(
            severity="warning",
            meaning="The operation that produces the first infinity of a launch that reaches "
            "memory.",
            help="compute in a wider type, or subtract the maximum before exp",
        ),
        "div_by_zero": Kind(
            severity="warning",
            meaning="The first division by zero of a launch whose result reaches memory or an "
            "address.",
            help="guard the division, for example with tl.where",
        ),
        "int_overflow": Kind(
            severity="warning",
            meaning="The first integer operation of a launch whose wrong result reaches memory: a "
            "sum, difference or product wraps, or a converted value does not fit the target type.",
            help="compute in a wider type, or clamp before converting",
        ),
        "truncated_division": Kind(
            severity="note",
            meaning="The first quotient or remainder of a launch with a negative operand that "
            "differs from Python's, which is floored, and reaches memory or an address.",
            help=HELP,
        ),
    }

    def passes(self) -> Sequence[Pass]:
        """Return the pass, which every kernel needs because values are known only at run time."""
        unsigned = numeric.unsigned_parameters(self.checked.launch.kernel.plan.types)
        return self.checked.kernel.remember((Numeric, unsigned), lambda: _pass_for(unsigned))

    def failures(self, counts: Sequence[Count]) -> Iterator[Finding]:
        """Yield only the first failure of each kind, because one NaN leads to others.

        The first failure is the one in the program with the lowest number; within a program, it is
        the one that comes first in the source.
        """
        firsts: dict[str, Count] = {}
        for count in filter(self.is_own, counts):
            kind = dict(count.witness.site.attributes)["kind"]
            first = firsts.get(kind)
            if first is None or _position(count) < _position(first):
                firsts[kind] = count
        yield from map(self._with_infinities, firsts.values())

    def _with_infinities(self, count: Count) -> Finding:
        """Return the finding for a failed check.

        The finding of a NaN lists the origins of the infinities from which the NaN was computed.
        """
        finding = self.at_site(count)
        origins = places(dict(count.witness.site.attributes).get("origins", ""))
        variables = dict(finding.variables)
        related = [
            Related(message="the infinity originates here", location=location)
            for n, location in enumerate(origins)
            if variables.get(f"{numeric.ORIGIN}{n}") == "true"
        ]
        return replace(
            finding,
            variables=tuple(v for v in finding.variables if not v[0].startswith(numeric.ORIGIN)),
            related=(*finding.related, *related),
        )


def _pass_for(unsigned: tuple[int, ...]) -> Sequence[Pass]:
    apply = partial(numeric.apply, unsigned=unsigned)
    return (Pass("numeric", " ".join(["numeric", *map(str, unsigned)]), apply),)


def _position(count: Count) -> tuple[int, int, int]:
    location = user_location(count.witness.site.location)
    line = (location.line, location.column) if location is not None else (0, 0)
    return (count.witness.program, *line)
