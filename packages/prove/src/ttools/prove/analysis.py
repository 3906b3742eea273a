"""Analysis of a function for all sizes of a range.

The analysis proves that launches are correct, or finds the smallest size at which a defect appears.
The function runs once for each path that its host code can take. The launches of a path are proved
on boxes of sizes. Where a proof fails, the kernel is evaluated at single sizes.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttools.core.compilation.compile_errors import message_in_one_line
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.location import user_location
from ttools.core.ownership import is_program_frame
from ttools.core.reports.sizes import Unproved, ranges_text
from ttools.core.reports.wrapping import shortened
from ttools.ir.expr import SIZE, Expr, Symbol, as_expr, substitute, with_symbols
from ttools.prove.algebra.proofs import STRETCH, Limit
from ttools.prove.algebra.solver import Solver, is_installed
from ttools.prove.contracts import Promise, contracts
from ttools.prove.host.launches import Memory, SymbolicCall, run_host
from ttools.prove.host.regions import Box, Point, Region, region
from ttools.prove.host.symbolic_numbers import Condition, NotModelledError, Path, SymbolicInt
from ttools.prove.result import Result, unique
from ttools.prove.search.counterexamples import Search, SearchState
from ttools.prove.symbolic.conditions import DATA_DECIDE, Key, Problem

_MOST_PATHS = 96
#: Maximum length of an exception's message when it is quoted as a reason.
_LONGEST = 200
#: Shares of the time limit that Z3 may use: for all queries about a launch together, and for one
#: query.
_IN_ALL, _EACH = 0.4, 0.2
_UNASKED = " (Z3, which is not installed, may be able to prove this)"
#: Kinds of problems that are not findings, but prevent proofs.
_HINDRANCES = frozenset({"model"})


def late_text(seconds: float) -> str:
    """Return the phrase for goals that were not examined before the time limit was reached."""
    return f"the time limit of {seconds:g} s was reached (--timeout)"


@dataclass
class _HostPath:
    """One path through host code, and its launches."""

    region: Region
    launches: list[SymbolicCall]


class Analysis:
    """The analysis of one function.

    Args:
        run: The function, which takes sizes by name, creates tensors and launches kernels.
        sizes: First and last value of each size.
        seconds: Limit on CPU time. Whatever is undecided when it is reached counts as not proved.
        assume: Assumptions about tables, by the kernel parameters to which they are passed; see
            `contracts`.
        stretch: Factor by which the elapsed time may exceed `seconds`.
        within: Expressions over sizes; sizes at which one of these expressions is negative are not
            considered.
        late: What the report says about goals that were not examined because the time limit was
            reached; by default, it states the limit in seconds.

    Raises:
        UsageError: A range is empty, or a bound is not a formula over sizes.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        sizes: Mapping[str, tuple[int, int]],
        seconds: float = 25.0,
        assume: Mapping[str, Promise] | None = None,
        stretch: float = STRETCH,
        within: Iterable[Expr] = (),
        late: str = "",
    ) -> None:
        for name, (low, high) in sizes.items():
            if low > high or low < 0:
                raise UsageError(
                    f"sizes {name}={low}:{high}: must be two sizes from 0 on, the smaller one first"
                )
        self._run, self._sizes, self._seconds = run, dict(sizes), seconds
        self._late = late or late_text(seconds)
        self._symbols = {n: Symbol(n, "size", SIZE) for n in sizes}
        self._names = {s: n for n, s in self._symbols.items()}
        first = {name: low for name, (low, _) in sizes.items()}
        self.state = SearchState(self._names, first, Limit(seconds, stretch))
        self.result = Result(dict(sizes))
        self._unsettled: set[Key] = set()
        self._searches: list[Search] = []
        self._within = tuple(
            Condition(with_symbols(expr, self._symbols), "ge", True) for expr in within
        )
        self._contracts = dict.fromkeys(contracts(assume or {}, self._symbols), False)

    def analyse(self) -> Result:
        """Analyse the whole range.

        Raises:
            UsageError: No kernel has the parameter that an assumption names, or a tensor
                contradicts an assumption.
        """
        start = time.monotonic()
        paths = self._paths()
        self._note_contracts()
        paths.sort(key=lambda path: [low for low, _ in path.region.box.values()])
        for path in paths:
            self._prove(path)
        if len(self._sizes) > 1:
            for key in list(self.state.defects):
                self._lower(key)
        self.result.defects = sorted(
            self.state.defects.values(), key=lambda d: ([*d.sizes.values()], d.event.kind)
        )
        self.result.abstained = unique(self.result.abstained)
        self.result.seconds = time.monotonic() - start
        return self.result

    # ---- host code
    def _paths(self) -> list[_HostPath]:
        box: Box = {s: self._sizes[n] for n, s in self._symbols.items()}
        pending: list[tuple[Condition, ...]] = [self._within]
        paths: list[_HostPath] = []
        while pending:
            prefix = pending.pop(0)
            where = region(box, prefix)
            point = None if where.is_empty else next(where.points(), None)
            if point is None:
                if not where.is_empty and not where.is_small:
                    self._abstain_unless_empty(where)
                continue
            if len(paths) >= _MOST_PATHS or self.state.is_late():
                reason = f"host code takes more than {len(paths)} paths for these sizes"
                phrase = ""
                if len(paths) < _MOST_PATHS:
                    reason = f"{self._late}: not all paths through host code were analysed"
                    phrase = self._late
                self._abstain(Unproved(reason, sizes=self._shown(where.box), phrase=phrase))
                continue
            path, launches = self._host(point, where)
            conditions = tuple(path.conditions)
            # At a size that satisfies the prefix but takes a different path, at least one of the
            # new conditions has the opposite result. Therefore, a case for each
            # new condition assumes that it is the first one with the opposite result.
            new = [c for c in conditions if c not in prefix]
            for n, condition in enumerate(new):
                pending.append((*prefix, *new[:n], condition.negated))
            whole = region(box, (*prefix, *new))
            if launches is not None:
                paths.append(_HostPath(whole, launches))
                if len(launches) >= len(self.result.launches):
                    self.result.launches = launches
        return paths

    def _abstain_unless_empty(self, where: Region) -> None:
        space = where.space()
        if space is None:
            return
        for n, fact in enumerate(space.assumed):
            if space.nonneg(-1 - fact, [*space.assumed[:n], *space.assumed[n + 1 :]]):
                return
        reason = "no size was found that takes this path through host code"
        phrase = "a branch of host code is not shown to be unreachable"
        self._abstain(Unproved(reason, sizes=self._shown(where.box), phrase=phrase))

    def _host(self, point: Point, where: Region) -> tuple[Path, list[SymbolicCall] | None]:
        path = Path(dict(point))
        arguments = {n: SymbolicInt(as_expr(s)) for n, s in self._symbols.items()}
        try:
            recorder = run_host(self._run, arguments, path, self.state.kernels.written)
        except NotModelledError as error:
            self._abstain(self._host_abstention(f"not modelled: {error}", error, where.box))
            return path, None
        except TtoolsError as error:
            self._abstain(self._host_abstention(str(error), error, where.box))
            return path, None
        except Exception as error:  # noqa: BLE001 - the user's function may raise anything
            line = message_in_one_line(error)
            reason = f"host code raises {type(error).__name__}: {line}".rstrip(": ")
            phrase = reason
            if type(error).__name__ == "CompilationError":
                phrase = f"Triton cannot compile the kernel: {line}"
            self._abstain(self._host_abstention(reason, error, where.box, phrase))
            return path, None
        self.result.assumptions += [
            a for a in recorder.assumptions if a not in self.result.assumptions
        ]
        return path, [self._promised(launch, point) for launch in recorder.launches]

    def _promised(self, launch: SymbolicCall, point: Point) -> SymbolicCall:
        for contract in self._contracts:
            if contract.holds_for(launch):
                contract.check_content(launch, point)
                self._contracts[contract] = True
                launch = contract.put(launch)
        return launch

    def _note_contracts(self) -> None:
        for contract, used in self._contracts.items():
            name = contract.parameter
            if not used:
                raise UsageError(
                    f"--assume {name}={contract.text}: no kernel that is launched has a tensor of "
                    f"integers as parameter `{name}`"
                )
            self.result.assumptions.append(str(contract))

    def _host_abstention(
        self, reason: str, error: BaseException, box: Box, phrase: str = ""
    ) -> Unproved:
        sizes = self._shown(box)
        if sizes != self._sizes:
            phrase = f"{phrase or reason}, for {ranges_text(sizes)}"
        line = file = None
        for frame, number in traceback.walk_tb(error.__traceback__):
            if is_program_frame(frame):
                line, file = number, frame.f_code.co_filename
        return Unproved(reason, line, file, sizes=sizes, phrase=phrase)

    # ---- launches
    def _prove(self, path: _HostPath) -> None:
        new = path.region.substitution()
        for launch in path.launches:
            try:
                self._launch(path.region, launch, _with(launch, new))
            except Exception as error:  # noqa: BLE001 - a failed analysis proves nothing
                is_ours = isinstance(error, TtoolsError)
                what = "" if is_ours else f"the analysis failed with {type(error).__name__}: "
                reason = f"not modelled: {what}{shortened(str(error), width=_LONGEST)}"
                self._abstain(
                    Unproved(reason, kernel=launch.kernel, sizes=self._shown(path.region.box))
                )

    def _launch(self, where: Region, launch: SymbolicCall, counted: SymbolicCall) -> None:
        solver = None
        if is_installed():
            solver = Solver(_IN_ALL * self._seconds, _EACH * self._seconds)
        search = Search(self.state, where, launch, counted, solver)
        self._searches.append(search)
        problems = self._asked(search, search.problems(where.box))
        settled: set[Key] = set()
        pending = problems
        while pending:
            for problem in pending.values():
                self._settle(search, where, problem)
            settled |= set(pending)
            if not any(problem.hides for problem in pending.values()):
                break  # everything else is proved on the whole box
            left = search.left()
            for key in left.keys() & settled - self.state.defects.keys() - self._unsettled:
                if key[0] not in _HINDRANCES:
                    self._abstain(self._abstention(left[key], where.box))
            pending = {key: problem for key, problem in left.items() if key not in settled}
            problems = {**problems, **pending}
        if any(problem.kind == "model" for problem in problems.values()):
            search.explore()
        search.record_unnamed()
        for problem in problems.values():
            if problem.kind in _HINDRANCES:
                self._abstain(self._abstention(problem, where.box))
        self._note_values(search, where)

    def _asked(self, search: Search, problems: dict[Key, Problem]) -> dict[Key, Problem]:
        left = search.asked(problems)
        self.result.by_solver += [p for key, p in problems.items() if key not in left]
        return left

    def _lower(self, key: Key) -> None:
        """Lower the sizes of a defect one at a time, considering all paths through host code.

        Each path has already been searched for its own smallest sizes, but smaller sizes may be on
        another path.
        """
        searches = [s for s in self._searches if s.launch.kernel == key[1]]
        lines = [(search, symbol) for symbol in self._names for search in searches]
        is_least = moved = True
        while moved:
            moved, is_least = False, True
            for search, symbol in lines:
                point = self.state.point(self.state.defects[key])
                if self.state.is_late():
                    moved = is_least = False
                    break
                lowered = search.lowered(key, point, symbol)
                moved = moved or isinstance(lowered, dict)
                is_least = is_least and lowered is not False
        defect = self.state.defects[key]
        self.state.defects[key] = replace(defect, is_least=defect.is_least and is_least)

    def _settle(self, search: Search, where: Region, problem: Problem) -> None:
        """Find the smallest size at which a problem is a defect, or show that it is never a defect.

        If neither succeeds, the problem is recorded as not proved.
        """
        if problem.kind in _HINDRANCES:
            return
        defect = self.state.defects.get(problem.key)
        if defect is not None and len(self._sizes) == 1:
            (low, _), (size,) = *where.box.values(), tuple(defect.sizes.values())
            if size <= low and defect.is_least:
                return
        if self.state.is_late():
            self._unsettled.add(problem.key)
            late = replace(problem, phrase=self._late)
            self._abstain(self._abstention(late, where.box, f"{self._late}: "))
        elif not search.settle(problem):
            self._unsettled.add(problem.key)
            self._abstain(self._abstention(problem, where.box))

    def _note_values(self, search: Search, where: Region) -> None:
        """Record accesses that depend on unknown data as not proved."""
        for op in search.uncertain:
            location = user_location(op.location)
            line = None if location is None else location.line
            file = None if location is None else location.file
            if any(a.line == line for a in self.result.abstained):
                continue
            reason = "this access depends on unknown data"
            kernel, sizes = search.launch.kernel, self._shown(where.box)
            self._abstain(Unproved(reason, line, file, kernel, sizes, DATA_DECIDE))

    def _abstention(self, problem: Problem, box: Box, before: str = "") -> Unproved:
        location = user_location(problem.location)
        after = "" if is_installed() or not problem.askable else _UNASKED
        return Unproved(
            before + problem.reason + after,
            None if location is None else location.line,
            None if location is None else location.file,
            problem.kernel,
            self._shown(box),
            problem.phrase,
        )

    def _abstain(self, what: Unproved) -> None:
        self.result.abstained.append(what)

    def _shown(self, box: Box) -> dict[str, tuple[int, int]]:
        return {self._names[s]: ends for s, ends in box.items()}


def _with(launch: SymbolicCall, new: Mapping[Symbol, Expr]) -> SymbolicCall:
    if not new:
        return launch

    def put(expr: Expr) -> Expr:
        return substitute(expr, new)

    arguments = tuple(
        replace(
            a,
            elements=put(a.elements),
            shape=tuple(map(put, a.shape)),
            strides=tuple(map(put, a.strides)),
            offset=put(a.offset),
            content=None if a.content is None else put(a.content),
            within=None if a.within is None else (put(a.within[0]), put(a.within[1])),
        )
        if isinstance(a, Memory)
        else a
        if a is None
        else put(a)
        for a in launch.arguments
    )
    x, y, z = launch.grid
    return replace(launch, grid=(put(x), put(y), put(z)), arguments=arguments)
