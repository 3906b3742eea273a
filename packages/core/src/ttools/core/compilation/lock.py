"""Performance baselines: files with static costs of kernels, to detect regressions without a GPU.

An entry describes a kernel with one specialisation, for one target, compiled by one version of
Triton: registers, spills, shared memory, instructions, accesses, and instructions per source line.
Source lines are identified by their text, so that changes of other lines have no effect. If
launches of the kernel were counted, the entry also contains their bytes, operations and sectors,
and the sum of their projected times. `lock_check.py` does the comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.inspection import Inspection
from ttools.core.errors import UsageError, file_errors
from ttools.core.json_document import read_json_document
from ttools.core.location import SourceLocation, source_line
from ttools.core.triton_versions.version import installed_triton

SCHEMA = "ttools.perf-lock/1"
#: Total projected time of all launches of a specialisation, in microseconds. If this figure is
#: known and has a limit, no other figure is checked: in the commit history of a library, the other
#: figures were worse predictors of regressions.
PROJECTED = "projected time"
#: The allowed increase (or decrease, where smaller is worse) of each figure, relative to the stored
#: value. The file can override them. Figures without a limit are stored for information.
LIMITS: dict[str, float] = {
    PROJECTED: 0.03,
    "registers": 0.1,
    "spilled bytes": 0.0,
    "spill instructions": 0.0,
    "shared memory": 0.05,
    "instructions": 0.05,
    "narrow accesses": 0.0,
    "dots without matrix units": 0.0,
    "occupancy": 0.0,
    "matrix instructions": 0.1,
    "bytes": 0.0,
    "unique bytes": 0.0,
    "flops": 0.0,
    "sectors per request": 0.05,
}
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, kw_only=True)
class RunCosts:
    """Costs of a kernel's launches.

    Attributes:
        figures: Values by name, see `LIMITS`.
        lines: For each figure, the amount that each source line contributes.
    """

    figures: Mapping[str, float]
    lines: Mapping[str, Mapping[SourceLocation, float]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Costs of a compiled kernel.

    Attributes:
        triton: Version of Triton that compiled it.
        parameters: Specialisation of each parameter.
        figures: Values by name, see `LIMITS`.
        lines: Number of instructions for each source line, by the text of the line.
        costs: For each figure that describes launches, the amount for each source line, by the text
            of the line.
    """

    kernel: str
    target: str
    triton: str
    parameters: dict[str, str]
    options: dict[str, str]
    figures: dict[str, float]
    lines: dict[str, int] = field(default_factory=dict)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)

    def by_text(self, figure: str) -> Mapping[str, float]:
        """Return each line's contribution to a figure; for static figures, its instructions."""
        return self.costs.get(figure, self.lines)

    @property
    def key(self) -> tuple[str, ...]:
        """Return a key of the specialisation that does not depend on the version of Triton."""
        return (*self.place, str(self.parameters), str(self.options))

    @property
    def place(self) -> tuple[str, str]:
        """Return the kernel and the target, which all specialisations of the kernel share."""
        return (self.kernel, self.target)


@dataclass(frozen=True)
class Lock:
    """The content of the file: entries and limits."""

    schema: str
    limits: dict[str, float]
    kernels: list[Entry]


def entry_of(inspection: Inspection, costs: RunCosts | None = None) -> Entry:
    """Return the entry of a compiled kernel, with costs of launches if they were counted."""
    figures = {name: float(n) for name, n in inspection.figures().items() if n is not None}
    if costs is not None:
        figures |= costs.figures
    by_line = instructions_by_line(inspection)
    figures["instructions"] = float(by_line.total())
    return Entry(
        kernel=inspection.source.name,
        target=inspection.target.name,
        triton=installed_triton(),
        parameters=inspection.source.parameters(),
        options={name: str(value) for name, value in sorted(inspection.source.options.items())},
        figures=figures,
        lines=by_text(by_line),
        costs={} if costs is None else {n: by_text(shares) for n, shares in costs.lines.items()},
    )


def instructions_by_line(inspection: Inspection) -> Counter[SourceLocation | None]:
    """Count machine instructions by source line; those without a line are counted under None."""
    stage = inspection.compilation.stages[-1]
    listing = annotate(stage, inspection.compilation.text(stage))
    return Counter(line.source for line in listing if _is_code(stage, line.text))


def _is_code(stage: str, text: str) -> bool:
    """Return whether a line of a listing contains an instruction that is not padding."""
    if stage == "sass":
        address, _, code = text.partition("*/")
        return "/*" in address and code.split()[:1] not in ([], ["NOP"])
    words = text.split()
    return bool(words) and text[0] in " \t" and words[0][0].isalpha() and words[0] != "s_nop"


def by_text(lines: Mapping[Any, _Number]) -> dict[str, _Number]:
    """Sum values over lines with equal text."""
    sums: dict[str, _Number] = {}
    for location, number in lines.items():
        text = text_of(location)
        sums[text] = sums[text] + number if text in sums else number
    return dict(sorted(sums.items()))


def text_of(location: SourceLocation | None) -> str:
    """Return the text of a source line without indentation; empty for None."""
    return source_line(location.file, location.line).strip() if location else ""


def read_lock(path: Path) -> Lock:
    """Read a performance baseline.

    Raises:
        UsageError: The file is unreadable, is not a performance baseline, or has a limit for an
            unknown figure.
    """
    lock = read_json_document(path, SCHEMA, "performance baseline", Lock)
    unknown = sorted(set(lock.limits) - set(LIMITS))
    if unknown:
        raise UsageError(
            f"{path}: `limits` names `{unknown[0]}`, which is not a figure; choose from "
            f"{', '.join(LIMITS)}"
        )
    return lock


def write_lock(path: Path, entries: Iterable[Entry]) -> int:
    """Add entries to a file, replacing those of the same kernels; return the number of entries.

    If the new entries of a kernel have projected times, all older entries of that kernel with
    projected times are removed, because the script may launch other specialisations now.

    Raises:
        UsageError: The file cannot be written, or is not a performance baseline.
    """
    lock = read_lock(path) if path.exists() else Lock(SCHEMA, dict(LIMITS), [])
    entries = list(entries)
    projected = {(*entry.place, entry.triton) for entry in entries if PROJECTED in entry.figures}
    kept = {
        (*entry.key, entry.triton): entry
        for entry in lock.kernels
        if PROJECTED not in entry.figures or (*entry.place, entry.triton) not in projected
    }
    kept |= {(*entry.key, entry.triton): entry for entry in entries}
    document = Lock(SCHEMA, lock.limits, [kept[key] for key in sorted(kept)])
    with file_errors(f"write `{path}`"):
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    return len(kept)
