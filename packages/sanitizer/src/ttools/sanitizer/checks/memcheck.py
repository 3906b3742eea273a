"""memcheck: findings from the lanes that native code kept from memory, or saw leave a view.

Owns the words: what was accessed, how far off it was, what would help. Which lanes fail is judged
in `ttools.interpreter`'s native code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from ttools.core.findings import Argument, Finding, Related, Severity
from ttools.core.location import SourceLocation
from ttools.interpreter.emit.module import ProbeSite
from ttools.interpreter.monitor import Count, Witness
from ttools.interpreter.region import Region
from ttools.sanitizer.analysis.index_loads import IndexLoad
from ttools.sanitizer.checks.bounds_help import Outside, advice
from ttools.sanitizer.memory.addresses import Addresses
from ttools.sanitizer.subject import Subject, lane_indices

_ACCESS = {"load": "load", "store": "store", "atomic": "atomic access"}
_HELP = {
    "view": "use the strides and the extent of the tensor that is passed",
    "misaligned": "the address must be a multiple of {size} bytes",
    "freed": "keep the tensor alive until the kernel has run",
    "unknown": "fill the table with the data_ptr() of tensors that are alive",
    "near": "mask the access, or correct the length that the pointer is used with",
}


def memory_findings(
    counts: Sequence[Count],
    subject: Subject,
    regions: Sequence[Region],
    addresses: Addresses,
    view_bounds: Literal["error", "warning", "off"],
    table_of: Callable[[SourceLocation | None], int],
    index_of: Callable[[SourceLocation | None], IndexLoad | None],
) -> Iterator[Finding]:
    """The findings of one launch.

    Args:
        counts: what the launch's monitor counted.
        subject: the launch.
        regions: what each parameter may access.
        addresses: the memory known to the run.
        view_bounds: severity of leaving a view inside its storage.
        table_of: the parameter that an access at some place loads its pointer from; -1 if unknown.
        index_of: the load of numbers that the address of an access at some place is made of.
    """
    for count in counts:
        if count.witness.site.kind == "check" or count.witness.test == "overwritten":
            continue
        if count.witness.test == "view" and view_bounds == "off":
            continue
        teller = _Teller(count, subject, regions, addresses)
        if teller.region is None:
            teller.table = table_of(count.witness.site.location)
        teller.index = index_of(count.witness.site.location)
        yield teller.finding("warning" if view_bounds == "off" else view_bounds)


class _Teller:
    """Puts one count into words."""

    def __init__(
        self, count: Count, subject: Subject, regions: Sequence[Region], addresses: Addresses
    ) -> None:
        self.count, self.subject, self.addresses = count, subject, addresses
        self.witness: Witness = count.witness
        self.site: ProbeSite = count.witness.site
        known = 0 <= self.site.parameter < len(regions)
        self.region = regions[self.site.parameter] if known else None
        self.table = -1
        self.index: IndexLoad | None = None

    def finding(self, view: Severity) -> Finding:
        kind, message, notes, help_line = self._judgement()
        argument = self.subject.argument(self.site.parameter)
        where = f" from `{argument.name}`" if argument and self.site.kind == "load" else ""
        if argument and self.site.kind != "load":
            where = f" to `{argument.name}`"
        if argument is None and self.site.choices:
            argument, where = self._one_of_several()
        if argument is None and (argument := self.subject.argument(self.table)) is not None:
            where = f" from `{argument.name}`"  # the pointer
        return Finding(
            kind=kind,
            check="memcheck",
            severity=view if kind == "view_oob" else "error",
            message=message + where,
            kernel=self.subject.kernel,
            argument=argument,
            location=self.site.location,
            program=self.subject.program(self.witness.program),
            lane=lane_indices(self.witness.lane, self.site.shape),
            shape=self.site.shape,
            iteration=self.witness.turns,
            variables=self._variables(),
            notes=notes,
            count=self.count.lanes,
            programs=self.count.programs,
            related=self._related(),
            launch=self.subject.host_line,
            config=self.subject.config,
            help=help_line,
        )

    def _related(self) -> tuple[Related, ...]:
        """Where an index comes from, if it is loaded and the access does not say so itself."""
        if self.index is None or self.index.location == self.site.location:
            return ()
        table = self._index_table()
        source = f" from `{table}`" if table else ""
        what = "a number that the address is made of"
        if self.table >= 0 and self.table == self.index.parameter:
            what = "the pointer"
        message = f"{what} is loaded here{source}"
        return (Related(message=message, location=self.index.location),)

    def _index_table(self) -> str | None:
        argument = None if self.index is None else self.subject.argument(self.index.parameter)
        return argument.name if argument else None

    def _one_of_several(self) -> tuple[Argument | None, str]:
        """The argument that the access misses, where its pointer is one of several; and words."""
        choices = self.site.choices
        names = ", ".join(
            f"`{self.subject.names[n]}`" for n in choices if n < len(self.subject.names)
        )
        nearest = self.addresses.nearest(self.witness.address, choices)
        preposition = "from" if self.site.kind == "load" else "to"
        argument = None if nearest is None else self.subject.argument(nearest)
        return argument, f" {preposition} one of {names}" if argument else ""

    def _judgement(self) -> tuple[str, str, tuple[str, ...], str]:
        """Kind, message, notes and help."""
        access, size, test = _ACCESS[self.site.kind], self.site.size, self.witness.test
        noun = f"{access} of {size} byte{'s' if size > 1 else ''}"
        if test == "misaligned":
            address = f"address {self.witness.address:#x} is no multiple of {size}"
            return (
                "misaligned",
                f"misaligned {noun}",
                (address,),
                _HELP["misaligned"].format(size=size),
            )
        if test == "view":
            beside = self._beside_view()
            return "view_oob", f"{noun} outside the elements passed", (beside,), _HELP["view"]
        if self.region is None:
            return self._unknown_address(noun)
        kind = f"oob_{self.site.kind}"
        notes: tuple[str, ...] = tuple(filter(None, (self._distance(), self._neighbour())))
        return kind, f"out-of-bounds {noun}", notes, self._advice()

    def _unknown_address(self, noun: str) -> tuple[str, str, tuple[str, ...], str]:
        address = self.witness.address
        freed = self.addresses.freed(address)
        if freed is not None:
            notes = (f"address {address:#x} was in {freed}, which is freed",)
            return "use_after_free", f"{noun} of freed memory by a pointer", notes, _HELP["freed"]
        near = self.addresses.near(address)
        place = near or "belongs to no tensor that this run has seen"
        notes = (f"address {address:#x} {place}",)
        kind = f"oob_{self.site.kind}"
        help_line = self._advice() if self.site.choices else _HELP["near" if near else "unknown"]
        return kind, f"out-of-bounds {noun} by a computed pointer", notes, help_line

    def _advice(self) -> str:
        return advice(
            Outside(
                site=self.site,
                address=self.witness.address,
                values=self.witness.values,
                region=self.region,
                argument=self.subject.argument(self.site.parameter),
                table=self._index_table(),
            )
        )

    def _distance(self) -> str:
        assert self.region is not None
        start, end = self.region.storage
        address, size = self.witness.address, self.site.size
        if address == end:
            return "the access begins at its end"
        if address > end:
            return f"the access is {_bytes(address - end)} past its end"
        if address + size > end > address:
            return f"the access straddles its end by {_bytes(address + size - end)}"
        return f"the access is {_bytes(start - address)} before its beginning"

    def _neighbour(self) -> str:
        """Whose memory it would have been."""
        assert self.region is not None
        other = self.addresses.owner(self.witness.address)
        if other is None or other == self.site.parameter:
            return ""
        return f"it would have landed in `{self.subject.names[other]}`"

    def _beside_view(self) -> str:
        assert self.region is not None
        low, high = self.region.view
        address = self.witness.address
        if address == high:
            return "the access begins right after the last of them"
        if address > high:
            return f"the access is {_bytes(address - high)} past the last of them"
        if address < low:
            return f"the access is {_bytes(low - address)} before the first of them"
        return f"the access falls between them, {_bytes(address - low)} after the first"

    def _mask(self) -> tuple[tuple[str, str], ...]:
        return () if self.site.masked else (("mask", "none"),)

    def _variables(self) -> tuple[tuple[str, str], ...]:
        return (*self.subject.variables(self.witness.values), *self._mask())


def _bytes(number: int) -> str:
    return f"{number:,} byte{'' if number == 1 else 's'}"
