"""The check `memcheck`: accesses that are out of bounds, are misaligned, or were removed by Triton.

Native code of `ttools.interpreter` decides which lanes fail; this module describes what was
accessed, how far out of bounds it was, and how to correct it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ttools.core.findings.findings import Finding, Related, Severity
from ttools.core.gpus.launch_rules import (
    DESCRIPTOR_ALIGNMENT,
    DESCRIPTOR_DIMENSIONS,
    DESCRIPTOR_EXTENT,
    DESCRIPTOR_STRIDES_END,
    RULES,
)
from ttools.core.location import source_lines, user_location
from ttools.core.reports.report import counted
from ttools.core.spec import ArgumentSpec, TensorSpec
from ttools.core.syntax_trees import assigned_name
from ttools.interpreter.abi.region import Region
from ttools.interpreter.analysis.positions import position_of
from ttools.interpreter.analysis.unused_loads import UnusedLoad, commented_loads
from ttools.interpreter.analysis.unused_masks import UnusedMask, commented_masks
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.monitor import Count
from ttools.sanitizer.analysis.index_loads import index_loads
from ttools.sanitizer.analysis.pointer_tables import pointer_tables
from ttools.sanitizer.causes.failed_access import element_loaded, explain, scalars_of
from ttools.sanitizer.causes.local_masks import LocalMask, local_masks, masked_accesses
from ttools.sanitizer.causes.masks import Explained
from ttools.sanitizer.causes.swapped_limits import swapped_limits
from ttools.sanitizer.checks.bounds_help import Outside, bounds_help, distance, view_help
from ttools.sanitizer.checks.check import Check, Kind, Kinds, variables
from ttools.sanitizer.checks.overflow import integer_parameters, wrapped_accesses
from ttools.sanitizer.passes import descriptors
from ttools.sanitizer.passes.rewrites import Pass
from ttools.sanitizer.passes.truncated_division import remainder_names

_ACCESS = {"load": "load", "store": "store", "atomic": "atomic access"}
_HELP_UNKNOWN = "fill the table with the data_ptr() of tensors that are alive"
_HELP_POLL = 'poll with an atomic: `while tl.atomic_add(ptr, 0, sem="acquire") == 0`'
#: Maximum number of variables that a finding shows.
_MOST_SHOWN = 8
#: Maximum number of launches with different arguments whose masks are analysed without a failure.
_MOST_ANALYSED = 16
_HELP_NEAR = "mask the access, or correct the length that the pointer is used with"


_DESCRIPTORS = (Pass("memcheck", "descriptors", descriptors.apply),)


class Memcheck(Check):
    """Checks bounds and alignment of every access; accesses that fail are skipped."""

    name = "memcheck"
    page = "reference/findings.md#memory-bounds"
    data_hooks = frozenset[str]()
    seeks = "accesses out of bounds"
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
            severity="error",
            meaning="An access stays in the storage but leaves the elements of the view passed: a "
            "gap between rows, a wrong stride, a neighbouring slice; a warning for loads, and "
            "where the view is one element.",
            help="use the strides and the extent of the tensor that is passed",
        ),
        "misaligned": Kind(
            severity="error",
            meaning="An address is not a multiple of the size of the accessed element, or the base "
            "or a stride of a tensor descriptor is not a multiple of 16 bytes.",
            help="the address must be a multiple of the access's size",
        ),
        "bad_descriptor": Kind(
            severity="error",
            meaning="A tensor descriptor has a shape, strides or a block that a GPU does not "
            "support; a warning if rows that are stored do not end at a multiple of 16 bytes.",
            help="give the descriptor the tensor's own shape and strides",
        ),
        "use_after_free": Kind(
            severity="error",
            meaning="An access reaches a storage that was freed before the launch.",
            help="keep the tensor alive until the kernel has run",
        ),
        "shared_arguments": Kind(
            severity="note",
            meaning="Two arguments to which the kernel writes have elements in common.",
            help="pass tensors that share no elements, unless the kernel expects this",
        ),
        "unused_load": Kind(
            severity="note",
            meaning="Triton removed a load whose result is not used, or a loop that waits for such "
            "a load, so the load was not checked. On a GPU it is removed, too.",
            help="remove it, or use its value",
        ),
        "unused_mask": Kind(
            severity="note",
            meaning="A mask is assigned to a variable that the kernel never reads, and a later "
            "access of the same shape and indices has no mask, or one that does not depend on "
            "them.",
        ),
        "local_mask": Kind(
            severity="note",
            meaning="A mask compares an offset within a block with the bound of the whole tensor: "
            "the pointer has moved by a program id or in a loop, but the compared offset has not.",
            help="add the distance by which the pointer has moved to the compared offset, or "
            "subtract it from the bound",
        ),
        "unread_tensor": Kind(
            severity="note",
            meaning="A tensor is passed for a parameter through which the kernel neither reads nor "
            "writes memory.",
        ),
        "saved_tensor": Kind(
            severity="warning",
            meaning="A kernel stores to a tensor that autograd saved before, and a backward pass "
            "uses the new values without an error.",
            help="store to a new tensor, or call `ctx.mark_dirty` for the tensor in `forward`, so "
            "that torch raises an error",
        ),
    }

    def passes(self) -> Sequence[Pass]:
        """Return the pass for kernels that create descriptors."""
        return _DESCRIPTORS if self.checked.kernel.fact(descriptors.makes_descriptors) else ()

    def failures(self, counts: Sequence[Count]) -> Iterator[Finding]:
        """Yield findings for accesses that failed a test, and for descriptors."""
        yield from super().failures(counts)
        view_bounds, monitor = self.checked.options.view_bounds, self.checked.launch.monitor
        assert monitor is not None
        # The check `overflow` reports these accesses together with the overflow that causes them.
        wrapped = {id(access) for access, _ in wrapped_accesses(counts, monitor.sites)}
        for count in counts:
            test = count.witness.test
            if count.witness.site.kind == "check" or test == "overwritten" or id(count) in wrapped:
                continue
            if test != "view" or view_bounds != "off":
                yield _FailedAccess(self, count).finding()

    def remarks(self) -> Iterable[Finding]:
        """Yield findings for descriptors, shared arguments, and removed loads and masks."""
        silent = self.checked.kernel.remember(Memcheck, self._has_no_remarks)
        shared = self.checked.regions.remember(Memcheck, self._shared)
        local = self.local_masks(_MOST_ANALYSED)
        return () if silent and not shared and not local else self._remarks(shared, local)

    def _has_no_remarks(self) -> bool:
        launch = self.checked.launch
        return not (launch.kernel.plan.descriptors or self._dead_loads or self.unused_masks)

    def _shared(self) -> Sequence[tuple[int, int]]:
        return tuple(shared_arguments(self.checked.launch, self.checked.regions))

    def _remarks(
        self, shared: Sequence[tuple[int, int]], local: Sequence[LocalMask]
    ) -> Iterator[Finding]:
        yield from self._of_descriptors()
        yield from self._of_shared_arguments(shared)
        yield from map(self._dead_load, self._dead_loads)
        yield from map(self._unused_mask, self.unused_masks)
        yield from map(self._local_mask, local)

    def _of_descriptors(self) -> Iterator[Finding]:
        launch = self.checked.launch
        for slot, rank, block in launch.kernel.plan.descriptors:
            base, *extents = launch.arguments[slot : slot + 1 + 2 * rank]
            argument = self.checked.spec.argument(slot)
            described = TensorSpec(
                storage=int(base.data_ptr()),
                offset=0,
                shape=tuple(map(int, extents[:rank])),
                strides=tuple(map(int, extents[rank:])),
                dtype=str(base.dtype),
                itemsize=int(base.element_size()),
            )
            for kind, message, note, help_line in defects(described, block):
                name = f" (`{argument.name}`)" if argument else ""
                yield self.finding(
                    kind, message + name, argument=argument, notes=(note,), help=help_line, count=0
                )
            note = end_of_rows(described)
            if note and slot in launch.kernel.variants.effects.written:
                yield self.finding(
                    "bad_descriptor",
                    descriptors.END_OF_ROWS + (f" (`{argument.name}`)" if argument else ""),
                    argument=argument,
                    notes=(note,),
                    help=descriptors.HELP_END_OF_ROWS,
                    severity="warning",
                    count=0,
                )

    def _of_shared_arguments(self, shared: Sequence[tuple[int, int]]) -> Iterator[Finding]:
        for one, other in shared:
            first, second = (self.checked.spec.argument(index) for index in (one, other))
            assert first is not None
            assert second is not None
            yield self.finding(
                "shared_arguments",
                f"`{first.name}` and `{second.name}` are both written and share memory",
                argument=first,
                count=0,
            )

    @property
    def _dead_loads(self) -> Sequence[UnusedLoad]:
        kernel = self.checked.kernel
        return kernel.remember(commented_loads, lambda: commented_loads(kernel.ttir))

    @property
    def unused_masks(self) -> Sequence[UnusedMask]:
        kernel = self.checked.kernel
        return kernel.remember(commented_masks, lambda: commented_masks(kernel.ttir))

    def _unused_mask(self, mask: UnusedMask) -> Finding:
        lacks = "has a mask that does not depend on its indices" if mask.beside else "has no mask"
        remedy = (
            f"combine `{mask.name}` with the mask of"
            if mask.beside
            else f"pass `mask={mask.name}` to"
        )
        return self.finding(
            "unused_mask",
            f"mask `{mask.name}` is never used, and the {mask.kind} in line {mask.access.line} "
            + lacks,
            location=mask.location,
            related=(Related(message=f"this {mask.kind} {lacks}", location=mask.access),),
            help=f"{remedy} the {mask.kind}, or remove the variable",
            count=0,
        )

    def local_masks(self, most_launches: float = inf) -> Sequence[LocalMask]:
        """Return the masks of the launch that ignore a part of the address.

        Args:
            most_launches: Maximum number of launches of the kernel, with different arguments, that
                are analysed.
        """
        kernel, launch = self.checked.kernel, self.checked.launch
        accesses = kernel.fact(masked_accesses)
        if not accesses:
            return ()
        by_launch: dict[object, Sequence[LocalMask]] = kernel.remember(LocalMask, dict)
        raw = launch.raw_parameters
        key = (*launch.grid, *[raw[n] for n, _ in kernel.fact(integer_parameters)])
        if key not in by_launch and len(by_launch) < most_launches:
            grid = tuple(map(int, launch.grid))
            by_launch[key] = local_masks(kernel.module, accesses, grid, scalars_of(self.checked))
        return by_launch.get(key, ())

    def _local_mask(self, mask: LocalMask) -> Finding:
        related = Related(message=f"the mask of this {mask.kind}", location=mask.access)
        return self.finding(
            "local_mask", mask.text, location=mask.location, related=(related,), count=0
        )

    def _dead_load(self, load: UnusedLoad) -> Finding:
        message, help_line = "dead load removed by Triton; not checked", dict[str, str]()
        if load.waits:
            message = (
                "this loop does not wait: Triton removes it, because plain loads need not see "
                "changes by other programs"
            )
            help_line = {"help": _HELP_POLL}
        return self.finding(
            "unused_load",
            message,
            location=user_location(load.location) or load.location,
            count=0,
            **help_line,
        )


class _FailedAccess:
    """Builds the finding for an access whose lanes failed a test."""

    def __init__(self, check: Memcheck, count: Count) -> None:
        checked = check.checked
        self.check, self.count, self.witness = check, count, count.witness
        self.spec, self.addresses = checked.spec, checked.addresses
        self.site, regions = count.witness.site, checked.regions
        has_region = 0 <= self.site.parameter < len(regions)
        self.region = regions[self.site.parameter] if has_region else None
        location, self.table = self.site.location, -1
        if self.region is None:
            self.table = checked.kernel.at(pointer_tables, location, -1)
        self.index = checked.kernel.at(index_loads, location, None)

    def finding(self) -> Finding:
        self.explained = self._explain()
        kind, message, notes, help_line = self._classify()
        argument = self.spec.argument(self.site.parameter)
        where = f" {self._preposition} `{argument.name}`" if argument else ""
        if argument is None and self.site.choices:
            argument, where = self._one_of_several()
        if argument is None and (argument := self.spec.argument(self.table)) is not None:
            where = f" from `{argument.name}`"  # the pointer
        mask = () if self.site.masked else (("mask", "none"),)
        fields: dict[str, Any] = {}
        if kind == "view_oob":
            fields["severity"] = self._severity_in_storage()
        if help_line is not None:
            fields["help"] = help_line
        if self.explained is not None:
            fields["cause"] = self.explained.cause
        return self.check.at_lanes(
            self.count,
            kind,
            message + where,
            argument=argument,
            variables=self._variables() + mask,
            notes=notes,
            related=self._related(),
            **fields,
        )

    def _explain(self) -> Explained | None:
        """Return the cause of an access outside its memory, and keep it for other checks."""
        if self.witness.test == "misaligned":
            return None
        explained = explain(self.check.checked, self.witness)
        if explained is not None:
            explained = replace(explained, witness=self.witness)
            self.check.checked.causes.append(explained)
        return explained

    def _variables(self) -> tuple[tuple[str, str], ...]:
        """Return the variables that the access depends on; those of the cause come first."""
        shown = variables(self.spec, self.witness.values)
        names = self.explained.variables if self.explained is not None else ()
        first = [one for name in names for one in shown if one[0] == name]
        return tuple(dict.fromkeys([*first, *shown]))[:_MOST_SHOWN]

    def _severity_in_storage(self) -> Severity:
        """Return the severity of an access that leaves the view but stays in the storage.

        The severity is higher for stores, because a loaded value may be unused.
        """
        chosen = self.check.checked.options.view_bounds
        if chosen is not None and chosen != "off":
            return chosen
        assert self.region is not None
        low, high = self.region.view
        # A view of one element is usually passed for its address, so its extent is unknown.
        is_pointer = high - low <= self.region.item
        return "warning" if self.site.kind == "load" or is_pointer else "error"

    @property
    def _preposition(self) -> str:
        return "from" if self.site.kind == "load" else "to"

    def _related(self) -> tuple[Related, ...]:
        """Return where an index is loaded, unless it is the location of the access."""
        if self.index is None or self.index.location == self.site.location:
            return ()
        table = self._index_table()
        source = f" from `{table}`" if table else ""
        what = "a number that the address is computed from"
        if self.table >= 0 and self.table == self.index.parameter:
            what = "the pointer"
        message = f"{what} is loaded here{source}"
        return (Related(message=message, location=self.index.location),)

    def _index_table(self) -> str | None:
        argument = None if self.index is None else self.spec.argument(self.index.parameter)
        return argument.name if argument else None

    def _one_of_several(self) -> tuple[ArgumentSpec | None, str]:
        """Return the nearest of the arguments from which the pointer may derive.

        The second result is a phrase that names all of these arguments.
        """
        choices = self.site.choices
        names = ", ".join(f"`{self.spec.names[n]}`" for n in choices if n < len(self.spec.names))
        nearest = self.addresses.nearest(self.witness.address, choices)
        argument = None if nearest is None else self.spec.argument(nearest)
        return argument, f" {self._preposition} one of {names}" if argument else ""

    def _classify(self) -> tuple[str, str, tuple[str, ...], str | None]:
        """Return kind, message, notes and help; the help is None if the kind's own help applies."""
        access, size, test = _ACCESS[self.site.kind], self.site.size, self.witness.test
        noun = f"{access} of {counted(size, 'byte')}"
        if test == "misaligned":
            address = f"address {self.witness.address:#x} is not a multiple of {size}"
            return "misaligned", f"misaligned {noun}", (address,), None
        if test == "view":
            beside, help_line = (self._beside_view(),), view_help(self._outside())
            return "view_oob", f"{noun} outside the elements passed", beside, help_line
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
            notes = (f"address {address:#x} was in {freed}, which has been freed",)
            return "use_after_free", f"{noun} of freed memory through a pointer", notes, None
        nearby = self.addresses.near(address)
        notes = (f"address {address:#x} {nearby or 'is not in any tensor that this run has seen'}",)
        help_line = _HELP_NEAR if nearby else _HELP_UNKNOWN
        kind, message = f"oob_{self.site.kind}", f"out-of-bounds {noun} through a computed pointer"
        return kind, message, notes, self._help() if self.site.choices else help_line

    def _help(self) -> str:
        return bounds_help(self._outside())

    def _outside(self) -> Outside:
        place = position_of(self.site.location)
        unused = (mask for mask in self.check.unused_masks if position_of(mask.access) == place)
        local = (mask for mask in self.check.local_masks() if position_of(mask.access) == place)
        return Outside(
            forgotten=next(unused, None),
            local=next(local, None),
            swapped=swapped_limits(self.check.checked, self.site) if self.site.masked else "",
            site=self.site,
            address=self.witness.address,
            values=self.witness.values,
            region=self.region,
            argument=self.spec.argument(self.site.parameter),
            table=self._index_table(),
            index=self._index_name(),
            element=self._element_loaded(),
            cause=self.explained.cause if self.explained is not None else None,
            remainders=self.check.checked.kernel.fact(remainder_names),
        )

    def _index_name(self) -> str:
        """Return the variable that the index was loaded into; empty if there is none."""
        if self.index is None:
            return ""
        place = self.index.location
        return assigned_name("".join(source_lines(place.file)), place.line, place.column)

    def _element_loaded(self) -> tuple[int, int] | None:
        if self.index is None:
            return None
        checked = self.check.checked
        return element_loaded(checked, self.witness, self.index.location, self.index.parameter)

    def _neighbour(self) -> str:
        """Return a note that names the argument whose memory the access would have hit."""
        other = self.addresses.owner(self.witness.address)
        if other is None or other == self.site.parameter:
            return ""
        return f"it would have landed in `{self.spec.names[other]}`"

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


