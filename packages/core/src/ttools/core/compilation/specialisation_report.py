"""The report about the compilations of a run: causes, durations, launches, and advice.

If Triton compiled the kernels for a GPU in the run, the report shows the durations of the run.
Without a GPU, each variant is compiled once more for a target, and the report says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ttools.core import triton_versions
from ttools.core.compilation.cache_misses import CacheMisses
from ttools.core.compilation.compilation_causes import Cause, causes
from ttools.core.compilation.compilation_log import CompilationLog, LoggedCompilation
from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.recompilations import Recompilation, recompilations
from ttools.core.compilation.stages import CompilationError, compile_for
from ttools.core.errors import TtoolsError
from ttools.core.gpus.targets import Target
from ttools.core.json_document import json_text
from ttools.core.location import shown_line, shown_place
from ttools.core.patches import Patches
from ttools.core.reports import markdown_syntax
from ttools.core.reports.notebook import Part, Table, Text
from ttools.core.reports.report import counted
from ttools.core.reports.result import Formats, Result, formats_of
from ttools.core.reports.wrapping import wrapped

SCHEMA = "ttools.specialisations/1"
#: Names of the compilation phases, by Triton's names of the stages.
_PHASES = {
    "front end": "front end",
    "ttir": "TTIR passes",
    "cputtir": "TTIR passes",
    "ttgir": "TTGIR passes",
    "llir": "LLVM",
    "ptx": "LLVM",
    "amdgcn": "LLVM",
    "cubin": "ptxas",
    "hsaco": "linker",
}
_MOST_LINES = 40
#: Maximum number of rows for one kernel in the text report.
_MOST_ROWS = 8
#: If a constant takes at least this many values, the report gives advice about it.
_MANY_VALUES = 3


@dataclass(frozen=True, kw_only=True)
class TargetCost:
    """The duration of a compilation for a target.

    Attributes:
        phases: Seconds by stage of Triton's compiler; empty if the compiler failed.
        measured: `run` if the run itself compiled for the target, else `again`.
        error: Message of the compiler; None if it succeeded.
    """

    phases: Mapping[str, float]
    measured: str
    error: str | None = None

    @property
    def seconds(self) -> float:
        return sum(self.phases.values())

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return {**vars(self), "phases": dict(self.phases), "seconds": self.seconds}


@dataclass(frozen=True, kw_only=True)
class ExplainedCompilation:
    """A compilation with its cause.

    Attributes:
        miss: Reason why Triton's cache on disk lacked the kernel; None if the cache contained it or
            the reason is unknown.
        cost: Duration for the target; None if no target was chosen.
    """

    entry: LoggedCompilation
    cause: Cause
    miss: str | None
    cost: TargetCost | None

    def as_dict(self, number: int) -> dict[str, Any]:
        """Return JSON-compatible data."""
        entry = self.entry
        disk = {True: "hit", False: "miss", None: "unknown"}[entry.cached]
        return {
            "number": number,
            "launched": entry.source.launched,
            "parameters": entry.source.parameters(),
            "options": dict(entry.source.options),
            "compared_with": self.cause.compared,
            "causes": [vars(difference) for difference in self.cause.differences],
            "launches": entry.launches,
            "trials": entry.trials,
            "warm_up": entry.warm_up,
            "failed": entry.failed,
            "device": entry.device,
            "run": {
                "seconds": entry.seconds,
                "phases": dict(entry.phases),
                "target": _target_text(entry),
            },
            "disk_cache": disk,
            "miss": self.miss,
            "target_cost": None
            if self.cost is None
            else {
                **vars(self.cost),
                "phases": dict(self.cost.phases),
                "seconds": self.cost.seconds,
            },
        }


def _target_text(entry: LoggedCompilation) -> str | None:
    target = entry.metadata.get("target")
    backend, arch = getattr(target, "backend", None), getattr(target, "arch", None)
    return None if backend is None else str(backend) if backend == "cpu" else f"{backend}:{arch}"


@dataclass(frozen=True, kw_only=True)
class ExplainedKernel:
    """The compilations of a kernel, and advice that avoids some of them.

    Attributes:
        file: File of the kernel.
        line: Line of the kernel's first decorator or its `def`.
        recompilations: Parameters whose specialisation causes compilations, each with the benefit
            of this specialisation.
        advice: Sentences for the user.
    """

    name: str
    file: str
    line: int
    compilations: tuple[ExplainedCompilation, ...]
    recompilations: tuple[Recompilation, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def launches(self) -> int:
        return sum(item.entry.launches for item in self.compilations)

    @property
    def place(self) -> str:
        """Return file and line in the format of reports."""
        return shown_place(self.file, self.line)

    def seconds(self) -> float:
        """Return the total duration of all compilations, for the target if there is one."""
        return sum(map(_seconds, self.compilations))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return {
            "kernel": self.name,
            "file": self.file,
            "line": self.line,
            "launches": self.launches,
            "compilations": [c.as_dict(n) for n, c in enumerate(self.compilations, 1)],
            "recompilations": [item.as_dict() for item in self.recompilations],
            "advice": list(self.advice),
        }


def _seconds(item: ExplainedCompilation) -> float:
    return item.entry.seconds if item.cost is None else item.cost.seconds


@dataclass(frozen=True, kw_only=True)
class SpecialisationReport(Result):
    """The compilations of a run by kernel, starting with the kernel that has most compilations.

    Attributes:
        target: Name of the target for which durations and costs are given; if None, the durations
            are those of the run.
        earlier_variants: Number of launches that used variants compiled before the observation.
    """

    kernels: tuple[ExplainedKernel, ...]
    target: str | None = None
    earlier_variants: int = 0
    failures: ClassVar[tuple[str, ...]] = ()

    @property
    def compilations(self) -> list[ExplainedCompilation]:
        """All compilations, by kernel."""
        return [item for kernel in self.kernels for item in kernel.compilations]

    def phases(self) -> dict[str, float]:
        """Return the total seconds by phase: front end, TTIR passes, TTGIR passes, LLVM, ptxas."""
        total: dict[str, float] = {}
        for item in self.compilations:
            for stage, seconds in (item.cost.phases if item.cost else item.entry.phases).items():
                phase = _PHASES.get(stage, stage)
                total[phase] = total.get(phase, 0.0) + seconds
        return total

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data with schema `ttools.specialisations/1`."""
        return {
            "schema": SCHEMA,
            "triton": triton_versions.installed_triton(),
            "target": self.target,
            "phases": self.phases(),
            "earlier_variants": self.earlier_variants,
            "kernels": [kernel.as_dict() for kernel in self.kernels],
        }

    def _shown(self) -> Iterator[Part]:
        yield Text("\n".join(_heading(self)))
        for kernel in self.kernels:
            yield Table(_title(kernel), _COLUMNS, list(_rows(kernel)))
            if kernel.advice:
                yield Text("\n".join(kernel.advice))


