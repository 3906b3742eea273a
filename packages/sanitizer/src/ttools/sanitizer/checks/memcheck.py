"""memcheck: accesses outside the memory that their pointer derives from, misaligned, or dropped.

Owns the words: what was accessed, how far off it was, what would help. Which lanes fail is decided
in `ttools.interpreter`'s native code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from ttools.core.findings.findings import Argument, Finding, Related
from ttools.core.location import SourceLocation, users_place
from ttools.core.reports.report import counted
from ttools.interpreter.analysis.unused_loads import commented_locations
from ttools.interpreter.runtime.monitor import Count
from ttools.sanitizer.analysis.index_loads import index_loads
from ttools.sanitizer.analysis.pointer_tables import pointer_tables
from ttools.sanitizer.checks.bounds_help import Outside, bounds_help, distance
from ttools.sanitizer.checks.check import Check, Kind, Kinds

_ACCESS = {"load": "load", "store": "store", "atomic": "atomic access"}
_HELP_UNKNOWN = "fill the table with the data_ptr() of tensors that are alive"
_HELP_NEAR = "mask the access, or correct the length that the pointer is used with"


class Memcheck(Check):
    """Bounds and alignment of every access; accesses that fail are not made."""

    name = "memcheck"
    aliases = ("asan",)
    observes = frozenset({"views"})
    kinds: ClassVar[Kinds] = {
        "oob_load": Kind(
            severity="error",
            meaning="A load reads outside the storage its pointer derives from, also when it lands "
            "in another tensor.",
            help="mask the load, or compare with the bound of this tensor",
        ),
        "oob_store": Kind(
            severity="error",
            meaning="A store writes outside the storage its pointer derives from.",
            help="mask the store, or compare with the bound of this tensor",
        ),
        "oob_atomic": Kind(
            severity="error",
            meaning="An atomic operation leaves the storage its pointer derives from.",
            help="mask the access, or compare with the bound of this tensor",
        ),
        "view_oob": Kind(
            severity="warning",
            meaning="An access stays in the storage but leaves the elements of the view passed: a "
            "gap between rows, a wrong stride, a neighbouring slice.",
            help="use the strides and the extent of the tensor that is passed",
        ),
        "misaligned": Kind(
            severity="error",
            meaning="An address is not a multiple of the size of the element accessed.",
            help="the address must be a multiple of the access's size",
        ),
        "use_after_free": Kind(
            severity="error",
            meaning="An access reaches a storage that was freed before the launch.",
            help="keep the tensor alive until the kernel has run",
        ),
        "unused_load": Kind(
            severity="note",
            meaning="Triton removed a dead load, on a GPU too, so it was not checked.",
            help="remove it, or use its value",
        ),
    }

    def failures(self, counts: Sequence[Count]) -> Iterator[Finding]:
        """Accesses that failed a test."""
        view_bounds = self.checked.options.view_bounds
        for count in counts:
            test = count.witness.test
            if count.witness.site.kind == "check" or test == "overwritten":
                continue
            if test != "view" or view_bounds != "off":
                yield _FailedAccess(self, count).finding()

    def remarks(self) -> Iterable[Finding]:
        """Dead loads, which no check has seen."""
        kernel = self.checked.kernel
        found = kernel.remember(commented_locations, lambda: commented_locations(kernel.ttir))
        return map(self._dead_load, found) if found else ()

    def _dead_load(self, location: SourceLocation) -> Finding:
        return self.finding(
            "unused_load",
            "dead load removed by Triton; not checked",
            location=users_place(location) or location,
            count=0,
        )


class _FailedAccess:
    """The finding of an access whose lanes failed a test."""

    def __init__(self, check: Memcheck, count: Count) -> None:
        checked = check.checked
        self.check, self.count, self.witness = check, count, count.witness
        self.subject, self.addresses = checked.subject, checked.addresses
        self.site, regions = count.witness.site, checked.regions
        known = 0 <= self.site.parameter < len(regions)
        self.region = regions[self.site.parameter] if known else None
        location, self.table = self.site.location, -1
        if self.region is None:
            self.table = checked.kernel.at(pointer_tables, location, -1)
        self.index = checked.kernel.at(index_loads, location, None)

    def finding(self) -> Finding:
        kind, message, notes, help_line = self._classify()
        argument = self.subject.argument(self.site.parameter)
        where = f" {self._preposition} `{argument.name}`" if argument else ""
        if argument is None and self.site.choices:
            argument, where = self._one_of_several()
        if argument is None and (argument := self.subject.argument(self.table)) is not None:
            where = f" from `{argument.name}`"  # the pointer
        mask = () if self.site.masked else (("mask", "none"),)
        fields: dict[str, Any] = {}
        if kind == "view_oob":
            fields["severity"] = self.check.checked.options.view_bounds
        if help_line is not None:
            fields["help"] = help_line
        return self.check.at_lanes(
            self.count,
            kind,
            message + where,
            argument=argument,
            variables=self.subject.variables(self.witness.values) + mask,
            notes=notes,
            related=self._related(),
            **fields,
        )

    @property
    def _preposition(self) -> str:
        return "from" if self.site.kind == "load" else "to"

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
        argument = None if nearest is None else self.subject.argument(nearest)
        return argument, f" {self._preposition} one of {names}" if argument else ""

    def _classify(self) -> tuple[str, str, tuple[str, ...], str | None]:
        """Kind, message, notes, and help unless it is that of the kind."""
        access, size, test = _ACCESS[self.site.kind], self.site.size, self.witness.test
        noun = f"{access} of {counted(size, 'byte')}"
        if test == "misaligned":
            address = f"address {self.witness.address:#x} is not a multiple of {size}"
            return "misaligned", f"misaligned {noun}", (address,), None
        if test == "view":
            return "view_oob", f"{noun} outside the elements passed", (self._beside_view(),), None
        if self.region is None:
            return self._unknown_address(noun)
        kind = f"oob_{self.site.kind}"
        outside = distance(self.witness.address, size, self.region.storage)
        notes = tuple(filter(None, (outside, self._neighbour())))
        return kind, f"out-of-bounds {noun}", notes, self._help()

    def _unknown_address(self, noun: str) -> tuple[str, str, tuple[str, ...], str | None]:
        address = self.witness.address
        freed = self.addresses.freed(address)
        if freed is not None:
            notes = (f"address {address:#x} was in {freed}, which is freed",)
            return "use_after_free", f"{noun} of freed memory by a pointer", notes, None
        near = self.addresses.near(address)
        notes = (f"address {address:#x} {near or 'belongs to no tensor that this run has seen'}",)
        help_line = _HELP_NEAR if near else _HELP_UNKNOWN
        kind, message = f"oob_{self.site.kind}", f"out-of-bounds {noun} by a computed pointer"
        return kind, message, notes, self._help() if self.site.choices else help_line

    def _help(self) -> str:
        return bounds_help(
            Outside(
                site=self.site,
                address=self.witness.address,
                values=self.witness.values,
                region=self.region,
                argument=self.subject.argument(self.site.parameter),
                table=self._index_table(),
            )
        )

    def _neighbour(self) -> str:
        """Whose memory it would have been."""
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
            return f"the access is {counted(address - high, 'byte')} past the last of them"
        if address < low:
            return f"the access is {counted(low - address, 'byte')} before the first of them"
        return f"the access falls between them, {counted(address - low, 'byte')} after the first"
