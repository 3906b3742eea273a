"""Converts the errors of a GPU tool to findings.

Errors at the same location, through the same argument, become one finding with a count and the
first error as its example. The message and the kind of the finding follow from the tool and the
text of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ttools.core.findings.findings import Finding, Related, Severity
from ttools.core.reports.report import counted
from ttools.core.spec import ArgumentSpec
from ttools.sanitizer.checks.bounds_help import distance
from ttools.sanitizer.checks.registry import CHECKS
from ttools.sanitizer.gpu.attribution import Attribution, argument_at
from ttools.sanitizer.gpu.instrumentation import TritonTool
from ttools.sanitizer.gpu.launch_log import LogEntry, holds, memory_of
from ttools.sanitizer.gpu.output import Coordinates, Record
from ttools.sanitizer.gpu.sites import Site, find_site, written_through_descriptors
from ttools.sanitizer.gpu.tools import GpuTool


class UnseenWrites:
    """The arguments that a run wrote with instructions that initcheck does not track.

    NVIDIA documents that tensormap instructions on global memory are not tracked. Triton uses such
    instructions for stores through tensor descriptors, so initcheck treats such memory as
    unwritten.

    Args:
        launches: Launches in the log of the run.
        folder: Folder of the run, which contains the TTIR of the kernels.
    """

    def __init__(self, launches: Sequence[LogEntry], folder: Path) -> None:
        self._written = [
            (launch.begin, argument)
            for launch in launches
            if launch.source is not None
            for argument in launch.spec.arguments
            if argument.name in written_through_descriptors(folder / launch.source)
        ]

    def hold(self, record: Record) -> bool:
        """Return whether an address may have been written through a descriptor before the error."""
        address = record.address
        return address is not None and any(
            begin <= record.position and holds(argument, address)
            for begin, argument in self._written
        )


def is_scratch(record: Record, launch: LogEntry | None, site: Site) -> bool:
    """Return whether an access was inserted by the compiler and is outside all arguments."""
    if launch is None or record.address is None or not site.is_inserted:
        return False
    return not any(holds(argument, record.address) for argument in launch.spec.arguments)


_NOUNS = {"read": "load", "write": "store", "atomic": "atomic access"}
_OOB = {"read": "oob_load", "write": "oob_store", "atomic": "oob_atomic"}


def gpu_findings(
    records: Sequence[Record],
    launches: Sequence[LogEntry],
    tool: GpuTool,
    folder: Path,
    only: Callable[[str], bool],
) -> Iterator[Finding]:
    """Yield the findings of one run of a tool, one finding for each location and argument.

    Args:
        records: Errors that the tool printed.
        launches: Launches in the log of the run.
        tool: The tool that printed the errors.
        folder: Folder of the run, which contains the TTIR of the kernels.
        only: Predicate on kernel names: findings of other kernels are left out.
    """
    index = Attribution(launches)
    unseen = UnseenWrites(launches, folder) if tool.name == "initcheck" else None
    groups: dict[tuple[object, ...], _Group] = {}
    for record in records:
        launch = index.of(record)
        site = _site(record, launch, folder)
        if unseen is not None and is_scratch(record, launch, site):
            continue
        finding = _finding(record, launch, site, tool, folder)
        if unseen is not None and unseen.hold(record):
            finding = _unsupported(finding)
        groups.setdefault(finding.site, _Group(finding)).add(record)
    for group in groups.values():
        finding = group.finding()
        if only(finding.kernel):
            yield finding


@dataclass
class _Group:
    """The errors of one location: the finding of the first error, and totals over all of them."""

    first: Finding
    count: int = 0
    blocks: set[Coordinates] = field(default_factory=set)

    def add(self, record: Record) -> None:
        self.count += sum(other.hazards for other in record.accesses) or 1
        if record.block is not None:
            self.blocks.add(record.block)

    def finding(self) -> Finding:
        return replace(self.first, count=self.count, programs=len(self.blocks))


def _site(record: Record, launch: LogEntry | None, folder: Path) -> Site:
    frame = record.frame
    if frame is None:
        return Site()
    # Any operation may use shared memory, for example to convert a layout, so the kind of the
    # access does not identify the operation.
    access = record.access if record.space == "global" else ""
    return find_site(_source(launch, folder), access, frame.file, frame.line)


def _source(launch: LogEntry | None, folder: Path) -> Path | None:
    return folder / launch.source if launch is not None and launch.source else None


def _unsupported(finding: Finding) -> Finding:
    """Return the finding as a warning: the memory may have been written through a descriptor."""
    return replace(
        finding,
        kind="unsupported",
        severity="warning",
        message=f"not checked: {finding.message}, or through a tensor descriptor, which "
        "compute-sanitizer does not track",
        help=None,
    )


def _finding(
    record: Record, launch: LogEntry | None, site: Site, tool: GpuTool, folder: Path
) -> Finding:
    """Return an error as a finding."""
    frame = record.frame
    argument = _argument(record, launch, site)
    kind, message = _kind(record, tool, _where(record, argument))
    kind_entry = CHECKS[tool.check].kinds.get(kind)
    check = tool.check
    if kind_entry is None:  # a mode of Triton reports kinds that belong to several checks
        check = next((name for name, entry in CHECKS.items() if kind in entry.kinds), check)
        kind_entry = CHECKS[check].kinds.get(kind)
    severity: Severity = "error" if kind_entry is None else kind_entry.severity
    if kind == "intra_program_race":
        severity = record.level  # compute-sanitizer knows which threads belong to one warp
    return Finding(
        kind=kind,
        check=check,
        severity=severity if launch else "warning",
        message=message,
        kernel=launch.spec.kernel if launch else (frame.function if frame else ""),
        argument=argument,
        location=site.location,
        program=_program(record, launch),
        variables=_numbers(launch),
        notes=tuple(_notes(record, launch, argument)),
        related=tuple(_related(record, _source(launch, folder))),
        launch=launch.spec.site.line if launch else None,
        config=launch.spec.site.config if launch else None,
        help=kind_entry.help if kind_entry else None,
    )


def _kind(record: Record, tool: GpuTool, where: str) -> tuple[str, str]:
    """Return the kind of an error, and its message.

    Args:
        record: The error to classify.
        tool: The tool that printed the error.
        where: Phrase that names the argument, as in ``from `x_ptr```; may be empty.
    """
    access = _NOUNS.get(record.access, "access")
    noun = f"{access} of {counted(record.size, 'byte')}" if record.size else access
    noun += (" of shared memory" if record.space == "shared" else "") + where
    if record.accesses:
        return "intra_program_race", _race_message(record)
    if isinstance(tool, TritonTool) and not record.access:
        return _kind_of_assertion(record.text, tool)
    if tool.name == "synccheck":
        return "divergent_barrier", f"misused barrier: {_plain(record.text)}"
    if tool.name == "initcheck" and record.access:
        return "uninit_read", f"{noun} that was never written"
    if tool.check == "memcheck" and record.access in _OOB:
        if record.problem.startswith("misaligned"):
            return "misaligned", f"misaligned {noun}"
        return _OOB[record.access], f"out-of-bounds {noun}"
    return "unsupported", f"{tool.title}: {record.text}{where}"


#: For each mode of Triton's instrumentation, the kind of an assertion by a phrase in its text.
_ASSERTED = {
    "consan": {
        "deadlock": "deadlock",
        "outstanding": "intra_program_race",
        "pending access": "intra_program_race",
        "barrier": "divergent_barrier",
    },
    "gsan": {"race detected": "race", "write-once memory": "uninit_read"},
    "iisan": {"aligned": "misaligned"},
}


def _kind_of_assertion(text: str, tool: TritonTool) -> tuple[str, str]:
    """Return the kind of a failed assertion, and its message.

    An assertion that the kernel itself makes has the kind `unsupported`.
    """
    words = _ASSERTED.get(tool.name, {})
    kind = next((kind for word, kind in words.items() if word in text.lower()), None)
    if kind is None:
        return "unsupported", f"a device assertion failed under {tool.name}: {text}"
    return kind, f"{text[:1].lower()}{text[1:]} ({tool.name})"


def _race_message(record: Record) -> str:
    kinds = sorted({access.access for access in record.accesses}, reverse=True)
    verbs = " and ".join(_NOUNS.get(kind, kind) + "s" for kind in kinds)
    return f"{verbs} of the same shared memory by several threads without a barrier between them"


def _plain(text: str) -> str:
    """Return the specific part of a text such as `Barrier error detected. Divergent thread(s)`."""
    text = text.removeprefix("Barrier error detected. ")
    return text[:1].lower() + text[1:]


def _where(record: Record, argument: ArgumentSpec | None) -> str:
    if argument is None:
        return ""
    return f" {'from' if record.access == 'read' else 'to'} `{argument.name}`"


def _argument(record: Record, launch: LogEntry | None, site: Site) -> ArgumentSpec | None:
    if launch is None or record.address is None or record.space != "global":
        return None
    return argument_at(launch.spec.arguments, record.address, site.parameters)


def _program(record: Record, launch: LogEntry | None) -> Coordinates | None:
    if record.block is None:
        return None
    x, y, z = record.block
    return x // (launch.spec.options.blocks if launch else 1), y, z


def _numbers(launch: LogEntry | None) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the integer arguments, from which masks are computed."""
    values = launch.spec.arguments if launch else ()
    return tuple(
        (argument.name, str(argument.value))
        for argument in values
        if isinstance(argument.value, int) and not isinstance(argument.value, bool)
    )


