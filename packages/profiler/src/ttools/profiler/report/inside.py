"""The report on cycles inside kernels: time by scope, and load balance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, TypeVar

from ttools.core.reports.numbers import rounded_percent
from ttools.core.reports.wrapping import shortened
from ttools.core.triton_versions import LINE_SCOPE
from ttools.profiler.gpu.inside import ScopeEvent

Key = TypeVar("Key")
#: Maximum number of scopes per kernel in the text report.
_MOST_SCOPES = 20
_SCOPE_WIDTH = 22
#: If a program or multiprocessor takes this many times the mean, an imbalance is reported.
_IMBALANCE = 1.25


@dataclass(frozen=True, kw_only=True)
class Balance:
    """The distribution of cycles over programs or multiprocessors.

    Attributes:
        count: Number of programs or multiprocessors.
        slowest: Index of the program or multiprocessor that takes the longest.
        at_core: Multiprocessor on which the slowest program ran; for a distribution over
            multiprocessors, the slowest multiprocessor.
    """

    count: int
    mean: float
    least: float
    most: float
    slowest: int
    at_core: int

    @property
    def ratio(self) -> float:
        """Return the longest duration relative to the mean; 1 is a perfect balance."""
        return self.most / self.mean if self.mean else 1.0


@dataclass(frozen=True, kw_only=True)
class ScopeCycles:
    """The cycles of a scope.

    Attributes:
        passes: Number of times that a warp passed through the scope.
        per_pass: Mean duration of a pass in cycles.
        per_warp: Mean over warps of the total cycles that a warp spends in the scope in a launch;
            warps that never pass through the scope are excluded.
        share: Ratio of `per_warp` to the recorded duration of a program. Scopes may contain other
            scopes, so the shares may add up to more than 1.
        programs: Distribution over programs of the mean over each program's warps.
    """

    scope: str
    passes: int
    per_pass: float
    per_warp: float
    share: float
    programs: Balance


@dataclass(frozen=True, kw_only=True)
class KernelCycles:
    """The cycles inside a kernel.

    Attributes:
        launches: Number of launches in the trace.
        warps: Largest number of warps of a program.
        programs: Recorded duration of programs, from the first to the last event.
        cores: Sum of these durations for each multiprocessor.
        scopes: The scopes, sorted by time, longest first.
    """

    kernel: str
    launches: int
    warps: int
    programs: Balance
    cores: Balance
    scopes: tuple[ScopeCycles, ...]


@dataclass(frozen=True)
class InsideReport:
    """The cycles inside all kernels of a run, sorted by time, longest first."""

    kernels: tuple[KernelCycles, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data with schema `ttools.inside/1`."""
        return {"schema": "ttools.inside/1", "kernels": [asdict(item) for item in self.kernels]}

    def text(self) -> str:
        """Return the report as text."""
        if not self.kernels:
            return ""
        lines = [line for kernel in self.kernels for line in (*_lines(kernel), "")]
        return "\n".join([*lines, *_CAVEAT, ""])


_CAVEAT = (
    "Cycles are those of the instrumented kernels. The compiler moves instructions",
    "over the ends of scopes: a load often waits where its value is first used.",
)


def inside_report(events: Sequence[ScopeEvent]) -> InsideReport:
    """Return the report on the passes through scopes in a run."""
    kernels = [_kernel(name, own) for name, own in _grouped(events, lambda e: e.kernel).items()]
    kernels.sort(key=lambda kernel: -kernel.cores.mean * kernel.cores.count)
    return InsideReport(tuple(kernels))


def _grouped(
    events: Iterable[ScopeEvent], key: Callable[[ScopeEvent], Key]
) -> dict[Key, list[ScopeEvent]]:
    groups: dict[Key, list[ScopeEvent]] = defaultdict(list)
    for event in events:
        groups[key(event)].append(event)
    return groups


