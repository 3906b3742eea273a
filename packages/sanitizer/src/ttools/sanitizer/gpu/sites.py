"""Maps source lines of GPU instructions to operations of a kernel.

Tools report the file and the line of an instruction. The kernel's TTIR adds to this, for each line,
the operations on memory with their columns, the calls that they were inlined through, and the
parameters that their pointers derive from.
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
    """The source position of an instruction.

    Attributes:
        location: Location of the operation, or of the line if it has several operations; None if
            the line is also unknown.
        parameters: Names of the parameters from which its pointers derive; empty if unknown.
        is_inserted: True if the kernel's TTIR has no such access at the line, which means that the
            compiler inserted it, for example an access to scratch memory.
    """

    location: SourceLocation | None = None
    parameters: frozenset[str] = frozenset()
    is_inserted: bool = False


#: Operations that write through a descriptor.
_DESCRIPTOR_STORES = frozenset(
    name for name, op in OPERATIONS.items() if WRITES in op.traits and "desc" in op.operand_names
)


@dataclass(frozen=True)
class _Operation:
    """An operation of a kernel. Its `access` is `""` if it accesses no memory."""

    name: str
    access: str
    location: SourceLocation
    parameters: frozenset[str]


def find_site(source: Path | None, access: str, file: str | None, line: int) -> Site:
    """Return the site of the operation on memory at a line.

    Args:
        source: File of the kernel's TTIR, if there is one.
        access: Kind of the access: `read`, `write` or `atomic`; `""` for any operation.
        file: Path of the source file in the debug information.
        line: Line number from 1; 0 if unknown.
    """
    if file is None or line <= 0:
        return Site()
    of_line = [op for op in _operations(source) if _is_at(op.location, file, line)]
    on_memory = [op for op in of_line if op.access]
    candidates = [op for op in on_memory if op.access == access] if access else on_memory or of_line
    if not candidates:
        has_operations = bool(_operations(source))
        return Site(SourceLocation(file, line, 0), is_inserted=has_operations and bool(access))
    parameters = frozenset[str]().union(*(op.parameters for op in candidates))
    locations = {op.location for op in candidates}
    if len(locations) == 1:
        return Site(locations.pop(), parameters)
    return Site(SourceLocation(candidates[0].location.file, line, 0), parameters)


def written_through_descriptors(source: Path | None) -> frozenset[str]:
    """Return the names of parameters whose memory a kernel writes through tensor descriptors."""
    stores = (op for op in _operations(source) if op.name in _DESCRIPTOR_STORES)
    return frozenset[str]().union(*(op.parameters for op in stores))


def _is_at(location: SourceLocation, file: str, line: int) -> bool:
    """Return whether a location is at a line of a file.

    Only file names are compared, because debug information may combine folder and file differently.
    """
    return location.line == line and Path(location.file).name == Path(file).name


@lru_cache(maxsize=64)
def _operations(source: Path | None) -> tuple[_Operation, ...]:
    """Return the operations of a kernel; empty if its TTIR cannot be parsed."""
    try:
        return () if source is None else tuple(_read(source))
    except (OSError, TtoolsError):  # for example an operation of an unknown dialect
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
        roots = provenance.of(op.address) if access else {None}
        parameters = frozenset(names[index] for index in roots if index is not None)
        yield _Operation(
            op.name,
            access,
            op.location,
            frozenset() if None in roots else parameters,
        )


def _access(op: Operation) -> str:
    """Return the kind of the access that a GPU makes for an operation; empty if it makes none."""
    if op.has(READS) and op.has(WRITES):
        return "atomic"
    if op.has(READS):
        return "read"
    return "write" if op.has(WRITES) else ""
