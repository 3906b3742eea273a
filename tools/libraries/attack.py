"""Tries to refute a proof for all sizes: launches at random sizes that the proof is about.

Small ones are made, with tensors of random integers, under the checks of `ttools sanitize`; large
ones are computed by machine integers at programs of their ends, with no memory. Neither takes part
in proofs. A defect that was found is confirmed in the first way.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from ttools.sanitizer import sanitize
from ttools.sanitizer.sizes.algebra.polynomials import as_poly
from ttools.sanitizer.sizes.analysis import Analysis
from ttools.sanitizer.sizes.contracts import Promise
from ttools.sanitizer.sizes.host.launches import run_host
from ttools.sanitizer.sizes.host.paths import HostInt, Path
from ttools.sanitizer.sizes.script.generalise import General
from ttools.sanitizer.sizes.script.seen import SeenTensor

#: What a proof excludes.
KINDS = frozenset(
    ("int_overflow", "oob_load", "oob_store", "oob_atomic", "view_oob", "race", "overlapping_store")
)
_CHECKS = "memcheck,racecheck,overflow"
#: Elements of the tensors of launches that are made.
_SMALL = 1 << 14
#: Programs of launches that are made.
_PROGRAMS = 1 << 10
#: Elements and programs of a launch that is made to confirm a defect.
_CONFIRMED = (1 << 25, 1 << 17)
#: Of that many, one is large.
_LARGE_EVERY = 8
#: Launches between two looks at what was found.
_TOGETHER = 64


class _UnkeptError(Exception):
    """There are no such numbers as are promised, so the proof says nothing."""


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
        general: the launch for all sizes.
        promised: what tables hold, under which it is proved.
        seed: of all that is random.
        low: the least size.
    """

    def __init__(
        self, general: General, promised: Mapping[str, Promise], seed: int, low: int = 1
    ) -> None:
        self._general, self._promised, self._low = general, promised, low
        self._choose = random.Random(seed)
        self._data = torch.Generator().manual_seed(seed)
        ends = dict.fromkeys(general.sizes, (low, general.most))
        self._analysis = Analysis(general.run, ends, 1.0)
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
                    self._compute(self._drawn(self._general.most, None))
            self._make([self._drawn(_SMALL, _PROGRAMS) for _ in range(_TOGETHER - large)], ends)
        return done

    def _drawn(self, elements: int, programs: int | None) -> dict[str, int]:
        """Random sizes with tensors of at most so many elements and grids of so many programs."""
        top = min(elements, self._general.most)
        ends = math.log2(self._low), math.log2(top)
        sizes = {n: round(2 ** self._choose.uniform(*ends)) for n in self._general.sizes}
        names = list(sizes)
        while names and not self._fits(sizes, elements, programs):
            name = self._choose.choice(names)
            sizes[name] = max(self._low, sizes[name] // self._choose.randint(2, 5))
            if all(size == self._low for size in sizes.values()):
                break
        return sizes

    def _fits(self, sizes: Mapping[str, int], elements: int, programs: int | None) -> bool:
        layouts = self._general.layouts.values()
        grid = math.prod(extent.value(sizes) for extent in self._general.grid)
        return all(each.elements.value(sizes) <= elements for each in layouts) and (
            programs is None or grid <= programs
        )

    def confirm(self, sizes: Mapping[str, int], kind: str, location: object) -> bool | None:
        """Whether a launch that is made shows a defect; None where it is too large."""
        if not self._fits(sizes, *_CONFIRMED):
            return None
        return any(text == f"{kind} at {location}" for text in self._found([dict(sizes)], math.inf))

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
                storages: dict[int, torch.Tensor] = {}
                with suppress(_UnkeptError):
                    self.done.made += self._general.make(self._real(sizes, storages), sizes)
        return [
            f"{f.kind} at {f.location}"
            for f in checked.findings
            if f.kind in KINDS and f.severity != "note"
        ]

    def _real(self, sizes: Mapping[str, int], storages: dict[int, torch.Tensor]) -> Any:
        names = {seen: name for name, seen in self._general.launch.tensors.items()}

        def make(seen: SeenTensor, elements: int, shape: list[int], strides: list[int]) -> Any:
            if seen.storage not in storages:
                storages[seen.storage] = self._content(seen, elements, names[seen], sizes)
            return torch.as_strided(storages[seen.storage], shape, strides, seen.offset)

        return make

    def _content(
        self, seen: SeenTensor, elements: int, name: str, sizes: Mapping[str, int]
    ) -> torch.Tensor:
        kind = seen.dtype
        if kind.is_floating_point or kind.is_complex or kind == torch.bool:
            return torch.rand(elements, generator=self._data).to(kind)
        if name in self._promised:
            low, high = (int(eval(str(b), {}, dict(sizes))) for b in self._promised[name][:2])
        else:
            info = torch.iinfo(kind)
            low, high = info.min, info.max
        distinct = "distinct" in self._promised.get(name, ())
        if high < low or (distinct and elements > high - low + 1):
            raise _UnkeptError
        if distinct:
            return (torch.randperm(high - low + 1, generator=self._data)[:elements] + low).to(kind)
        drawn = torch.randint(low, min(high, (1 << 62)) + 1, (elements,), generator=self._data)
        return drawn.to(kind)

    # ---- without
    def _compute(self, sizes: dict[str, int]) -> None:
        known = self._analysis.known
        point = {symbol: sizes[name] for name, symbol in self._symbols.items()}
        path = Path(dict(point))
        arguments = {name: HostInt(as_poly(symbol)) for name, symbol in self._symbols.items()}
        made = run_host(self._general.run, arguments, path, known.kernels.written)
        for launch in made.launches:
            trial = known.trial(launch, point)
            self.done.computed += 1
            if trial.events:
                kinds = ", ".join(f"{e.kind} at {e.op.location}" for e in trial.events)
                self.done.refuted.append(f"{sizes}: {kinds}")
                return
