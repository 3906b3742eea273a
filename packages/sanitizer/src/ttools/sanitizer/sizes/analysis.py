"""All sizes of a range: which are right, and the least one at which each defect appears.

Owns the search. Host code is run once for each way that it can go; what its launches need is
proved on boxes of sizes, and where a proof ends the kernel is run at that very size. A size is
called wrong because it was run, right because it was proved or run as a whole. Must not know how
either is done, nor how it is reported.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.sanitizer.sizes.algebra.polynomials import SIZE, Poly, Symbol, as_poly, substitute
from ttools.sanitizer.sizes.concrete.run import Event
from ttools.sanitizer.sizes.concrete.trial import Trial
from ttools.sanitizer.sizes.host.kernels import Kernels
from ttools.sanitizer.sizes.host.launches import Launch, Memory, run_host
from ttools.sanitizer.sizes.host.paths import Condition, HostInt, NotModelledError, Path
from ttools.sanitizer.sizes.host.regions import Box, Point, Region, region
from ttools.sanitizer.sizes.symbolic.conditions import Key, Problem, unproved

_MOST_PATHS = 96
_MOST_STEPS = 12
#: Never findings of their own.
_HINDRANCES = frozenset({"model", "grid"})


@dataclass(frozen=True)
class Defect:
    """A finding, and the least size at which it appears.

    Attributes:
        event: at that size.
        launch: where it was seen.
        sizes: by name.
        is_least: whether smaller ones (each size alone) are known to be right.
    """

    event: Event
    launch: Launch
    sizes: Mapping[str, int]
    is_least: bool


@dataclass(frozen=True)
class Abstention:
    """Something that is neither proved nor seen to be wrong.

    Attributes:
        reason: in words.
        line: of the kernel or of host code; None if none can be named.
        file: of that line.
        kernel: concerned.
        sizes: part of the range that it is about.
    """

    reason: str
    line: int | None = None
    file: str | None = None
    kernel: str | None = None
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Result:
    """What is known of a range of sizes.

    Attributes:
        checked: first and last of each size.
        defects: those found, each at its least size.
        assumptions: under which the rest is claimed.
        abstained: what is not proved.
        launches: those of the host code, of one path.
        seconds: that it took.
    """

    checked: Mapping[str, tuple[int, int]]
    defects: list[Defect] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    abstained: list[Abstention] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """`fails`, `proved` or `not proved`."""
        if self.defects:
            return "fails"
        return "not proved" if self.abstained else "proved"


@dataclass
class _Way:
    """One way through host code."""

    region: Region
    launches: list[Launch]


class Analysis:
    """The analysis of one function.

    Args:
        run: makes tensors and launches, given sizes by name.
        sizes: first and last value of each.
        seconds: after which what is left is abstained.
    """

    def __init__(
        self, run: Callable[..., Any], sizes: Mapping[str, tuple[int, int]], seconds: float = 60.0
    ) -> None:
        for name, (low, high) in sizes.items():
            if low > high or low < 0:
                raise UsageError(f"sizes {name}={low}:{high}: no sizes")
        self._run, self._sizes = run, dict(sizes)
        self._symbols = {n: Symbol(n, "size", SIZE) for n in sizes}
        self._names = {s: n for n, s in self._symbols.items()}
        self._kernels = Kernels()
        self._ends = time.monotonic() + seconds
        self._defects: dict[Key, Defect] = {}
        self.result = Result(dict(sizes))

    def analyse(self) -> Result:
        """Looks at the whole range."""
        start = time.monotonic()
        ways = self._ways()
        ways.sort(key=lambda way: [low for low, _ in way.region.box.values()])
        for way in ways:
            self._way(way)
        self.result.defects = sorted(
            self._defects.values(), key=lambda d: ([*d.sizes.values()], d.event.kind)
        )
        self.result.abstained = _unique(self.result.abstained)
        self.result.seconds = time.monotonic() - start
        return self.result

    def _late(self) -> bool:
        return time.monotonic() > self._ends

    # ---- host code
    def _ways(self) -> list[_Way]:
        box: Box = {s: self._sizes[n] for n, s in self._symbols.items()}
        pending: list[tuple[Condition, ...]] = [()]
        ways: list[_Way] = []
        while pending:
            prefix = pending.pop(0)
            where = region(box, prefix)
            point = None if where.is_empty else next(where.points(), None)
            if point is None:
                if not where.is_empty and not where.is_small:
                    self._abstain_unless_empty(where)
                continue
            if len(ways) >= _MOST_PATHS or self._late():
                reason = f"host code goes more than {len(ways)} ways through these sizes"
                self._abstain(Abstention(reason, sizes=self._shown(where.box)))
                continue
            path, launches = self._host(point, where)
            conditions = tuple(path.conditions)
            # Whatever else meets the prefix answers one of these differently first. What is asked
            # may depend on the size itself, so the prefix need not be asked again.
            new = [c for c in conditions if c not in prefix]
            for n, condition in enumerate(new):
                pending.append((*prefix, *new[:n], condition.negated))
            found = region(box, (*prefix, *new))
            if launches is not None:
                ways.append(_Way(found, launches))
                if len(launches) >= len(self.result.launches):
                    self.result.launches = launches
        return ways

    def _abstain_unless_empty(self, where: Region) -> None:
        space = where.space()
        if space is None:
            return
        for n, fact in enumerate(space.assumed):
            if space.nonneg(-1 - fact, [*space.assumed[:n], *space.assumed[n + 1 :]]):
                return
        reason = "no size was found that takes this way through host code"
        self._abstain(Abstention(reason, sizes=self._shown(where.box)))

    def _host(self, point: Point, where: Region) -> tuple[Path, list[Launch] | None]:
        path = Path(dict(point))
        arguments = {n: HostInt(as_poly(s)) for n, s in self._symbols.items()}
        try:
            recorder = run_host(self._run, arguments, path, self._kernels.written)
        except NotModelledError as error:
            self._abstain(self._host_abstention(f"not modelled: {error}", error, where.box))
            return path, None
        except TtoolsError as error:
            self._abstain(self._host_abstention(str(error), error, where.box))
            return path, None
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
            text = f"{type(error).__name__}: {error}".strip().rstrip(":").split("\n")[0]
            reason = f"host code raises {text}"
            self._abstain(self._host_abstention(reason, error, where.box))
            return path, None
        self.result.assumptions += [
            a for a in recorder.assumptions if a not in self.result.assumptions
        ]
        return path, recorder.launches

    def _host_abstention(self, reason: str, error: BaseException, box: Box) -> Abstention:
        function = getattr(self._run, "func", self._run)
        own = getattr(getattr(function, "__code__", None), "co_filename", None)
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == own]
        line = frames[-1].lineno if frames else None
        return Abstention(reason, line, own, sizes=self._shown(box))

    # ---- launches
    def _way(self, way: _Way) -> None:
        new = way.region.substitution()
        for launch in way.launches:
            try:
                self._launch(way.region, launch, _with(launch, new))
            except Exception as error:  # noqa: BLE001 - nothing is claimed then
                known = isinstance(error, TtoolsError)
                what = "" if known else f"the analysis failed with {type(error).__name__}: "
                reason = f"not modelled: {what}{str(error)[:200]}"
                self._abstain(
                    Abstention(reason, kernel=launch.kernel, sizes=self._shown(way.region.box))
                )

    def _launch(self, where: Region, launch: Launch, counted: Launch) -> None:
        search = _Search(self, where, launch, counted)
        problems = search.problems(where.box)
        for key, problem in problems.items():
            if problem.kind in _HINDRANCES:
                continue
            known = self._defects.get(key)
            if known is not None and len(self._sizes) == 1:
                (low, _), (size,) = *where.box.values(), tuple(known.sizes.values())
                if size <= low and known.is_least:
                    continue
            if self._late():
                self._abstain(self._abstention(problem, where.box, "there was no time left: "))
                continue
            if not search.settle(problem):
                self._abstain(self._abstention(problem, where.box))
        for problem in problems.values():
            if problem.kind in _HINDRANCES:
                self._abstain(self._abstention(problem, where.box))
        self._note_values(search, where)

    def _note_values(self, search: _Search, where: Region) -> None:
        """Names the operations at which unknown data decide."""
        for op in search.uncertain:
            line = None if op.location is None else op.location.line
            file = None if op.location is None else op.location.file
            if any(a.line == line for a in self.result.abstained):
                continue
            reason = "data that are not known decide about this access"
            self._abstain(
                Abstention(reason, line, file, search.launch.kernel, self._shown(where.box))
            )

    def _abstention(self, problem: Problem, box: Box, before: str = "") -> Abstention:
        location = problem.location
        return Abstention(
            before + problem.reason,
            None if location is None else location.line,
            None if location is None else location.file,
            problem.kernel,
            self._shown(box),
        )

    def _abstain(self, what: Abstention) -> None:
        self.result.abstained.append(what)

    def _shown(self, box: Box) -> dict[str, tuple[int, int]]:
        return {self._names[s]: ends for s, ends in box.items()}

    def found(self, trial: Trial, point: Point, key: Key | None, least: bool) -> None:
        """Takes the findings of a size; of the one searched for, whether it is the least."""
        sizes = {self._names[s]: v for s, v in point.items()}
        for event in trial.events:
            own = trial.key(event)
            known = self._defects.get(own)
            is_least = least and own == key
            if known is None or (is_least and not known.is_least) or _below(sizes, known.sizes):
                self._defects[own] = Defect(event, trial.launch, sizes, is_least)

    def trial(self, launch: Launch, point: Point) -> Trial:
        """A run of a launch at one size."""
        return Trial(launch, self._kernels.module(launch), point, self.written(launch))

    def written(self, launch: Launch) -> frozenset[int]:
        numbers = set()
        for n in self._kernels.written(launch):
            memory = launch.arguments[n]
            if isinstance(memory, Memory):
                numbers.add(memory.number)
        return frozenset(numbers)

    def unproved(self, launch: Launch, where: Region, box: Box) -> dict[Key, Problem]:
        """What is not proved of a launch on a part of a region."""
        space = where.space(box)
        if space is None:
            return {}
        module = self._kernels.module(launch)
        return {p.key: p for p in unproved(launch, module, space, self.written(launch))}


class _Search:
    """The search for the least sizes of one launch on one way through host code."""

    def __init__(self, owner: Analysis, where: Region, launch: Launch, counted: Launch) -> None:
        self._owner, self._where, self.launch, self._counted = owner, where, launch, counted
        self._proofs: dict[tuple[tuple[int, int], ...], dict[Key, Problem]] = {}
        self._trials: dict[tuple[int, ...], Trial] = {}
        self.uncertain: list[Any] = []

    def problems(self, box: Box) -> dict[Key, Problem]:
        """What is not proved on a box."""
        key = tuple(box.values())
        if key not in self._proofs:
            self._proofs[key] = self._owner.unproved(self._counted, self._where, box)
        return self._proofs[key]

    def trial(self, point: Point) -> Trial:
        """The run at a size."""
        key = tuple(point.values())
        if key not in self._trials:
            self._trials[key] = self._owner.trial(self.launch, point)
        return self._trials[key]

    def settle(self, problem: Problem) -> bool:
        """Finds where a problem is a defect, or that it is none; whether that was possible."""
        if len(self._where.box) == 1:
            (symbol,) = self._where.box
            return self._on_line(problem, symbol, dict(self._where.box), samples=True) is not False
        return self._in_box(problem)

    # ---- one size
    def _on_line(
        self, problem: Problem, symbol: Symbol, box: Box, *, samples: bool
    ) -> Point | bool:
        """Along one size, all others being fixed: the least failing point.

        Returns:
            True if there is none, False if that is not known.
        """
        key = problem.key
        low, high = box[symbol]
        for _ in range(_MOST_STEPS):
            if key not in self.problems({**box, symbol: (low, high)}):
                return True
            end = self._proved_until(key, symbol, box, low, high)
            point = self._next_point(symbol, box, end)
            if point is None:
                return True
            trial = self.trial(point)
            if trial.has(key):
                self._owner.found(trial, point, key, least=True)
                return point
            if not trial.is_whole:
                if trial.uncertain and not trial.events:
                    self._note(trial)
                    return False
                break
            low = point[symbol] + 1
            if low > high:
                return True
        if not samples:
            return False
        return self._sampled(problem, symbol, box, low, high)

    def _note(self, trial: Trial) -> None:
        self.uncertain += [op for op in trial.uncertain if op not in self.uncertain]

    def _proved_until(self, key: Key, symbol: Symbol, box: Box, low: int, high: int) -> int:
        """The least end of a range from `low` on for which there is no proof."""
        good, bad = low - 1, high
        while bad - good > 1:
            middle = (good + bad) // 2
            if key in self.problems({**box, symbol: (low, middle)}):
                bad = middle
            else:
                good = middle
        return bad

    def _next_point(self, symbol: Symbol, box: Box, value: int) -> Point | None:
        """The first point of the region from a value on."""
        rest = {s: low for s, (low, _) in box.items()}
        high = box[symbol][1]
        for n in range(value, min(high, value + 256) + 1):
            point = {**rest, symbol: n}
            if self._where.holds(point):
                return point
        step, remainder = self._where.steps.get(symbol, (1, 0))
        n = value + (remainder - value) % step
        point = {**rest, symbol: n}
        return point if n <= high and self._where.holds(point) else None

    def _sampled(
        self, problem: Problem, symbol: Symbol, box: Box, low: int, high: int
    ) -> Point | bool:
        """Tries sizes here and there, and halves between right and wrong ones."""
        values = [low, low + 1, low + 2, high, high - 1, (low + high) // 2]
        values += [v + d for e in range(4, 40) for v in (1 << e,) for d in (-1, 0, 1, 7)]
        key, wrong = problem.key, None
        for value in sorted({v for v in values if low <= v <= high}):
            point = self._next_point(symbol, box, value)
            if point is None or self._owner._late():
                continue
            trial = self.trial(point)
            self._note(trial)
            if trial.has(key):
                wrong = point
                break
            low = max(low, value) if value > low else low
        if wrong is None:
            return False
        good, bad = low - 1, wrong[symbol]
        while bad - good > 1:
            middle = (good + bad) // 2
            point = self._next_point(symbol, {**box, symbol: (box[symbol][0], bad)}, middle)
            if point is None or point[symbol] >= bad:
                bad = min(bad, max(middle, good + 1))
                if bad == middle:
                    continue
                break
            if self.trial(point).has(key):
                wrong, bad = point, point[symbol]
            else:
                good = max(middle, point[symbol])
        self._owner.found(self.trial(wrong), wrong, key, least=False)
        return wrong

    # ---- several sizes
    def _in_box(self, problem: Problem) -> bool:
        key, start = problem.key, None
        for point in self._candidates():
            if self._owner._late():
                break
            trial = self.trial(point)
            if trial.has(key):
                start = point
                break
            self._note(trial)
        if start is None:
            return False
        for _ in range(4):
            before = dict(start)
            for symbol, (low, _) in self._where.box.items():
                box = {s: (v, v) for s, v in start.items()} | {symbol: (low, start[symbol])}
                found = self._on_line(problem, symbol, box, samples=True)
                if isinstance(found, dict):
                    start = found
            if start == before:
                break
        self._owner.found(self.trial(start), start, key, least=True)
        return True

    def _candidates(self) -> list[Point]:
        """Points at which a defect is likely: corners first."""
        ends = {s: _steps(low, high) for s, (low, high) in self._where.box.items()}
        found: list[Point] = [{}]
        for symbol, values in ends.items():
            found = [{**point, symbol: v} for point in found for v in values]
        found.sort(key=lambda p: -sum(v.bit_length() for v in p.values()))
        near = []
        for point in found:
            if self._where.holds(point):
                near.append(point)
        return near[:160]


def _steps(low: int, high: int) -> list[int]:
    values = {low, high, low + 1, (low + high) // 2, high - 1}
    values |= {1 << e for e in range(0, 40, 3)} | {(1 << e) + 1 for e in range(5, 40, 6)}
    return sorted(v for v in values if low <= v <= high)


def _below(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether sizes are smaller, where several are none of them larger."""
    return one != other and all(one[n] <= other[n] for n in one)


def _with(launch: Launch, new: Mapping[Symbol, Poly]) -> Launch:
    """The launch with sizes replaced."""
    if not new:
        return launch

    def put(poly: Poly) -> Poly:
        return substitute(poly, new)

    arguments = tuple(
        replace(
            a,
            elements=put(a.elements),
            shape=tuple(map(put, a.shape)),
            strides=tuple(map(put, a.strides)),
            offset=put(a.offset),
            content=None if a.content is None else put(a.content),
        )
        if isinstance(a, Memory)
        else a
        if a is None
        else put(a)
        for a in launch.arguments
    )
    x, y, z = launch.grid
    return replace(launch, grid=(put(x), put(y), put(z)), arguments=arguments)


def _unique(found: list[Abstention]) -> list[Abstention]:
    """One of each line and reason, with the sizes of the first."""
    known: dict[tuple[object, ...], Abstention] = {}
    for each in found:
        known.setdefault((each.file, each.line, each.kernel, each.reason.split(" ")[0]), each)
    return list(known.values())