# ---- analysis


def explain(
    log: CompilationLog,
    target: Target | None = None,
    done: Callable[[], object] | None = None,
) -> SpecialisationReport:
    """Explain the compilations of a run.

    Args:
        log: The compilations of a run.
        target: The GPU for which each variant is compiled, to determine durations and the cost of
            following the advice; None to compile nothing and give no costs.
        done: Function to call after each variant that was compiled.
    """
    misses = CacheMisses(log.compilations)
    measured: dict[KernelSource, tuple[TargetCost, Inspection | None]] = {}
    kernels = []
    for entries in log.by_kernel():
        if target is not None:
            for entry in entries:
                if entry.source not in measured:
                    measured[entry.source] = _measured(entry, target)
                    if done is not None:
                        done()
        explained = [
            ExplainedCompilation(
                entry=entry,
                cause=cause,
                miss=misses.reason(entry),
                cost=measured[entry.source][0] if target is not None else None,
            )
            for entry, cause in zip(entries, causes(entries), strict=True)
        ]
        sources = dict.fromkeys(entry.source for entry in entries)
        compiled = [measured[source][1] for source in sources if source in measured]
        kernels.append(_explained(explained, [item for item in compiled if item is not None]))
    kernels.sort(key=lambda kernel: -len(kernel.compilations))
    return SpecialisationReport(
        kernels=tuple(kernels),
        target=target.name if target is not None else None,
        earlier_variants=log.earlier_variants,
    )


