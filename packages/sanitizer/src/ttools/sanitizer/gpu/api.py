"""`sanitize_on_gpu()`: checks the Triton kernels of a program on a GPU, under compute-sanitizer.

The program runs once for each tool. The findings of all runs are merged into one report.
"""

from __future__ import annotations

import linecache
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as replaced

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.findings.baseline import Baseline
from ttools.core.findings.findings import Finding, Severity, TallyEntry, merge
from ttools.core.findings.inline import InlineSuppressions
from ttools.core.findings.suppressions import Source, SuppressionFile, apply
from ttools.core.process.script import Target
from ttools.core.reports.report import Report, most_severe
from ttools.sanitizer.checks.registry import parse_checks, rules, what_ran
from ttools.sanitizer.gpu.findings import gpu_findings
from ttools.sanitizer.gpu.instrumentation import (
    MODES,
    TritonTool,
    Vendor,
    parse_modes,
    require_modes,
    vendor,
)
from ttools.sanitizer.gpu.instrumented_run import run_instrumented
from ttools.sanitizer.gpu.launch_log import LogEntry
from ttools.sanitizer.gpu.tool import Tool, find_tool, require_gpu
from ttools.sanitizer.gpu.tool_run import STDIN, STREAMS, ToolRun, run_tool
from ttools.sanitizer.gpu.tools import PRINT_LIMIT, GpuTool, tools_for

__all__ = ["GpuSanitization", "sanitize_on_gpu"]

_LAST_LINES = 8
#: Exit status, as a shell reports it, of a program that Ctrl-C has stopped.
_INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class GpuOptions:
    """Options of a run on a GPU.

    Attributes:
        checks: Names of the checks to make.
        only: Names of the kernels to report on; None for all.
        max_findings: Largest number of findings to report, most severe first. Suppressed findings
            are not counted.
        suppressions: Files of rules that suppress findings.
        baseline: File of known findings, which are suppressed.
        timeout: Seconds after which each run of the program is stopped; None for no limit.
        instrument: Modes of Triton's own instrumentation. Each is one more run of the program.
    """

    checks: frozenset[str]
    only: frozenset[str] | None = None
    max_findings: int = 100
    suppressions: tuple[Path, ...] = ()
    baseline: Path | None = None
    timeout: float | None = None
    instrument: tuple[TritonTool, ...] = ()


_RACES = "races between programs are not checked on a GPU; run without `--on gpu` to check them"


