"""The report as text in the style of a compiler, without colours, and findings in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation, excerpt, extent, shown_line, shown_place
from ttools.core.reports.notebook import (
    Code,
    Part,
    ShowsItself,
    Table,
    Text,
    place_cells,
    reporter_of,
)
from ttools.core.reports.report import Report, config_text, counted, summary
from ttools.core.spec import ArgumentSpec

_CONFIGS_LISTED = 5


def write(report: Report, verbose: bool = False) -> str:
    """Return every finding, then the summary, separated by empty lines.

    Args:
        verbose: If True, also show what is left out otherwise.
    """
    if report.sizes is not None:
        from ttools.core.reports.sizes_text import write as write_sizes

        return write_sizes(report, verbose)
    blocks = [finding_text(finding, report.root) for finding in report.findings]
    return "\n\n".join([*blocks, summary(report)]) + "\n"


def finding_text(finding: Finding, root: Path) -> str:
    """Return a finding as a block of lines.

    Args:
        root: Folder to which paths are shown relative.
    """
    location = f"kernel {finding.kernel}" if finding.kernel else "ttools"
    lines: list[str] = []
    if finding.location is not None:
        location = location_text(finding.location, root)
        lines += filter(None, [excerpt(finding.location)])
    return "\n".join([f"{location}: {headline(finding)}", *lines, *detail_lines(finding, root)])


@reporter_of(Finding)
def _notebook_parts(finding: Finding) -> Iterator[Part]:
    yield Code(finding_text(finding, Path.cwd()))


def headline(finding: Finding) -> str:
    """Return, e.g., `error[oob_load]: out-of-bounds load of 4 bytes from `x_ptr``."""
    return f"{finding.severity}[{finding.kind}]: {finding.message}"


def detail_lines(finding: Finding, root: Path) -> list[str]:
    """Return the lines after the source line: call stack, witness, argument and help."""
    callers = finding.location.callers if finding.location else ()
    lines = [f"called from {location_text(caller, root)}" for caller in callers]
    lines += [witness_text(finding), *_argument_lines(finding), *config_lines(finding)]
    lines = [f"  {line}" for line in lines if line]
    for related in finding.related:
        lines += related_lines(related, finding, root)
    last = (_extent_line(finding, root), _callers_line(finding, root), _help_line(finding))
    lines += [f"  {line}" for line in last if line]
    return lines


def location_text(location: SourceLocation, root: Path) -> str:
    """Return `file:line:column` as far as known; the column counts characters."""
    column = (extent(location) or (location.column,))[0]
    return shown_place(location.file, location.line, column, root=root)


def witness_text(finding: Finding) -> str:
    """Return, e.g., `program (3, 0, 0), lane [1000] of [1024]: offs = 4072, mask = none`."""
    parts = _who(finding)
    if finding.lane and finding.shape:
        parts[-1] += f" of [{_numbers(finding.shape)}]"
    variables = ", ".join(f"{name} = {value}" for name, value in finding.variables)
    return ": ".join(filter(None, [", ".join(parts), variables]))


def argument_text(argument: ArgumentSpec) -> str:
    """Return, e.g., `x_ptr: float32[4000] (16,000 bytes)`, with unusual strides or offsets."""
    tensor = argument.tensor
    if tensor is None:
        return f"{argument.name}: {argument.dtype or 'a raw address'}"
    text = f"{argument.name}: {tensor.dtype}[{_numbers(tensor.shape)}]"
    if not tensor.is_dense:
        text += f" with strides ({_numbers(tensor.strides)})"
    if tensor.storage_bytes is None:
        return text
    if tensor.offset == 0 and tensor.is_whole:
        return f"{text} ({tensor.storage_bytes:,} bytes)"
    offset = f" at element {tensor.element_offset:,}" if tensor.offset else ""
    return f"{text}{offset} of a storage of {tensor.storage_bytes:,} bytes"


def related_lines(related: Related, finding: Finding, root: Path) -> list[str]:
    """Return another location of the defect, with its source line unless that is shown already."""
    location = f"{location_text(related.location, root)}: " if related.location else ""
    who = ", ".join(_who(related))
    lines = [f"  {location}{related.message}" + (f": {who}" if who else "")]
    shown = finding.location and excerpt(finding.location)
    if related.location is not None and excerpt(related.location) != shown:
        lines += filter(None, [excerpt(related.location)])
    return lines


def _who(witness: Finding | Related) -> list[str]:
    parts = []
    if witness.program is not None:
        parts.append(f"program ({_numbers(witness.program)})")
    if witness.iteration:
        iterations = _numbers(witness.iteration)
        parts.append(
            f"iteration {iterations if len(witness.iteration) == 1 else f'({iterations})'}"
        )
    if witness.lane:
        parts.append(f"lane [{_numbers(witness.lane)}]")
    return parts


def _argument_lines(finding: Finding) -> list[str]:
    """Return the argument with the first note, then the other notes, a line each."""
    notes = list(finding.notes)
    if finding.argument is None:
        return notes
    return ["; ".join([argument_text(finding.argument), *notes[:1]]), *notes[1:]]


def config_lines(finding: Finding) -> list[str]:
    """Return the lines for an autotuned kernel, e.g. `config: BLOCK=128, num_warps=4`, else none.

    If several configurations have the defect, that of the witness comes first.
    """
    texts = [config_text(config) for config in finding.configs if config]
    if not texts:
        return []
    others = texts[1:]
    lines = [f"config: {texts[0]}"]
    lines += [f"also with config: {text}" for text in others[:_CONFIGS_LISTED]]
    if left := others[_CONFIGS_LISTED:]:
        lines.append(f"also with {counted(len(left), 'more config')}")
    return lines


def _extent_line(finding: Finding, root: Path) -> str:
    """Return, e.g., `launched from bench.py:40; 24 lanes in 1 program are affected`."""
    launched = f"launched from {shown_line(finding.launch, root)}" if finding.launch else ""
    return "; ".join(filter(None, [launched, affected_text(finding)]))


def _callers_line(finding: Finding, root: Path) -> str:
    """Return, e.g., `the launch is called from model.py:80, bench.py:12`."""
    callers = ", ".join(shown_line(caller, root) for caller in finding.launch_callers)
    return f"the launch is called from {callers}" if callers else ""


def affected_text(finding: Finding) -> str:
    """Return, e.g., `24 lanes in 1 program are affected`; for scalars, programs are counted."""
    if finding.shape:
        where = f" in {counted(finding.programs, 'program')}" if finding.programs else ""
        verb = "is" if finding.count == 1 else "are"
        return f"{counted(finding.count, 'lane')}{where} {verb} affected"
    times = f"{finding.count:,} times" if finding.count > max(1, finding.programs) else ""
    if not finding.programs:
        return times
    verb = "is" if finding.programs == 1 else "are"
    text = f"{counted(finding.programs, 'program')} {verb} affected"
    return ", ".join(filter(None, [text, times]))


def _help_line(finding: Finding) -> str:
    return f"help: {finding.help}" if finding.help else ""


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


_COLUMNS = ("severity", "check", "line", "|source", "what", "affected")


class Findings(list[Finding], ShowsItself):
    """A list of findings that notebooks display."""

    def _shown(self) -> Iterator[Part]:
        return finding_parts(self)


def finding_parts(findings: Iterable[Finding]) -> Iterator[Part]:
    """Yield a table, and each finding in folded form."""
    listed = list(findings)
    if not listed:
        yield Text("no findings")
        return
    yield Table("", _COLUMNS, [_row(finding) for finding in listed])
    for finding in listed:
        yield Code(finding_text(finding, Path.cwd()), summary=f"{finding.kernel}: {finding.kind}")


def _row(finding: Finding) -> tuple[str, ...]:
    location = finding.location
    where = place_cells(location.file, location.line) if location else (finding.kernel, "")
    return (finding.severity, finding.check, *where, finding.message, affected_text(finding))
