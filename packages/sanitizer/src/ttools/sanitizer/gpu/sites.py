"""Which operation of a kernel an instruction of the GPU comes from, by its line.

compute-sanitizer knows files and lines; the kernel's TTIR knows for each line the operations on
memory, their columns, the calls they were inlined through and the parameters that their pointers
derive from. Must not know why it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation
from ttools.interpreter.emit.effects import Provenance
from ttools.interpreter.parser import parse_module

#: Operations on memory and what a GPU does for them; the address is the first operand.
_ACCESSES = {
    "tt.load": "read",
    "tt.descriptor_load": "read",
    "tt.descriptor_gather": "read",
    "tt.store": "write",
    "tt.descriptor_store": "write",
    "tt.descriptor_scatter": "write",
    "tt.descriptor_reduce": "atomic",
    "tt.atomic_rmw": "atomic",
    "tt.atomic_cas": "atomic",
}


@dataclass(frozen=True)
class Site:
    """Where something is in the source, as well as it is known.

    Attributes:
        location: of the operation; None if not even the line is known.
        parameters: names of those that its pointers derive from; empty if that is unknown.
    """

    location: SourceLocation | None = None
    parameters: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Operation:
    access: str
    location: SourceLocation
    parameters: frozenset[str]


def find_site(source: Path | None, access: str, file: str | None, line: int) -> Site:
    """The operation on memory at a line.

    Args:
        source: the kernel's TTIR, if there is one.
        access: `read`, `write` or `atomic`; `""` for any operation of the line.
        file: as the debug information names it.
        line: of that file.
    """
    if file is None or line <= 0:
        return Site()
    here = [op for op in _operations(source) if _is_at(op.location, file, line)]
    here = [op for op in here if op.access == access] or ([] if access else here)
    if not here:
        return Site(SourceLocation(file, line, 0))
    parameters = frozenset[str]().union(*(op.parameters for op in here))
    places = {op.location for op in here}
    if len(places) == 1:
        return Site(places.pop(), parameters)
    return Site(SourceLocation(here[0].location.file, line, 0), parameters)


def _is_at(location: SourceLocation, file: str, line: int) -> bool:
    """The debug information has a file's folder apart, and may join them in other ways."""
    return location.line == line and Path(location.file).name == Path(file).name


@lru_cache(maxsize=64)
def _operations(source: Path | None) -> tuple[_Operation, ...]:
    """The operations on memory of a kernel; none if it cannot be read."""
    try:
        return () if source is None else tuple(_read(source))
    except (OSError, TtoolsError):  # a dialect that only GPUs have: the line must do
        return ()


def _read(source: Path) -> Iterator[_Operation]:
    kernel = parse_module(source.read_text("utf-8")).kernel
    provenance = Provenance(kernel)
    names = [value.name for value in kernel.regions[0].entry.arguments]
    for op in kernel.walk():
        if op.name in _ACCESSES and op.location is not None:
            found = provenance.of(op.operands[0])
            known = frozenset(names[index] for index in found if index is not None)
            yield _Operation(
                _ACCESSES[op.name], op.location, known if None not in found else frozenset()
            )
