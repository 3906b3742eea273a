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
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import Operation
from ttools.ir.dialects import OPERATIONS
from ttools.ir.dialects.traits import READS, WRITES
from ttools.ir.inlining import inline_calls
from ttools.ir.parser import parse_module


@dataclass(frozen=True)
class Site:
    """Where something is in the source, as well as it is known.

    Attributes:
        location: of the operation; None if not even the line is known.
        parameters: names of those that its pointers derive from; empty if that is unknown.
        is_compilers: whether the kernel's TTIR has no such operation at the line, so that the
            compiler has made the access for purposes of its own.
    """

    location: SourceLocation | None = None
    parameters: frozenset[str] = frozenset()
    is_compilers: bool = False


#: Operations that write through a descriptor.
_DESCRIPTOR_STORES = frozenset(
    name for name, op in OPERATIONS.items() if WRITES in op.traits and "desc" in op.operand_names
)


@dataclass(frozen=True)
class _Operation:
    """An operation; one that touches no memory has the access `""`."""

    name: str
    access: str
    location: SourceLocation
    parameters: frozenset[str]


def find_site(source: Path | None, access: str, file: str | None, line: int) -> Site:
    """The operation on memory at a line.

    Args:
        source: the kernel's TTIR, if there is one.
        access: `read`, `write` or `atomic`; `""` for any operation of the line.
        file: as the debug information names it.
    """
    if file is None or line <= 0:
        return Site()
    of_line = [op for op in _operations(source) if _is_at(op.location, file, line)]
    on_memory = [op for op in of_line if op.access]
    here = [op for op in on_memory if op.access == access] if access else on_memory or of_line
    if not here:
        known = bool(_operations(source))
        return Site(SourceLocation(file, line, 0), is_compilers=known and bool(access))
    parameters = frozenset[str]().union(*(op.parameters for op in here))
    locations = {op.location for op in here}
    if len(locations) == 1:
        return Site(locations.pop(), parameters)
    return Site(SourceLocation(here[0].location.file, line, 0), parameters)


def written_through_descriptors(source: Path | None) -> frozenset[str]:
    """Names of the parameters whose memory a kernel writes through tensor descriptors."""
    stores = (op for op in _operations(source) if op.name in _DESCRIPTOR_STORES)
    return frozenset[str]().union(*(op.parameters for op in stores))


def _is_at(location: SourceLocation, file: str, line: int) -> bool:
    """The debug information has a file's folder apart, and may join them in other ways."""
    return location.line == line and Path(location.file).name == Path(file).name


@lru_cache(maxsize=64)
def _operations(source: Path | None) -> tuple[_Operation, ...]:
    """The operations of a kernel; none if it cannot be read."""
    try:
        return () if source is None else tuple(_read(source))
    except (OSError, TtoolsError):  # a dialect that only GPUs have: the line must do
        return ()


def _read(source: Path) -> Iterator[_Operation]:
    module = parse_module(source.read_text("utf-8"))
    inline_calls(module)
    kernel = module.kernel
    provenance = Provenance(kernel)
    names = [value.name for value in kernel.regions[0].entry.arguments]
    for op in kernel.walk():
        if op.location is None:
            continue
        access = _access(op)
        found = provenance.of(op.address) if access else {None}
        known = frozenset(names[index] for index in found if index is not None)
        yield _Operation(
            op.name,
            access,
            op.location,
            frozenset() if None in found else known,
        )


def _access(op: Operation) -> str:
    """What a GPU does for an operation on memory; empty for any other."""
    if op.has(READS) and op.has(WRITES):
        return "atomic"
    if op.has(READS):
        return "read"
    return "write" if op.has(WRITES) else ""
