"""`sanitize_on_gpu()`: checks the Triton kernels of a program on a GPU, under compute-sanitizer.

The public face. Owns what may be asked for, and adds the runs of the tools up to a report: each
tool is one more run of the program.
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
from ttools.sanitizer.checks.registry import kinds, parse_checks, what_ran
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
#: Status of a program that Ctrl-C has ended, as a shell reports it.
_INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class GpuOptions:
    """What to check on a GPU.

    Attributes:
        checks: names of checks.
        only: names of the kernels to speak of; None for all.
        max_findings: at most so many findings that count are reported, most severe first.
        suppressions: files of rules for findings that do not count.
        baseline: a file of findings that are known and do not count.
        timeout: seconds that each run of the program may take; None for no limit.
        instrument: modes of Triton's own instrumentation, each of which is one more run.
    """

    checks: frozenset[str]
    only: frozenset[str] | None = None
    max_findings: int = 100
    suppressions: tuple[Path, ...] = ()
    baseline: Path | None = None
    timeout: float | None = None
    instrument: tuple[TritonTool, ...] = ()


_RACES = "races between programs are not looked for on a GPU: run it without `--on gpu` for these"


class GpuSanitization:
    """The runs of a program under compute-sanitizer; made by `sanitize_on_gpu`.

    Attributes:
        options: what is checked.
        launches: what the program launched in its first run, equal launches together.
        warnings: what the user should know.
        notes: what may surprise the user although it is meant so.
        status: of the program: the first of its runs that is not 0; None before it has ended.
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
        self._sources()  # a file that cannot be read is an error before the run

    def run(self, target: Target) -> int:
        """Runs a program once for each tool and returns its status: the first that is not 0.

        Raises:
            UsageError: there is no such script or module.
            TtoolsError: this machine cannot do it, or a run took too long; what was found before
                is kept.
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
                    others = [each.title for each in self._tools[number - 1 :]]
                    text = (
                        f"the program was interrupted under {tool.title}; not checked to the end: "
                    )
                    self.warnings.append(text + ", ".join(others))
                statuses.append(done.status)
                if done.why == "interrupt" or (done.status and not done.log.launches):
                    break  # what failed without a kernel will fail so again
        names = {tool.name for tool in self._tools}
        if "racecheck" in names and "gsan" not in names and _RACES not in self.notes:
            self.notes.append(_RACES)
        self.status = next((status for status in statuses if status), 0)
        return self.status

    def report(
        self, *, target: str = "", exit_code: int | None = None, fail_on: Severity = "error"
    ) -> Report:
        """What was found, as data for the report writers, suppressions applied.

        Args:
            target: what was run, as the user named it.
            exit_code: of the user's script.
            fail_on: from which severity on findings count as failures.
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
            kinds=kinds(),
        )

    @property
    def findings(self) -> list[Finding]:
        """What was found, one finding per defect site, less what is suppressed."""
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
        found = gpu_findings(done.output.records, done.log.launches, tool, folder, self._is_wanted)
        self._found = merge([*self._found, *found])
        if not self.launches:
            self.launches = _entries(
                each for each in done.log.launches if self._is_wanted(each.spec.kernel)
            )
        self._warn(tool, done)
        if not shown and done.status and done.why == "itself":
            self.warnings.append(_other_ending(tool, done, folder))
        if done.why == "timeout":
            raise TtoolsError(
                f"{tool.title}: the program was stopped after {timeout:g} s; "
                "findings are of what ran until then"
            )
        return done

    def _is_wanted(self, kernel: str) -> bool:
        return self.options.only is None or kernel in self.options.only

    def _warn(self, tool: GpuTool, done: ToolRun) -> None:
        said = [f"{tool.title}: {text}" for text in done.output.remarks]
        if done.output.not_printed:
            said.append(
                f"{tool.title} printed {PRINT_LIMIT:,} errors and passed over "
                f"{done.output.not_printed:,} more: counts are lower bounds"
            )
        said += done.log.failures
        self.warnings += [text for text in dict.fromkeys(said) if text not in self.warnings]

    def _sources(self) -> list[Source]:
        """Fresh ones for each report: they count what they have been used for."""
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
    """Runs a program on this machine's GPU under NVIDIA's compute-sanitizer.

    The program runs once for each tool: memcheck, racecheck, initcheck and synccheck by default.
    The first run has our streams. An invalid access ends its kernel; the program goes on.

    Args:
        target: a script, a module or code.
        checks: names of checks, also comma-separated; those that no tool makes are left out.
        only: names of the kernels to report on; all by default.
        max_findings: report at most so many findings that count, most severe first.
        suppressions: files of rules for findings that do not count.
        baseline: a file of findings that are known and do not count.
        timeout: seconds that each run may take.
        instrument: modes of Triton's own instrumentation to run under, too: `consan`, `gsan`,
            `iisan`, and `asan` on AMD's GPUs, where it is what makes `memcheck`.

    Raises:
        UsageError: an argument makes no sense.
        TtoolsError: there is no GPU, no compute-sanitizer or no such mode in the installed Triton,
            or a run took too long.

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
    """The tools of a run on GPUs of a vendor, and a sentence on what none of them checks."""
    if whose == "nvidia":
        tools, left = tools_for(options.checks)
        return (*tools, *options.instrument), left
    wanted = [MODES["asan"]] if "memcheck" in options.checks else []
    wanted += [tool for tool in options.instrument if tool not in wanted]
    if not wanted:
        raise UsageError("on AMD's GPUs there is memcheck, by Triton's address sanitizer, only")
    return tuple(wanted), "on AMD's GPUs memcheck alone is made, by Triton's address sanitizer"


def _remember_source(target: Target, folder: Path) -> Path | None:
    """Makes excerpts of code that is in no file possible; returns what each run is to read."""
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
    """Equal launches together, in order of appearance."""
    counts: Counter[str] = Counter()
    first: dict[str, TallyEntry] = {}
    for launch in launches:
        entry = TallyEntry(spec=replaced(launch.spec, arguments=()))
        key = repr(entry)
        first.setdefault(key, entry)
        counts[key] += 1
    return [replace(entry, count=counts[key]) for key, entry in first.items()]


def _other_ending(tool: GpuTool, done: ToolRun, folder: Path) -> str:
    """How a run whose output is not shown has failed, and what it wrote last."""
    written = (folder / STREAMS).read_text("utf-8", errors="replace").splitlines()
    last = "".join(f"\n  {line}" for line in written[-_LAST_LINES:])
    return f"under {tool.name} the program ended with status {done.status}{last}"