class GpuSanitization:
    """The runs of a program under compute-sanitizer; made by `sanitize_on_gpu`.

    Attributes:
        options: Options of the runs.
        launches: Launches of the first run that made any; equal launches have one entry.
        warnings: Sentences on what was not checked, or not checked completely.
        notes: Sentences on limits of the tools that apply to every program.
        status: First exit status of the runs that is not 0; 0 if there is none; None until `run`
            has ended.
    """

    def __init__(
        self, options: GpuOptions, announce: Callable[[str], None] = lambda text: None
    ) -> None:
        self.options = options
        self.launches: list[TallyEntry] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.status: int | None = None
        self._announce = announce
        self._found: list[Finding] = []
        self._vendor = vendor()
        self._tools, left = _tools_of(options, self._vendor)
        self.warnings += [left] if left else []
        self._sources()  # an unreadable file must be reported before the run

    def run(self, target: Target) -> int:
        """Run a program once for each tool; return the first nonzero status, or 0 if there is none.

        Raises:
            UsageError: There is no such script or module.
            TtoolsError: There is no GPU or a tool is missing, or a run exceeded the time limit.
                Findings made before that are kept.
        """
        require_gpu()
        modes = [tool for tool in self._tools if isinstance(tool, TritonTool)]
        if modes:
            require_modes(modes, self._vendor)
        sanitizer = None if len(modes) == len(self._tools) else find_tool()
        statuses: list[int] = []
        with tempfile.TemporaryDirectory(prefix="ttools-gpu-") as name:
            stdin = _remember_source(target, Path(name))
            for number, tool in enumerate(self._tools, 1):
                runs = f"run {number} of {len(self._tools)}"
                self._announce(f"{runs}: {target} under {tool.title}")
                folder = Path(name) / tool.name
                folder.mkdir()
                if stdin is not None:
                    shutil.copy(stdin, folder / STDIN)
                done = self._run(tool, sanitizer, target, folder, shown=number == 1)
                if done.why == "interrupt":
                    statuses.append(_INTERRUPTED)
                    others = [other.title for other in self._tools[number - 1 :]]
                    text = (
                        f"the program was interrupted under {tool.title}; not checked to the end: "
                    )
                    self.warnings.append(text + ", ".join(others))
                statuses.append(done.status)
                if done.why == "interrupt" or (done.status and not done.log.launches):
                    break  # if it fails before its first launch, it fails under each tool
        names = {tool.name for tool in self._tools}
        if "racecheck" in names and "gsan" not in names and _RACES not in self.notes:
            self.notes.append(_RACES)
        self.status = next((status for status in statuses if status), 0)
        return self.status

    def report(
        self, *, target: str = "", exit_code: int | None = None, fail_on: Severity = "error"
    ) -> Report:
        """Return the findings as data for the report writers, with suppressions applied.

        Args:
            target: The script, module or code, as the user named it.
            exit_code: Exit status of the user's script.
            fail_on: Lowest severity of findings that count as failures.
        """
        made = {tool.check for tool in self._tools}
        kept, hidden = apply(self._found, self._sources(), what_ran(self.launches, made))
        reported, dropped = most_severe(kept, self.options.max_findings)
        return Report(
            findings=tuple(reported),
            dropped=tuple(dropped),
            launches=tuple(self.launches),
            suppressed=tuple(hidden),
            target=target,
            exit_code=exit_code,
            fail_on=fail_on,
            some_only=self.options.only is not None,
            rules=rules(),
        )

    @property
    def findings(self) -> list[Finding]:
        """The findings that are not suppressed, one per defect site."""
        return list(self.report().findings)

    def _run(
        self, tool: GpuTool, sanitizer: Tool | None, target: Target, folder: Path, *, shown: bool
    ) -> ToolRun:
        timeout = self.options.timeout
        if isinstance(tool, TritonTool):
            done = run_instrumented(tool, target, folder, shown=shown, timeout=timeout)
        else:
            assert sanitizer is not None
            done = run_tool(tool, sanitizer, target, folder, shown=shown, timeout=timeout)
        new_findings = gpu_findings(
            done.output.records, done.log.launches, tool, folder, self._is_wanted
        )
        self._found = merge([*self._found, *new_findings])
        if not self.launches:
            self.launches = _entries(
                launch for launch in done.log.launches if self._is_wanted(launch.spec.kernel)
            )
        self._warn(tool, done)
        if not shown and done.status and done.why == "itself":
            self.warnings.append(_other_ending(tool, done, folder))
        if done.why == "timeout":
            raise TtoolsError(
                f"{tool.title}: the program was stopped after {timeout:g} s; "
                "findings cover only what ran before that"
            )
        return done

    def _is_wanted(self, kernel: str) -> bool:
        return self.options.only is None or kernel in self.options.only

    def _warn(self, tool: GpuTool, done: ToolRun) -> None:
        messages = [f"{tool.title}: {text}" for text in done.output.remarks]
        if done.output.not_printed:
            messages.append(
                f"{tool.title} printed {PRINT_LIMIT:,} errors and omitted "
                f"{done.output.not_printed:,} more: counts are lower bounds"
            )
        messages += done.log.failures
        self.warnings += [text for text in dict.fromkeys(messages) if text not in self.warnings]

    def _sources(self) -> list[Source]:
        """Return new suppressions and baseline for each report, as they count their matches."""
        files = [SuppressionFile(path) for path in self.options.suppressions]
        baseline = self.options.baseline
        return [InlineSuppressions(), *files, *([] if baseline is None else [Baseline(baseline)])]