def _notes(record: Record, launch: LogEntry | None, argument: ArgumentSpec | None) -> Iterator[str]:
    if argument is not None and record.address is not None:
        yield _position(record.address, max(record.size, 1), argument)
    elif record.address is not None and record.space == "global" and launch is not None:
        yield f"address {record.address:#x} is not in any argument of the launch"
    if record.thread is not None:
        yield f"thread ({', '.join(map(str, record.thread))}) of the program"
    if launch is None:
        yield "the kernel was not launched by Triton in the process of the script"


def _position(address: int, size: int, argument: ArgumentSpec) -> str:
    """Describe the position of an address relative to an argument's storage."""
    start, end = memory_of(argument) or (0, None)
    if end is None:
        return f"address {address:#x}"
    return distance(address, size, (start, end)) or f"byte {address - start:,} of its storage"


def _related(record: Record, source: Path | None) -> Iterator[Related]:
    """Yield the other accesses of a race, one for each source line."""
    if not record.accesses:
        return
    own = (record.frame.file, record.frame.line) if record.frame else None
    lines: set[tuple[str | None, int]] = set()
    for access in record.accesses[1:]:
        key = (access.frame.file, access.frame.line)
        if key == own or key in lines:
            continue
        lines.add(key)
        message = f"the same memory is accessed here ({_NOUNS.get(access.access)})"
        yield Related(message=message, location=find_site(source, "", *key).location)