def _measured(entry: LoggedCompilation, target: Target) -> tuple[TargetCost, Inspection | None]:
    """Compile a variant for a target, and return the duration and the result.

    If the run itself compiled the variant for this target, the duration is that of the run.
    """
    received: list[triton_versions.CompileTimes] = []
    in_run = bool(entry.phases) and entry.metadata.get("target") == target.gpu_target()
    try:
        with triton_versions.without_disk_cache(), Patches() as patches:
            triton_versions.observe_compile_times(patches, received.append)
            inspection = Inspection(compile_for(entry.source, target))
    except CompilationError as error:
        return TargetCost(phases={}, measured="again", error=str(error)), None
    phases = entry.phases if in_run else received[-1].seconds if received else {}
    return TargetCost(phases=phases, measured="run" if in_run else "again"), inspection


def _explained(
    explained: Sequence[ExplainedCompilation], compiled: Sequence[Inspection]
) -> ExplainedKernel:
    file, line, _ = explained[0].entry.kernel
    try:
        repeated = recompilations(compiled)
    except TtoolsError:  # the more general variant does not compile
        repeated = []
    return ExplainedKernel(
        name=explained[0].entry.source.name,
        file=file,
        line=line,
        compilations=tuple(explained),
        recompilations=tuple(repeated),
        advice=(*map(_remedy, repeated), *_advice(explained)),
    )


def _remedy(item: Recompilation) -> str:
    several = "," in item.parameter
    names = " and ".join(f"`{name}`" for name in item.parameter.split(", "))
    subject = f"{names} together cause" if several else f"{names} alone causes"
    cost = item.cost if item.narrowed else f"none, {item.cost}"
    return (
        f"{subject} {item.avoidable} of {item.compilations} variants; "
        f"`{item.remedy}` removes {'it' if item.avoidable == 1 else 'them'}; cost: {cost}"
    )


def _advice(explained: Sequence[ExplainedCompilation]) -> Iterator[str]:
    """Yield advice whose cost cannot be determined from the compiled code."""
    alone = [item.cause.differences[0] for item in explained if len(item.cause.differences) == 1]
    for name in dict.fromkeys(d.name for d in alone if d.kind == "constexpr"):
        values = 1 + sum(d.kind == "constexpr" and d.name == name for d in alone)
        if values >= _MANY_VALUES:
            yield (
                f"each of the {values} values of the constant `{name}` is compiled; declare it "
                "without `tl.constexpr` if the kernel does not need it at compile time, or round "
                "it up to a few values (cost: not measured)"
            )
    again = sum(d.kind == "keywords" for d in alone)
    if again:
        yield (
            f"{counted(again, 'compilation')} of a variant that exists: write the same keywords "
            "at all launches (cost: none)"
        )
    redefined = sum(d.kind == "redefinition" for d in alone)
    if redefined:
        yield (
            f"the kernel was decorated {counted(redefined + 1, 'time')}: decorate it once, at the "
            "top level of a module (cost: none)"
        )


def recompiled_kernels(report: SpecialisationReport) -> Iterator[str]:
    """Yield a sentence for each kernel that was compiled more than once, with the causes."""
    for kernel in report.kernels:
        count = len(kernel.compilations)
        if count > 1:
            kinds = Counter(
                f"{difference.kind}{f' of `{difference.name}`' if difference.name else ''}"
                for item in kernel.compilations
                for difference in item.cause.differences
            )
            listed = ", ".join(f"{kind} ({n})" for kind, n in kinds.most_common(_MANY_VALUES))
            yield f"{kernel.name} was compiled {count} times: {listed}"


# ---- the report as text and Markdown

_COLUMNS = (">#", ">launches", ">seconds", "cause", "Triton's cache", "launched at")


def _heading(report: SpecialisationReport) -> list[str]:
    kernels, items = report.kernels, report.compilations
    launches = sum(kernel.launches for kernel in kernels)
    totals = [
        f"{counted(len(items), 'compilation')} of {counted(len(kernels), 'kernel')}",
        counted(launches, "launch", "launches"),
    ]
    lines = [", ".join(totals)]
    hits = sum(item.entry.cached is True for item in items)
    missed = sum(item.entry.cached is False for item in items)
    if hits or missed:
        lines[0] += f"; Triton's cache on disk: {counted(hits, 'hit')}, {_misses(missed)}"
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.phases().items())
    if report.target is None:
        on_cpu = any(_target_text(item.entry) == "cpu" for item in items)
        note = " (for the CPU, without native code; choose a GPU with --gpu)" if on_cpu else ""
        lines.append(f"seconds of this run{note}: {phases or 'unknown'}")
    else:
        again = any(item.cost is not None and item.cost.measured == "again" for item in items)
        note = ", compiled again by ttools" if again else ", in this run"
        lines.append(f"seconds for {report.target}{note}: {phases or 'unknown'}")
    if report.earlier_variants:
        count = counted(report.earlier_variants, "launch", "launches")
        lines.append(f"{count} used variants that were compiled before the observation")
    reasons = dict.fromkeys(item.miss for item in items if item.miss)
    lines += [f"miss: {reason}" for reason in list(reasons)[:3]]
    return lines