#: Views that have gaps and more elements than this are not compared.
_MOST_ELEMENTS = 1 << 16


def shared_arguments(launch: KernelLaunch, regions: Sequence[Region]) -> Iterator[tuple[int, int]]:
    """Yield pairs of parameters whose views share a byte and through which the kernel writes.

    This is not a defect by itself, because a kernel may be designed for it. `racecheck` determines
    whether programs interfere with each other.
    """
    for one, other in combinations(sorted(launch.kernel.variants.effects.written), 2):
        (low, high), (begin, end) = regions[one].view, regions[other].view
        if regions[one].storage[1] - regions[one].storage[0] >= 1 << 62:
            continue  # the end of this storage is unknown
        if max(low, begin) < min(high, end) and _meet(launch, regions, one, other):
            yield one, other


def _meet(launch: KernelLaunch, regions: Sequence[Region], one: int, other: int) -> bool:
    if not (regions[one].has_gaps or regions[other].has_gaps):
        return True
    bytes_of = [_bytes(launch.arguments[index]) for index in (one, other)]
    first, second = bytes_of
    return first is not None and second is not None and bool(np.intersect1d(first, second).size)


def _bytes(tensor: Any) -> NDArray[np.int64] | None:
    """Return the addresses of all bytes of a tensor's elements; None if too many or not known."""
    try:
        shape = tuple(int(n) for n in tensor.shape)
        strides = [int(tensor.stride(n)) for n in range(len(shape))]
        item, start = int(tensor.element_size()), int(tensor.data_ptr())
    except (AttributeError, TypeError):
        return None
    if int(np.prod(shape)) > _MOST_ELEMENTS:
        return None
    addresses = np.array([start], np.int64)
    for extent, stride in zip(shape, strides, strict=True):
        addresses = (addresses[:, None] + np.arange(extent, dtype=np.int64) * stride * item).ravel()
    return (addresses[:, None] + np.arange(item, dtype=np.int64)).ravel()


