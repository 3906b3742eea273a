"""Monitors: the bounds that native code checks during one launch, and its counters and logs.

The memory of a monitor has the layout of `abi/probe_layout.py`. This module fills it before a
launch, and decodes counters, witnesses and logs afterwards.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from ttools.interpreter.abi.module import EmittedModule, ProbeSite
from ttools.interpreter.abi.probe_layout import (
    CLASSES,
    COUNTER_BYTES,
    FUNCTIONS,
    LARGEST_ELEMENT,
    MONITOR,
    MONITOR_BYTES,
    PAYLOAD_ADDRESSES,
    RECORD_BYTES,
    REGION_BYTES,
    SHARED_LOG_RECORDS,
    SITE_BYTES,
)
from ttools.interpreter.abi.region import Region
from ttools.interpreter.abi.reread_values import replace_seen
from ttools.interpreter.runtime.access_log import (
    Footprints,
    access_dtype,
    no_footprints,
    no_syncs,
    split_log,
)
from ttools.interpreter.runtime.packed_log import PackedLog
from ttools.interpreter.runtime.printing import shown_values
from ttools.interpreter.runtime.support.native_probe import probe_code

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ttools.interpreter.abi.reread_values import Rereads
    from ttools.interpreter.abi.watch_interface import Watch
    from ttools.interpreter.runtime.stopping import Stop

_NO_PROGRAM = 2**63 - 1
#: The number of memory blocks, each describing a set of regions, that are kept for later launches
#: of a kernel. In a loop, tensors alternate between addresses (small tensors between about a
#: hundred), so sets of regions recur, and callers pass the same object for the same set.
_MOST_SPARE = 256
#: Fewer blocks are kept if they are large, so that the kept blocks take at most this number of
#: bytes.
_MOST_SPARE_BYTES = 1 << 20
_MUTEX = MONITOR["MUTEX"]


@dataclass(frozen=True)
class Witness:
    """The first lane of a chunk that failed a test, in the lowest program in which the test failed.

    Attributes:
        site: The access or check that failed.
        test: The failed test, one of `probe_layout.CLASSES`.
        program: Linear index of the program in the grid.
        lane: Row-major index of the first failing lane in the tile.
        address: Address that this lane accessed; 0 for a check.
        iterations: Iterations of the enclosing loops.
        values: Names and values of the reported variables in this lane.
    """

    site: ProbeSite
    test: str
    program: int
    lane: int
    address: int
    iterations: tuple[int, ...]
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Count:
    """The number of lanes and programs in which a test failed at a site, and the first witness."""

    lanes: int
    programs: int
    witness: Witness


class SiteTable:
    """The table of a kernel's probes in native layout, shared by all monitors of the kernel.

    Attributes:
        searches: True if, for any probe, the parameter that its addresses derive from is unknown.
        fresh: Initial contents of a monitor's memory from `MUTEX` on: the lock is free and all
            counters are 0.
        regions_at: Offset of the regions in a monitor's memory, in bytes.
    """

    def __init__(self, probes: Sequence[ProbeSite]) -> None:
        self.count = len(probes)
        self.searches = any(site.parameter < 0 and site.kind != "check" for site in probes)
        positions = [site.positions() for site in probes]
        lanes = struct.pack(f"<{sum(map(len, positions))}i", *(n for row in positions for n in row))
        self._memory = ctypes.create_string_buffer(self.count * SITE_BYTES + len(lanes) + 8)
        self.address = ctypes.addressof(self._memory)
        offset = self.count * SITE_BYTES
        ctypes.memmove(self.address + offset, lanes, len(lanes))
        for n, (site, row) in enumerate(zip(probes, positions, strict=True)):
            numbers = (site.size, site.width, site.parameter, site.leader, self.address + offset)
            period = max(1, site.size) * prod(site.shape) - 1
            stores = site.kind == "store"
            struct.pack_into("<iiiiQQQ", self._memory, n * SITE_BYTES, *numbers, period, stores)
            offset += 4 * len(row)
        counters = struct.pack("<qqq", 0, _NO_PROGRAM, 0) * (len(CLASSES) * self.count)
        self.fresh = bytes(MONITOR_BYTES - MONITOR["MUTEX"]) + counters
        self.regions_at = MONITOR_BYTES + len(counters) + 8
        #: The kept blocks, keyed by the identity of their regions, the oldest first.
        self._spare: OrderedDict[int, _Block] = OrderedDict()
        # The lock is re-entrant, because the garbage collector may delete one monitor, whose memory
        # is then freed, while another monitor takes memory.
        self._lock = threading.RLock()

    def take(self, size: int, regions: Sequence[Region]) -> _Block:
        """Return memory for a monitor, which must be returned to `free`.

        If a kept block already describes `regions`, that block is returned.
        """
        with self._lock:
            spare = self._spare
            block = spare.pop(id(regions), None)
            if block is None and len(spare) >= self._most_spare(size):
                # Iterating over the dictionary would fail if the garbage collector deleted a
                # monitor meanwhile.
                _, block = spare.popitem(last=False)
        return block if block is not None and len(block.bytes) >= size else _Block(size)

    def _most_spare(self, size: int) -> int:
        """Return the number of blocks of a size in bytes that are kept."""
        return max(1, min(_MOST_SPARE, _MOST_SPARE_BYTES // size))

    def free(self, block: _Block) -> None:
        """Keep the memory of a deleted monitor for a later one."""
        with self._lock:
            spare = self._spare
            # The first block is kept in any case, without computing the limit, because most kernels
            # are launched with the same tensors again and again.
            if not spare or len(spare) < self._most_spare(len(block.bytes)):
                spare[id(block.regions)] = block


class _Block:
    """Memory that Python shares with native code.

    Attributes:
        regions: The regions that the memory describes; None if it describes none.
        bytes: The memory as a `bytearray`.
        address: The address of the memory.
    """

    __slots__ = ("_anchor", "address", "bytes", "regions")

    def __init__(self, size: int) -> None:
        self.regions: Sequence[Region] | None = None
        self.bytes = bytearray(size)
        self._anchor = (ctypes.c_char * size).from_buffer(self.bytes)
        self.address = ctypes.addressof(self._anchor)


class Monitor:
    """The observations of one launch of an instrumented kernel.

    Args:
        emitted: Description of the kernel's native code.
        table: Table of the kernel's probes.
        regions: Memory region of each parameter.
        allocations: First address and end of each allocation to which pointers of unknown origin
            may point.
        logs: True if the kernel logs accesses.
        watch: Receives the values of watched variables.
        rereads: Chooses the values returned by accesses that do not change memory.
        finds: Called with an address and a number of bytes that are in no entry of `allocations`;
            returns the start and end of the memory that contains them, or None.

    Attributes:
        address: The address of the monitor's memory, which is the kernel's last argument.
        table: Table of the kernel's probes.
        stop: The state of the launch when it was stopped; None if it was not stopped.
    """

    def __init__(
        self,
        emitted: EmittedModule,
        table: SiteTable,
        regions: Sequence[Region],
        allocations: Sequence[tuple[int, int]] = (),
        *,
        logs: bool = True,
        watch: Watch | None = None,
        rereads: Rereads | None = None,
        finds: Callable[[int, int], tuple[int, int] | None] | None = None,
    ) -> None:
        self._emitted = emitted
        self._watch, self._rereads, self._finds = watch, rereads, finds
        self.stop: Stop | None = None
        self._witnesses: dict[tuple[int, int], Witness] = {}
        self._packed = PackedLog() if logs else _NO_LOG
        self._footprints: tuple[Footprints, NDArray[Any]] | None = None
        self._runs: NDArray[Any] | None = None
        self._log: NDArray[np.uint8] | None = None
        self._log_at = 0
        if logs:
            self._log, self._log_at = _take_log()
        self.table = table
        self._keep: list[Any] = []
        size = table.regions_at + len(regions) * REGION_BYTES
        self._block = table.take(size + 16 * len(allocations), regions)
        self.address = self._block.address
        # Most launches have the arguments of an earlier one, so the block is filled already.
        current = self._block.regions
        if allocations or (current is not regions and current != regions):
            self._lay_out(regions, allocations)
        block = self._block.bytes
        block[_MUTEX : _MUTEX + len(table.fresh)] = table.fresh
        if logs or watch is not None or rereads is not None:
            table_at = 0 if watch is None else watch.table_address
            words = self._log_at, table_at, rereads is not None
            struct.pack_into("<3Q", block, MONITOR["LOG"], *words)
        if finds is not None:
            struct.pack_into("<Q", block, MONITOR["FINDS"], 1)

    def _lay_out(self, regions: Sequence[Region], allocations: Sequence[tuple[int, int]]) -> None:
        """Write the part of the memory that is the same for all launches with the same bounds."""
        table, block, address = self.table, self._block.bytes, self.address
        regions_at = table.regions_at
        rows_at = regions_at + len(regions) * REGION_BYTES
        struct.pack_into(f"<{len(FUNCTIONS)}Q", block, 0, *_functions())
        bounds = (len(allocations), address + rows_at, address + MONITOR_BYTES)
        words = (table.address, table.count, address + regions_at, *bounds)
        struct.pack_into("<6Q", block, MONITOR["SITES"], *words)
        flat = [word for region in regions for word in self._words(region)]
        struct.pack_into(f"<{len(flat)}Q", block, regions_at, *flat)
        flat = [end for row in allocations for end in row]
        struct.pack_into(f"<{len(flat)}Q", block, rows_at, *flat)
        # The descriptions of gaps are freed with this monitor, so a later monitor cannot use the
        # block unchanged.
        self._block.regions = None if self._keep or allocations else regions

    def __del__(self) -> None:
        # Keep the memory, because allocating it costs as much as a small launch.
        self.table.free(self._block)
        if self._log is not None:
            _spare_logs.append((self._log, self._log_at))

    def _words(self, region: Region) -> tuple[int, ...]:
        """Return the region in the runtime's layout."""
        storage, view, _, _, _, exact = region
        low, high = view if exact else storage
        dims = 0
        if exact and region.has_gaps:
            high = low  # the interval is empty, so each access is checked against the dimensions
            dims = self._dimensions(region)
        # Native code detects misaligned addresses by their distance from this aligned address.
        low += -low % LARGEST_ELEMENT
        return (*storage, low, high - low if low < high else 0, *view, dims, exact)

    def _dimensions(self, region: Region) -> int:
        if region.members is not None:
            words = [2**64 - 1, region.item, region.members.ctypes.data]
        else:
            dims = region.dims or ()
            flat = (n for stride, extent in dims for n in (stride, extent - 1))
            words = [len(dims), region.item, *flat]
        memory = (ctypes.c_uint64 * len(words))(*words)
        self._keep += [region.members, memory]
        return ctypes.addressof(memory)

    def _counter(self, site: int, test: int) -> tuple[int, int, int]:
        """Return a counter: the number of lanes, the lowest program and the number of programs."""
        offset = MONITOR_BYTES + site * COUNTER_BYTES + 24 * test
        lanes, lowest, programs = struct.unpack_from("<qqq", self._block.bytes, offset)
        return lanes, lowest, programs

    # ---- methods that are called while the launch runs
    def witness(self, program: int, site: int, payload: int) -> None:
        """Store the witness from a payload, unless a lower program has failed the same test."""
        probe = self._emitted.probes[site]
        data = ctypes.string_at(payload, probe.payload)
        with _witness_lock:
            for n in range(len(CLASSES)):
                (bits,) = struct.unpack_from("<Q", data, 8 * n)
                lowest = self._witnesses.get((probe.leader, n))
                if bits and (lowest is None or program < lowest.program):
                    self._witnesses[probe.leader, n] = _decode(probe, n, program, bits, data)

    def watched(self, program: int, site: int, payload: int) -> None:
        """Pass the value of a watched variable to the watch."""
        if self._watch is not None:
            self._watch.take(program, self._emitted.sites[site], payload)

    def synchronised(self, program: int, site: int, payload: int) -> None:
        """Replace the value that a synchronising access returns."""
        size = self._emitted.probes[site].size
        asks = self._rereads
        if asks is not None and not replace_seen(asks, program, site, size, payload):
            struct.pack_into("<Q", self._block.bytes, MONITOR["REREADS"], 0)

    def find(self, question: int) -> bool:
        """Look up memory outside all known allocations.

        Args:
            question: Address of the payload, see `CallbackKind.FIND`.
        """
        words = (ctypes.c_uint64 * 4).from_address(question)
        bounds = None if self._finds is None else self._finds(words[0], words[1])
        if bounds is not None:
            words[2], words[3] = bounds
        return bounds is not None

    def drain(self) -> None:
        """Move the log of the launch to the packed log.

        The caller must hold the lock of the log, or the launch must have ended.
        """
        (used,) = struct.unpack_from("<q", self._block.bytes, MONITOR["LOG_USED"])
        assert 0 <= used <= SHARED_LOG_RECORDS
        if used and self._log is not None:
            log = self._log[: used * RECORD_BYTES]
            if self._watch is not None and self._watch.takes_log is not None:
                self._watch.takes_log(log)
            else:
                self._packed.add(log.view(access_dtype()))
                self._footprints = self._runs = None
            struct.pack_into("<q", self._block.bytes, MONITOR["LOG_USED"], 0)

    # ---- results, read after the launch
    @property
    def fails(self) -> bool:
        return bool(self._witnesses)

    def lanes(self, site: int) -> int:
        """Return a site's first counter: the number of failed lanes, or of counted lanes."""
        return self._counter(site, 0)[0]

    def counts(self) -> list[Count]:
        """Return one entry per failed operation and test, in the order of the operations.

        If an operation is evaluated several times, each evaluation processes the same lanes.
        Therefore the lanes of only one evaluation are counted.
        """
        if not self._witnesses:
            return []
        best: dict[tuple[int, int], Count] = {}
        for (leader, n), witness in self._witnesses.items():
            lanes, _, programs = self._counter(leader, n)
            key = (self._emitted.probes[leader].operation, n)
            most = best.get(key)
            if most is None or (lanes, -witness.program) > (most.lanes, -most.witness.program):
                best[key] = Count(lanes, programs, witness)
        return [best[key] for key in sorted(best)]

    def records(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the plain accesses as one record per run, and the synchronising accesses.

        The synchronising accesses are in the order in which they took effect.
        """
        footprints, syncs = self.footprints()
        if self._runs is None:
            self._runs = footprints.runs()
        return self._runs, syncs

    def footprints(self) -> tuple[Footprints, NDArray[Any]]:
        """Return the same accesses as `records`, but without expanding repeated records."""
        self.drain()
        if self._footprints is None:
            self._footprints = self._split()
        return self._footprints

    def untouched_log(self) -> NDArray[Any] | None:
        """Return a view of the records in native memory; None if any have been moved.

        The view is valid until another method reads the log or the monitor is deleted.
        """
        if self._log is None or self._watch is not None or len(self._packed):
            return None
        (used,) = struct.unpack_from("<q", self._block.bytes, MONITOR["LOG_USED"])
        records: NDArray[Any] = self._log[: used * RECORD_BYTES].view(access_dtype())
        return records

    @property
    def log_is_full(self) -> bool:
        """True if the log has reached its limit, so that accesses are missing."""
        return self._packed.is_full

    def shorten_log(self, most: int) -> None:
        """Drop the accesses after the first `most`, as if the log had been full."""
        self.log().shorten(most)
        self._footprints = self._runs = None

    def log(self) -> PackedLog:
        """Return the log, with all records."""
        self.drain()
        return self._packed

    def _split(self) -> tuple[Footprints, NDArray[Any]]:
        if not self._packed:
            return no_footprints(), no_syncs()
        return split_log(self._packed.records())

    @property
    def sites(self) -> tuple[ProbeSite, ...]:
        """The kernel's probes; records refer to them by index."""
        return self._emitted.probes


#: Protects the witnesses, which several threads of a launch may report at the same time.
_witness_lock = threading.Lock()
#: The empty log of launches that do not log accesses.
_NO_LOG = PackedLog()
#: Logs of deleted monitors, kept because their pages are already mapped.
_spare_logs: deque[tuple[NDArray[np.uint8], int]] = deque(maxlen=4)


def _take_log() -> tuple[NDArray[np.uint8], int]:
    """Return memory for the log of a launch, and its address.

    The operating system allocates the pages of the log only when they are written.
    """
    import numpy as np

    try:
        return _spare_logs.pop()
    except IndexError:
        log = np.empty(SHARED_LOG_RECORDS * RECORD_BYTES, np.uint8)
        return log, int(log.ctypes.data)


@lru_cache(maxsize=1)
def _functions() -> list[int]:
    symbols = probe_code().symbols
    return [symbols[name] for name in FUNCTIONS]


def _decode(site: ProbeSite, test: int, program: int, bits: int, data: bytes) -> Witness:
    first = (bits & -bits).bit_length() - 1
    base = PAYLOAD_ADDRESSES if site.kind == "check" else PAYLOAD_ADDRESSES + 8 * site.width
    words = struct.unpack_from(f"<{len(site.shape) + site.loops}q", data, base)
    lane = 0
    for extent, lanes, start in zip(site.shape, site.lanes, words, strict=False):
        lane = lane * extent + start + lanes[first]
    address = 0
    if site.kind != "check":
        (address,) = struct.unpack_from("<Q", data, PAYLOAD_ADDRESSES + 8 * first)
    values = shown_values(site.shown, data, first)
    iterations = words[len(site.shape) :]
    return Witness(site, CLASSES[test], program, lane, address, tuple(iterations), values)
