"""The report as text in the style of a compiler, without colours, and findings in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation, excerpt, extent, shown_line, shown_place
from ttools.core.reports.accuracy import range_lines, tolerance_lines
from ttools.core.reports.notebook import (
    Code,
    Part,
    ShowsItself,
    Table,
    Text,
    place_cells,
    reporter_of,
)
from ttools.core.reports.report import (
    Report,
    by_cause,
    cause_text,
    config_text,
    counted,
    summary,
    united_cause,
)
from ttools.core.reports.wrapping import WIDTH, wrapped
from ttools.core.spec import ArgumentSpec

_CONFIGS_LISTED = 5
#: Maximum number of lines for a finding and for all findings of a kernel, unless the report is
#: verbose.
_FINDING_LINES = 12
_KERNEL_LINES = 38
#: Maximum number of findings in a block that are listed with a paragraph each.
_MOST_FOLDED = 8


def write(report: Report, verbose: bool = False) -> str:
    """Return every finding, tolerances, ranges and the summary, separated by empty lines.

    Findings with a common cause form one block. By default, such a block shows only its first
    finding in full, and each kernel gets a limited number of lines.

    Args:
        verbose: If True, all findings are shown in full.
    """
    blocks = finding_blocks(report.findings, report.root, verbose=verbose)
    if report.suggests_tolerances:
        blocks.append("\n".join(tolerance_lines(report.accuracy)))
    if ranges := range_lines(report.accuracy):
        blocks.append("\n".join(ranges))
    return "\n\n".join([*blocks, summary(report)]) + "\n"


def finding_blocks(findings: Iterable[Finding], root: Path, *, verbose: bool) -> list[str]:
    """Return findings as blocks of text by kernel and cause, see `write`."""
    groups = by_cause(findings)
    blocks: list[str] = []
    for kernel in dict.fromkeys(group[0].kernel for group in groups):
        own = [group for group in groups if group[0].kernel == kernel]
        blocks += _kernel_blocks(own, root, verbose)
    return blocks


def _kernel_blocks(groups: Sequence[Sequence[Finding]], root: Path, verbose: bool) -> list[str]:
    """Return the blocks of a kernel; those beyond its line limit are reduced to one line each."""
    if verbose:
        return [group_text(group, root, verbose=True) for group in groups]
    blocks, used = [], 0
    for n, group in enumerate(groups):
        text = group_text(group, root)
        lines = _rows(text.splitlines()) + 1
        later = [finding for group in groups[n + 1 :] for finding in group]
        # The list of the remaining findings, which has its own heading, must also fit.
        listed = 1 + _rows(_folded(later, groups[0][0], root, "")) if later else 0
        if n and used + lines + listed > _KERNEL_LINES:
            rest = [finding for group in groups[n:] for finding in group]
            blocks.append("\n".join(_folded(rest, groups[0][0], root, "")))
            break
        blocks.append(text)
        used += lines
    return blocks


def group_text(group: Sequence[Finding], root: Path, *, verbose: bool = False) -> str:
    """Return findings with a common cause as one block: the cause, then the findings.

    Args:
        group: The findings; a single finding needs no heading.
        root: Folder that displayed paths are relative to.
        verbose: If True, all findings are shown in full, else only the first one.
    """
    first = finding_text(group[0], root, verbose=verbose)
    if len(group) == 1:
        return first
    heading = wrapped(cause_text(group), whole=[united_cause(group).source])
    if verbose:
        first = "\n\n".join(finding_text(finding, root, verbose=True) for finding in group)
        return "\n".join([*heading, first])
    return "\n".join([*heading, first, *_folded(group[1:], group[0], root, "  ")])


def _folded(findings: Sequence[Finding], first: Finding, root: Path, indent: str) -> list[str]:
    """Return a heading, followed by one paragraph for each finding.

    Args:
        first: A finding whose file need not be repeated.
        indent: Indentation of the heading.
    """
    listed = findings[:_MOST_FOLDED]
    shows = "it" if len(findings) == 1 else "them"
    heading = f"{counted(len(findings), 'further finding')} (`-v` shows {shows} in full):"
    lines = [f"{indent}{heading}"]
    for finding in listed:
        place = _folded_place(finding, first, root)
        lines += wrapped(f"{place}: {headline(finding)}", f"{indent}  ", whole=[place])
    if more := len(findings) - len(listed):
        lines.append(f"{indent}  and {counted(more, 'more finding')}")
    return lines


def _folded_place(finding: Finding, first: Finding, root: Path) -> str:
    """Return the place of a finding in a list; the file of the first finding is not repeated."""
    if finding.location is None:
        return f"kernel {finding.kernel}" if finding.kernel else "ttools"
    if first.location is not None and first.location.file == finding.location.file:
        return f"line {finding.location.line}"
    return location_text(finding.location, root)


def finding_text(finding: Finding, root: Path, *, verbose: bool = True) -> str:
    """Return a finding as a block of lines; its message is wrapped.

    Args:
        root: Folder that displayed paths are relative to.
        verbose: If True, all details are shown, else as many as fit in a few lines.
    """
    location = f"kernel {finding.kernel}" if finding.kernel else "ttools"
    source: list[str] = []
    if finding.location is not None:
        location = location_text(finding.location, root)
        source = excerpt(finding.location).splitlines()
    # Editors and CI services find the place and the kind of a finding on one line.
    begin = f"{location}: {_kind(finding)}"
    lines = [*wrapped(f"{begin} {finding.message}", whole=[begin]), *source]
    most = None if verbose else _FINDING_LINES - _rows(lines)
    return "\n".join([*lines, *detail_lines(finding, root, most)])


@reporter_of(Finding)
def _notebook_parts(finding: Finding) -> Iterator[Part]:
    yield Code(finding_text(finding, Path.cwd()))


def headline(finding: Finding) -> str:
    """Return, e.g., `error[oob_load]: out-of-bounds load of 4 bytes from `x_ptr``."""
    return f"{_kind(finding)} {finding.message}"


def _kind(finding: Finding) -> str:
    return f"{finding.severity}[{finding.kind}]:"


def detail_lines(finding: Finding, root: Path, most: int | None = None) -> list[str]:
    """Return the lines after the source line: call stack, witness, argument and help.

    Args:
        root: Folder that displayed paths are relative to.
        most: Maximum number of lines; None for no limit. Configurations, calls, notes, related
            locations and their excerpts are left out as necessary.
    """
    for brevity in range(_LEAST_DETAIL + 1 if most is not None else 1):
        lines = list(_detail_lines(finding, root, brevity))
        if most is None or _rows(lines) <= most:
            break
    return lines


def _rows(lines: Iterable[str]) -> int:
    """Return the number of terminal rows that lines occupy."""
    return sum(max(1, -(-len(line) // WIDTH)) for line in lines)


#: Number of steps by which details can be left out.
_LEAST_DETAIL = 8


def _detail_lines(finding: Finding, root: Path, brevity: int) -> Iterator[str]:
    """Yield the details of a finding; the higher `brevity` is, the more details are left out."""
    callers = finding.location.callers if finding.location else ()
    stack = [f"called from {location_text(caller, root)}" for caller in callers]
    related = [related_lines(one, finding, root) for one in finding.related]
    if brevity >= 2:
        related = [lines[:1] for lines in related]
    arguments = argument_lines(finding)
    configs = config_lines(finding, 0 if brevity >= 1 else _CONFIGS_LISTED)
    first = [
        *_at_most(stack, 1 if brevity >= 4 else None, "call"),
        witness_text(finding),
        *_at_most(arguments, 1 if brevity >= 5 else None, "note"),
        *configs[: 1 if brevity >= 7 else None],
    ]
    yield from (f"  {line}" for line in first if line)
    for lines in related[: 1 if brevity >= 3 else None]:
        yield from lines
    if brevity >= 8:
        related = []
    last = [_extent_line(finding, root), _callers_line(finding, root), _help_line(finding)]
    if brevity >= 6:
        del last[1]
    yield from (f"  {line}" for line in last if line)


def _at_most(lines: Sequence[str], most: int | None, noun: str) -> list[str]:
    """Return the first lines, followed by the number of lines that only a verbose report has."""
    if most is None or len(lines) <= most:
        return list(lines)
    left = f"{counted(len(lines) - most, f'more {noun}')} with -v"
    return [*lines[: most - 1], f"{lines[most - 1]} ({left})"]


def location_text(location: SourceLocation, root: Path) -> str:
    """Return `file:line:column` without unknown parts; the column counts characters."""
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
        return f"{text} ({counted(tensor.storage_bytes, 'byte')})"
    offset = f" at element {tensor.element_offset:,}" if tensor.offset else ""
    return f"{text}{offset} of a storage of {counted(tensor.storage_bytes, 'byte')}"


def related_lines(related: Related, finding: Finding, root: Path) -> list[str]:
    """Return another location of the defect, with its source line unless this is already shown."""
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


def argument_lines(finding: Finding) -> list[str]:
    """Return the argument together with the first note, then each further note on its own line."""
    notes = list(finding.notes)
    if finding.argument is None:
        return notes
    return ["; ".join([argument_text(finding.argument), *notes[:1]]), *notes[1:]]


def config_lines(finding: Finding, listed: int = _CONFIGS_LISTED) -> list[str]:
    """Return the lines for an autotuned kernel, e.g. `config: BLOCK=128, num_warps=4`, else none.

    If several configurations have the defect, the configuration of the witness comes first.
    """
    texts = [config_text(config) for config in finding.configs if config]
    if not texts:
        return []
    others = texts[1:]
    lines = [f"config: {texts[0]}"]
    lines += [f"also with config: {text}" for text in others[:listed]]
    if left := others[listed:]:
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
    """Return, e.g., `24 lanes in 1 program are affected`; for scalars, count programs instead."""
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
    """Yield a table of the findings, and each finding in collapsed form."""
    listed = list(findings)
    if not listed:
        yield Text("no findings")
        return
    yield Table("", _COLUMNS, [_row(finding) for finding in listed])
    for group in by_cause(listed):
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in group))
        what = cause_text(group) if len(group) > 1 else kinds
        text = group_text(group, Path.cwd(), verbose=True)
        yield Code(text, summary=f"{group[0].kernel}: {what}")


def _row(finding: Finding) -> tuple[str, ...]:
    location = finding.location
    where = place_cells(location.file, location.line) if location else (finding.kernel, "")
    return (finding.severity, finding.check, *where, finding.message, affected_text(finding))