def end_of_rows(tensor: TensorSpec) -> str:
    """Describe where stores end if the row size is not a multiple of 16 bytes.

    The text is empty if the row size is such a multiple.
    """
    width = tensor.shape[-1] * tensor.itemsize
    strides = [distance * tensor.itemsize for distance in tensor.strides[-2:-1]]
    if width % DESCRIPTOR_ALIGNMENT == 0 or any(
        stride % DESCRIPTOR_ALIGNMENT for stride in strides
    ):
        return ""  # `defects` reports the stride, which causes this
    end = width + -width % DESCRIPTOR_ALIGNMENT
    return f"the last extent is {width:,} bytes: stores may continue to byte {end:,}"


def defects(tensor: TensorSpec, block: Sequence[int]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the defects of a descriptor: kind of finding, message, note with numbers, help.

    The rules are those of `cuTensorMapEncodeTiled`. Recent versions of Triton check some of them
    when a descriptor is created; older versions check none. No version checks them again after a
    program has changed a descriptor, for example in a function that an autotuner calls before each
    configuration.
    """
    item = tensor.itemsize
    if tensor.address % DESCRIPTOR_ALIGNMENT:
        note = f"address {tensor.address:#x} is not a multiple of 16"
        yield "misaligned", descriptors.BASE, note, RULES["descriptor_base"].help
    help_shape = RULES["descriptor_shape"].help
    if len(tensor.shape) > DESCRIPTOR_DIMENSIONS:
        note = f"it has {len(tensor.shape)}"
        message = f"a tensor descriptor has more than {DESCRIPTOR_DIMENSIONS} dimensions"
        yield "bad_descriptor", message, note, help_shape
    for n, stride in enumerate(tensor.strides[:-1]):
        distance = stride * item
        note = f"a stride of {stride} elements of {item} bytes is {distance} bytes"
        if distance % DESCRIPTOR_ALIGNMENT:
            message = descriptors.STRIDE.format(n=n)
            yield "misaligned", message, note, RULES["descriptor_stride"].help
        if not 0 <= distance < DESCRIPTOR_STRIDES_END:
            message = descriptors.STRIDE_RANGE.format(n=n)
            yield "bad_descriptor", message, note, help_shape
    if tensor.strides[-1] != 1:
        note = f"its stride is {tensor.strides[-1]}"
        yield "bad_descriptor", descriptors.LAST_STRIDE, note, RULES["descriptor_last_stride"].help
    for n, extent in enumerate(tensor.shape):
        if not 0 < extent <= DESCRIPTOR_EXTENT:
            message = f"a tensor descriptor has an unsupported extent (dimension {n})"
            yield "bad_descriptor", message, f"the extent is {extent}", help_shape
    if block and block[-1] * item % DESCRIPTOR_ALIGNMENT:
        note = f"{block[-1]} elements of {item} bytes"
        message = "the row size of a tensor descriptor's block is not a multiple of 16 bytes"
        yield "bad_descriptor", message, note, RULES["descriptor_block"].help
