"""A lock of what compiled kernels cost: a change that makes them dearer is seen without a GPU.

An entry is a kernel as it was specialised, for one target, by one version of Triton: registers,
spills, shared memory, instructions, accesses, and the instructions of each line by the line's text,
which stays the same when lines above it change. Where launches of the kernel were counted, their
bytes, operations and sectors are added, and the time that all of them are projected to take. Owns
the file's format; what is compared with what is `lock_check.py`'s.
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
#: Microseconds of all launches of a specialisation. Where it is known and has a limit, it decides
#: alone: on histories of libraries the others are worse at telling what is slower.
PROJECTED = "projected time"
#: By which share of the locked value a figure may become worse. All can be changed in
#: the file. What no limit is for is kept for the reader.
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
    """What launches of a kernel do.

    Attributes:
        figures: by name, see `LIMITS`.
        lines: what each line has of a figure, by the figure's name.
    """

    figures: Mapping[str, float]
    lines: Mapping[str, Mapping[SourceLocation, float]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a compiled kernel cost.

    Attributes:
        triton: the version that compiled it.
        parameters: how it was specialised.
        figures: by name, see `LIMITS`.
        lines: instructions by the text of the source line.
        costs: the same of figures of launches, by the figure's name.
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
        """What each line has of a figure: of static ones, its instructions."""
        return self.costs.get(figure, self.lines)

    @property
    def key(self) -> tuple[str, ...]:
        """What the same kernel has in another compilation, by any Triton."""
        return (*self.place, str(self.parameters), str(self.options))

    @property
    def place(self) -> tuple[str, str]:
        """What all specialisations of a kernel for a target have."""
        return (self.kernel, self.target)


@dataclass(frozen=True)
class Lock:
    """A file of entries, and the limits that it sets."""

    schema: str
    limits: dict[str, float]
    kernels: list[Entry]


def entry_of(inspection: Inspection, costs: RunCosts | None = None) -> Entry:
    """The entry of a compiled kernel, and of a launch of it where one was counted."""
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
        costs={} if costs is None else {n: by_text(own) for n, own in costs.lines.items()},
    )


def instructions_by_line(inspection: Inspection) -> Counter[SourceLocation | None]:
    """Instructions of the machine code by source line; None for those that belong to none."""
    stage = inspection.compilation.stages[-1]
    listing = annotate(stage, inspection.compilation.text(stage))
    return Counter(line.source for line in listing if _is_code(stage, line.text))


def _is_code(stage: str, text: str) -> bool:
    """Whether a line of a listing is an instruction; those that only fill up are none."""
    if stage == "sass":
        address, _, code = text.partition("*/")
        return "/*" in address and code.split()[:1] not in ([], ["NOP"])
    words = text.split()
    return bool(words) and text[0] in " \t" and words[0][0].isalpha() and words[0] != "s_nop"


def by_text(lines: Mapping[Any, _Number]) -> dict[str, _Number]:
    """Sums over lines of equal text."""
    found: dict[str, _Number] = {}
    for location, number in lines.items():
        text = text_of(location)
        found[text] = found[text] + number if text in found else number
    return dict(sorted(found.items()))


def text_of(location: SourceLocation | None) -> str:
    """What a line says, without its indentation; nothing for none."""
    return source_line(location.file, location.line).strip() if location else ""


def read_lock(path: Path) -> Lock:
    """The lock in a file.

    Raises:
        UsageError: it cannot be read, is no lock, or sets a limit for what is not recorded.
    """
    lock = read_json_document(path, SCHEMA, "perf lock", Lock)
    unknown = sorted(set(lock.limits) - set(LIMITS))
    if unknown:
        raise UsageError(f"{path}: there is no figure `{unknown[0]}` to limit")
    return lock


def write_lock(path: Path, entries: Iterable[Entry]) -> int:
    """Puts entries into a file, in the place of those of the same kernels; returns how many it has.

    Where launches of a kernel were projected, no other specialisations of it stay that were: the
    script that made them makes others now.

    Raises:
        UsageError: the file cannot be written, or is something else.
    """
    lock = read_lock(path) if path.exists() else Lock(SCHEMA, dict(LIMITS), [])
    entries = list(entries)
    projected = {(*each.place, each.triton) for each in entries if PROJECTED in each.figures}
    kept = {
        (*each.key, each.triton): each
        for each in lock.kernels
        if PROJECTED not in each.figures or (*each.place, each.triton) not in projected
    }
    kept |= {(*each.key, each.triton): each for each in entries}
    document = Lock(SCHEMA, lock.limits, [kept[key] for key in sorted(kept)])
    with file_errors(f"write `{path}`"):
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    return len(kept)