def _kernel(name: str, events: list[ScopeEvent]) -> KernelCycles:
    by_program = _grouped(events, lambda e: (e.launch, e.program))
    spans = {
        key: max(e.begin + e.cycles for e in own) - min(e.begin for e in own)
        for key, own in by_program.items()
    }
    core_of = {key: own[0].core for key, own in by_program.items()}
    of_cores: dict[tuple[int, int], float] = defaultdict(float)
    for key, span in spans.items():
        of_cores[0, core_of[key]] += span
    mean = fmean(spans.values())
    scopes = [
        _scope(scope, own, mean, core_of)
        for scope, own in _grouped(events, lambda e: e.scope).items()
    ]
    scopes.sort(key=lambda scope: -scope.per_warp)
    return KernelCycles(
        kernel=name,
        launches=len({event.launch for event in events}),
        warps=max(len({e.warp for e in own}) for own in by_program.values()),
        programs=_balance(spans, core_of),
        cores=_balance(of_cores, {key: key[1] for key in of_cores}),
        scopes=tuple(scopes),
    )


def _scope(
    scope: str,
    events: list[ScopeEvent],
    duration: float,
    core_of: dict[tuple[int, int], int],
) -> ScopeCycles:
    of_warps: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for event in events:
        of_warps[event.launch, event.program][event.warp] += event.cycles
    totals = [total for warps in of_warps.values() for total in warps.values()]
    per_warp = fmean(totals)
    return ScopeCycles(
        scope=scope,
        passes=len(events),
        per_pass=fmean(event.cycles for event in events),
        per_warp=per_warp,
        share=per_warp / duration if duration else 0.0,
        programs=_balance({key: fmean(w.values()) for key, w in of_warps.items()}, core_of),
    )


def _balance(cycles: dict[tuple[int, int], float], core_of: dict[tuple[int, int], int]) -> Balance:
    slowest = max(cycles, key=lambda key: cycles[key])
    return Balance(
        count=len({key[1] for key in cycles}),
        mean=fmean(cycles.values()),
        least=min(cycles.values()),
        most=cycles[slowest],
        slowest=slowest[1],
        at_core=core_of[slowest],
    )


# ---- as text


def _lines(kernel: KernelCycles) -> Iterator[str]:
    programs, cores = kernel.programs, kernel.cores
    launches = "1 launch" if kernel.launches == 1 else f"{kernel.launches:,} launches"
    counts = [
        _counted(programs.count, "program"),
        _counted(kernel.warps, "warp"),
        _counted(cores.count, "multiprocessor"),
    ]
    yield shortened(f"{kernel.kernel}: {launches}, {', '.join(counts)}")
    yield _row("scope", "passes", "cycles/pass", "per warp", "share")
    for scope in kernel.scopes[:_MOST_SCOPES]:
        name = scope.scope
        if len(name) > _SCOPE_WIDTH:
            name = name[: _SCOPE_WIDTH - 1] + "…"
        per_pass, per_warp = f"{scope.per_pass:,.0f}", f"{scope.per_warp:,.0f}"
        yield _row(name, f"{scope.passes:,}", per_pass, per_warp, rounded_percent(scope.share))
    if len(kernel.scopes) > _MOST_SCOPES:
        yield f"  … and {len(kernel.scopes) - _MOST_SCOPES} more; --format json has all"
    yield (
        f"  programs take {programs.mean:,.0f} cycles on average, from {programs.least:,.0f} to "
        f"{programs.most:,.0f}"
    )
    if programs.count > 1 and programs.ratio >= _IMBALANCE:
        yield (
            f"  imbalance: program {programs.slowest} on multiprocessor {programs.at_core} takes "
            f"{programs.ratio:.2f} times the mean"
        )
    if cores.count > 1 and cores.ratio >= _IMBALANCE:
        yield (
            f"  imbalance: the programs of multiprocessor {cores.slowest} take {cores.ratio:.2f} "
            "times the mean"
        )
    for scope in kernel.scopes[:_MOST_SCOPES]:
        if scope.programs.count > 1 and scope.programs.ratio >= 2 * _IMBALANCE:
            what = "its mean" if scope.scope.startswith(LINE_SCOPE) else "the scope's mean"
            yield (
                f"  `{scope.scope}` takes {scope.programs.ratio:.2f} times {what} in program "
                f"{scope.programs.slowest}"
            )


def _row(scope: str, passes: str, per_pass: str, per_warp: str, share: str) -> str:
    return f"  {scope:<{_SCOPE_WIDTH}} {passes:>9} {per_pass:>12} {per_warp:>12} {share:>7}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