def _misses(count: int) -> str:
    return "1 miss" if count == 1 else f"{count:,} misses"


def _title(kernel: ExplainedKernel) -> str:
    return (
        f"{kernel.name}, {kernel.place}: {counted(len(kernel.compilations), 'compilation')}, "
        f"{counted(kernel.launches, 'launch', 'launches')}, {kernel.seconds():.2f} s"
    )


def _rows(kernel: ExplainedKernel) -> Iterator[tuple[str, ...]]:
    for number, item in enumerate(kernel.compilations, 1):
        disk = {True: "hit", False: "miss", None: ""}[item.entry.cached]
        launched = item.entry.source.launched
        yield (
            str(number),
            f"{item.entry.launches:,}",
            f"{_seconds(item):.2f}",
            _cause(item),
            disk,
            shown_line(launched) if launched else "",
        )


def _cause(item: ExplainedCompilation) -> str:
    text = str(item.cause)
    compared = item.cause.compared
    if compared is not None and compared > 1:
        text += f" (compared with {compared})"
    marks = [
        ("warm-up", item.entry.warm_up),
        ("failed", item.entry.failed),
        (f"{item.entry.trials:,} launches of the autotuner", item.entry.trials),
        ("does not compile for the target", item.cost is not None and item.cost.error),
    ]
    listed = [mark for mark, present in marks if present]
    return f"{text} [{', '.join(listed)}]" if listed else text


def text_report(report: SpecialisationReport, most_lines: int = _MOST_LINES) -> str:
    """Return the report as text of at most 80 columns.

    Args:
        most_lines: Maximum number of lines; the last one contains the number of omitted lines.
    """
    lines = [line for part in _heading(report) for line in wrapped(part)]
    for position, kernel in enumerate(report.kernels):
        block = ["", *_block(kernel)]
        if len(lines) + len(block) > most_lines - 1:
            rest = report.kernels[position:]
            number = counted(sum(len(k.compilations) for k in rest), "compilation")
            lines.append(f"… {counted(len(rest), 'more kernel')} with {number} (--format json)")
            break
        lines += block
    return "\n".join(lines) + "\n"


def _block(kernel: ExplainedKernel) -> Iterator[str]:
    yield from wrapped(_title(kernel), whole=[kernel.place])
    rows = list(_rows(kernel))
    if len(rows) > 1:
        yield f"  {'#':>3} {'launches':>9} {'seconds':>8}  cause"
        for number, launches, seconds, cause, *_ in rows[:_MOST_ROWS]:
            start = f"  {number:>3} {launches:>9} {seconds:>8}  "
            yield from wrapped(cause, start, " " * len(start))
        if len(rows) > _MOST_ROWS:
            yield f"  … {len(rows) - _MOST_ROWS} more (--format json)"
    for sentence in kernel.advice:
        yield from wrapped(sentence, "  advice: ", "    ")


def markdown_report(report: SpecialisationReport) -> str:
    """Return the complete report in GitHub-flavoured Markdown."""
    columns = [(name.removeprefix(">"), name.startswith(">")) for name in _COLUMNS]
    parts = ["\n".join(f"{markdown_syntax.escaped(line)}  " for line in _heading(report)) + "\n"]
    for kernel in report.kernels:
        parts.append(markdown_syntax.table(_title(kernel), columns, list(_rows(kernel))))
        if kernel.advice:
            parts.append("".join(f"- {markdown_syntax.escaped(text)}\n" for text in kernel.advice))
    return "\n".join(parts)


@formats_of(SpecialisationReport)
def _formats(report: SpecialisationReport) -> Formats:
    return {
        "text": lambda: text_report(report),
        "markdown": lambda: markdown_report(report),
        "json": lambda: json_text(report.as_dict()),
    }