def sanitize_on_gpu(
    target: Target,
    *,
    checks: str | Iterable[str] = "default",
    only: Sequence[str] | None = None,
    max_findings: int = 100,
    suppressions: str | Path | Sequence[str | Path] = (),
    baseline: str | Path | None = None,
    timeout: float | None = None,
    instrument: str | Iterable[str] = (),
) -> GpuSanitization:
    """Run a program on this machine's GPU under NVIDIA's compute-sanitizer.

    The program runs once for each tool: memcheck, racecheck, initcheck and synccheck by default.
    Only the first run uses the streams of this process: the output of the others is not shown. An
    invalid access terminates its kernel, and the program continues.

    Args:
        target: A script, a module or code.
        checks: Names of checks, as a list or comma-separated. Checks that no tool makes are left
            out.
        only: Names of the kernels to report on; by default all.
        max_findings: Largest number of findings to report, most severe first. Suppressed findings
            are not counted.
        suppressions: Files of rules that suppress findings.
        baseline: File of known findings, which are suppressed.
        timeout: Seconds after which each run is stopped; None for no limit.
        instrument: Modes of Triton's own instrumentation, each for one more run: `consan`, `gsan`,
            `iisan`, and on AMD's GPUs `asan`, which is the tool for `memcheck` there.

    Raises:
        UsageError: An argument has an invalid value.
        TtoolsError: There is no GPU, no compute-sanitizer or no such mode in the installed Triton,
            or a run exceeded the time limit.

    Examples:
        >>> checked = sanitize_on_gpu(Target(kind="script", name="bench.py"))
        >>> print(write_report(checked.report(), "text"))
    """
    files = [suppressions] if isinstance(suppressions, (str, Path)) else suppressions
    checked = GpuSanitization(
        GpuOptions(
            checks=parse_checks([checks] if isinstance(checks, str) else checks),
            only=None if only is None else frozenset(only),
            max_findings=max_findings,
            suppressions=tuple(Path(file) for file in files),
            baseline=None if baseline is None else Path(baseline),
            timeout=timeout,
            instrument=parse_modes([instrument] if isinstance(instrument, str) else instrument),
        )
    )
    checked.run(target)
    return checked


def _tools_of(options: GpuOptions, whose: Vendor) -> tuple[tuple[GpuTool, ...], str | None]:
    """Return the tools for a run on a vendor's GPUs, and a sentence on checks without a tool."""
    if whose == "nvidia":
        tools, left = tools_for(options.checks)
        return (*tools, *options.instrument), left
    wanted = [MODES["asan"]] if "memcheck" in options.checks else []
    wanted += [tool for tool in options.instrument if tool not in wanted]
    if not wanted:
        raise UsageError(
            "on AMD GPUs only memcheck is available, through Triton's address sanitizer"
        )
    return tuple(
        wanted
    ), "on AMD GPUs only memcheck is available, through Triton's address sanitizer"


def _remember_source(target: Target, folder: Path) -> Path | None:
    """Keep source code that is in no file, for excerpts in the report.

    Returns:
        A copy of standard input if the target is read from it, because each run has to read it
        again; otherwise None.
    """
    if target.kind == "code":
        _register("<string>", target.name)
    if target.kind != "script" or target.name != "-":
        return None
    copy = folder / STDIN
    copy.write_bytes(sys.stdin.buffer.read())
    _register("<stdin>", copy.read_text("utf-8", errors="replace"))
    return copy


def _register(name: str, source: str) -> None:
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)


def _entries(launches: Iterable[LogEntry]) -> list[TallyEntry]:
    """Return one entry for each group of equal launches, in order of appearance."""
    counts: Counter[str] = Counter()
    first: dict[str, TallyEntry] = {}
    for launch in launches:
        entry = TallyEntry(spec=replaced(launch.spec, arguments=()))
        key = repr(entry)
        first.setdefault(key, entry)
        counts[key] += 1
    return [replace(entry, count=counts[key]) for key, entry in first.items()]


def _other_ending(tool: GpuTool, done: ToolRun, folder: Path) -> str:
    """Describe how a run without visible output failed, with the last lines of its output."""
    written = (folder / STREAMS).read_text("utf-8", errors="replace").splitlines()
    last = "".join(f"\n  {line}" for line in written[-_LAST_LINES:])
    return f"under {tool.name} the program ended with status {done.status}{last}"
