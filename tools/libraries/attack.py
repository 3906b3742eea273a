"""Tries to refute a proof for all sizes: launches at random sizes that the proof is about.

Small ones are made, with tensors of random integers, under the checks of `ttools sanitize`; large
ones are computed by machine integers at programs of their ends, with no memory. Neither takes part
in proofs.
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

#: What a proof excludes.
KINDS = frozenset(
    ("int_overflow", "oob_load", "oob_store", "oob_atomic", "view_oob", "race", "overlapping_store")
)
_CHECKS = "memcheck,racecheck,overflow"
#: Elements of the tensors and programs of launches that are made: of most, and of one in eight.
#: What fails at the ends of blocks fails at small sizes, which take a tenth of the time.
_TINY, _SMALL = (1 << 11, 1 << 6), (1 << 14, 1 << 10)
_SMALL_EVERY = 8
#: Of that many, one is large. It takes a hundred times as long as one that is made.
_LARGE_EVERY = 64
#: Launches between two looks at what was found.
_TOGETHER = 64


@dataclass
class Attacked:
    """What became of an attack.

    Attributes:
        made: launches that were made.
        computed: launches that were computed without memory.
        refuted: sizes and kinds of findings, in words.
    """

    made: int = 0
    computed: int = 0
    refuted: list[str] = field(default_factory=list)


class Attack:
    """An attack on what is proved of a launch.

    Args:
        template: the launch for all sizes.
        promised: what tables hold, under which it is proved.
        seed: of all that is random.
        low: the least size.
    """

    def __init__(
        self, template: Template, promised: Mapping[str, Promise], seed: int, low: int = 1
    ) -> None:
        self._template, self._low = template, low
        self._choose = random.Random(seed)
        self._tensors = RandomTensors(template, promised, seed)
        ends = dict.fromkeys(template.sizes, (low, template.most))
        self._analysis = Analysis(template.run, ends, 1.0)
        self._symbols = self._analysis._symbols
        self.done = Attacked()

    def run(self, launches: int, seconds: float) -> Attacked:
        """Makes so many launches, for at most so many seconds, until one refutes the proof."""
        ends = time.monotonic() + seconds
        done = self.done
        while done.made + done.computed < launches and not done.refuted:
            left = launches - done.made - done.computed
            if time.monotonic() > ends:
                break
            large = max(1, min(left, _TOGETHER) // _LARGE_EVERY)
            for _ in range(large):
                if time.monotonic() <= ends:
                    self._compute(self._drawn(self._template.most, None))
            limits = [_TINY if n % _SMALL_EVERY else _SMALL for n in range(_TOGETHER - large)]
            self._make([self._drawn(*each) for each in limits], ends)
        return done

    def _drawn(self, elements: int, programs: int | None) -> dict[str, int]:
        """Random sizes with tensors of at most so many elements and grids of so many programs."""
        top = min(elements, self._template.most)
        ends = math.log2(self._low), math.log2(top)
        sizes = {n: round(2 ** self._choose.uniform(*ends)) for n in self._template.sizes}
        names = list(sizes)
        while names and not self._fits(sizes, elements, programs):
            name = self._choose.choice(names)
            sizes[name] = max(self._low, sizes[name] // self._choose.randint(2, 5))
            if all(size == self._low for size in sizes.values()):
                break
        return sizes

    def _fits(self, sizes: Mapping[str, int], elements: int, programs: int | None) -> bool:
        layouts = self._template.layouts.values()
        grid = math.prod(extent.at(sizes) for extent in self._template.grid)
        return all(each.elements.at(sizes) <= elements for each in layouts) and (
            programs is None or grid <= programs
        )

    # ---- with memory
    def _make(self, drawn: list[dict[str, int]], ends: float) -> None:
        found = self._found(drawn, ends)
        if not found:
            return
        for sizes in drawn:  # which of them it was
            kinds = self._found([sizes], math.inf)
            self.done.made -= 1
            if kinds:
                self.done.refuted.append(f"{sizes}: {', '.join(kinds)}")
                return
        self.done.refuted.append(f"one of {len(drawn)} launches: {', '.join(found)}")

    def _found(self, drawn: list[dict[str, int]], ends: float) -> list[str]:
        with sanitize(checks=_CHECKS, max_findings=20) as checked:
            for sizes in drawn:
                if time.monotonic() > ends:
                    break
                # Where there are no such numbers as are promised, the proof says nothing.
                with suppress(NoSuchNumbersError):
                    self.done.made += self._tensors.launch(sizes)
        return [
            f"{f.kind} at {f.location}"
            for f in checked.findings
            if f.kind in KINDS and f.severity != "note"
        ]

    # ---- without
    def _compute(self, sizes: dict[str, int]) -> None:
        known = self._analysis.state
        point = {symbol: sizes[name] for name, symbol in self._symbols.items()}
        path = Path(dict(point))
        arguments = {name: SymbolicInt(as_expr(symbol)) for name, symbol in self._symbols.items()}
        made = run_host(self._template.run, arguments, path, known.kernels.written)
        for launch in made.launches:
            trial = known.trial(launch, point)
            self.done.computed += 1
            if trial.events:
                kinds = ", ".join(f"{e.kind} at {e.op.location}" for e in trial.events)
                self.done.refuted.append(f"{sizes}: {kinds}")
                return
