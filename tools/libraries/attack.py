"""Tries to refute a proof for all sizes by launches at random sizes that the proof covers.

Small launches are executed under `ttools sanitize`, with tensors of random integers. Large launches
are evaluated in machine integers, for programs at the ends of the grid, without memory. Both
methods are independent of the proofs.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ttools.ir.expr import as_expr
from ttools.prove.analysis import Analysis
from ttools.prove.contracts import Promise
from ttools.prove.host.launches import run_host
from ttools.prove.host.symbolic_numbers import Path, SymbolicInt
from ttools.prove.trace.random_tensors import NoSuchNumbersError, RandomTensors
from ttools.prove.trace.template import Template
from ttools.sanitizer import sanitize

#: Kinds of findings that a proof rules out.
KINDS = frozenset(
    ("int_overflow", "oob_load", "oob_store", "oob_atomic", "view_oob", "race", "overlapping_store")
)
_CHECKS = "memcheck,racecheck,overflow"
#: Maximum number of elements and of programs of an executed launch: first for most launches, then
#: for one in eight. Most are small, because defects at the ends of blocks also occur at small
#: sizes, which take a tenth of the time.
_TINY, _SMALL = (1 << 11, 1 << 6), (1 << 14, 1 << 10)
_SMALL_EVERY = 8
#: One in this many launches is large, and takes a hundred times as long as an executed one.
_LARGE_EVERY = 64
#: Number of launches after which findings are examined.
_TOGETHER = 64


@dataclass
class Attacked:
    """The result of an attack.

    Attributes:
        made: Number of executed launches.
        computed: Number of launches that were evaluated without memory.
        refuted: Sizes and kinds of findings, as text.
    """

    made: int = 0
    computed: int = 0
    refuted: list[str] = field(default_factory=list)


class Attack:
    """Tries to refute a proof about a launch by launches at random sizes.

    Args:
        template: The launch for all sizes.
        promised: Assumptions of the proof about the contents of integer tensors.
        seed: Seed of sizes and contents.
        low: The smallest size to try.
    """

    def __init__(
        self, template: Template, promised: Mapping[str, Promise], seed: int, low: int = 1
    ) -> None:
        self._template, self._low = template, low
        self._choose = random.Random(seed)
        self._tensors = RandomTensors(template, promised, seed)
        self._ends = {name: (low, high) for name, (_, high) in template.ends({}).items()}
        self._analysis = Analysis(template.run, self._ends, 1.0)
        self._symbols = self._analysis._symbols
        self.done = Attacked()

    def run(self, launches: int, seconds: float) -> Attacked:
        """Make launches until one refutes the proof, or until the limits are reached."""
        ends = time.monotonic() + seconds
        done = self.done
        while done.made + done.computed < launches and not done.refuted:
            left = launches - done.made - done.computed
            if time.monotonic() > ends:
                break
            large = max(1, min(left, _TOGETHER) // _LARGE_EVERY)
            for _ in range(large):
                if time.monotonic() <= ends:
                    self._compute(self._drawn(None, None))
            limits = [_TINY if n % _SMALL_EVERY else _SMALL for n in range(_TOGETHER - large)]
            self._make([self._drawn(*limit) for limit in limits], ends)
        return done

    def _drawn(self, elements: int | None, programs: int | None) -> dict[str, int]:
        """Return random sizes whose tensors fit into memory.

        Args:
            elements: Maximum number of elements of each tensor; None for no further limit.
            programs: Maximum number of programs; None for no limit.
        """
        sizes = {}
        for name, (low, high) in self._ends.items():
            top = high if elements is None else min(elements, high)
            sizes[name] = round(2 ** self._choose.uniform(math.log2(low), math.log2(top)))
        names = list(sizes)
        while names and not self._fits(sizes, elements, programs):
            name = self._choose.choice(names)
            sizes[name] = max(self._low, sizes[name] // self._choose.randint(2, 5))
            if all(size == self._low for size in sizes.values()):
                break
        return sizes

    def _fits(self, sizes: Mapping[str, int], elements: int | None, programs: int | None) -> bool:
        layouts = self._template.layouts.values()
        grid = math.prod(extent.at(sizes) for extent in self._template.grid)
        return (
            all(left.at(sizes) >= 0 for left in self._template.within)
            and (elements is None or all(t.elements.at(sizes) <= elements for t in layouts))
            and (programs is None or grid <= programs)
        )

    # ---- executed launches
    def _make(self, drawn: list[dict[str, int]], ends: float) -> None:
        kinds_found = self._found(drawn, ends)
        if not kinds_found:
            return
        for sizes in drawn:  # repeat the launches one by one to find the one with the findings
            kinds = self._found([sizes], math.inf)
            self.done.made -= 1
            if kinds:
                self.done.refuted.append(f"{sizes}: {', '.join(kinds)}")
                return
        self.done.refuted.append(f"one of {len(drawn)} launches: {', '.join(kinds_found)}")

    def _found(self, drawn: list[dict[str, int]], ends: float) -> list[str]:
        with sanitize(checks=_CHECKS, max_findings=20) as checked:
            for sizes in drawn:
                if time.monotonic() > ends:
                    break
                # If no contents satisfy the assumptions, the proof does not cover these sizes.
                with suppress(NoSuchNumbersError):
                    self.done.made += self._tensors.launch(sizes)
        return [
            f"{f.kind} at {f.location}"
            for f in checked.findings
            if f.kind in KINDS and f.severity != "note"
        ]

    # ---- evaluated launches
    def _compute(self, sizes: dict[str, int]) -> None:
        state = self._analysis.state
        point = {symbol: sizes[name] for name, symbol in self._symbols.items()}
        path = Path(dict(point))
        arguments = {name: SymbolicInt(as_expr(symbol)) for name, symbol in self._symbols.items()}
        made = run_host(self._template.run, arguments, path, state.kernels.written)
        for launch in made.launches:
            trial = state.trial(launch, point)
            self.done.computed += 1
            if trial.events:
                kinds = ", ".join(f"{e.kind} at {e.op.location}" for e in trial.events)
                self.done.refuted.append(f"{sizes}: {kinds}")
                return
