"""Memory layouts that instrumented native code shares with Python.

A *monitor* belongs to a launch. It holds the sites of the kernel, the bounds of the arguments and
the counters. A *probe* belongs to a thread and follows the thread's arena in memory. It holds the
id of the program that the thread runs, the thread's log of accesses, and one open record per site.
An open record describes the current run of contiguous accesses; it is written to the log when an
access does not continue that run. All numbers are byte offsets or sizes unless a comment says
otherwise.
"""

from __future__ import annotations

#: The tests that a lane of an access may fail, in the order of their bit sets in a payload. Checks
#: (`ttools.check`) have one test only, which uses the first bit set.
CLASSES = ("storage", "view", "misaligned", "overwritten")
#: Flags of a synchronising access (`ProbeSite.flags`).
ACQUIRES, RELEASES, READS_AND_WRITES, IS_SCALAR, IMPLIES_BARRIER = 1, 2, 4, 8, 16
#: The access has the scope of its own program (`cta`), so it does not order programs.
IS_LOCAL = 32
#: The access does not change memory, so an execution in which it happens earlier is also possible.
REREADS = 64
#: LOOKS: the result of the access is used, or it is a volatile load. BLIND: the access would
#: acquire if its result were used.
LOOKS, BLIND = 128, 256
#: OVERWRITES: the access stores a value that does not depend on the old one. IS_STRONG: the access
#: only loads, and is atomic with respect to other programs.
OVERWRITES, IS_STRONG = 512, 1024

#: The runtime's functions, in the order of their addresses in the first words of a monitor.
FUNCTIONS = (
    "check_lanes",
    "report",
    "footprint",
    "footprint_lanes",
    "footprint_tile",
    "close",
    "finish",
    "pass_barrier",
    "lock",
    "synchronise",
    "pass_iteration",
)

#: Offsets in a monitor. SEQUENCE counts synchronising accesses. WATCHED points to one byte per
#: program, which is not 0 if the program is watched. While REREADS is not 0, Python chooses the
#: values that accesses with the flag of that name read. While FINDS is not 0, native code calls
#: Python for the bounds of the memory at an address that is outside all known allocations.
MONITOR = {
    **{name.upper(): 8 * n for n, name in enumerate(FUNCTIONS)},
    "SITES": 88,
    "SITE_COUNT": 96,
    "REGIONS": 104,
    "ALLOCATION_COUNT": 112,
    "ALLOCATIONS": 120,
    "COUNTERS": 128,
    # The following words are initialised for each launch.
    "MUTEX": 136,
    "SEQUENCE": 144,
    "LOG_MUTEX": 152,
    "LOG_USED": 160,
    "LOG": 168,
    "WATCHED": 176,
    "REREADS": 184,
    "FINDS": 192,
}
MONITOR_BYTES = 200
#: Offsets in a probe. `EPOCH` and `BARRIER` are adjacent i32 values.
PROBE = {"LOGGED": 8, "EPOCH": 16, "BARRIER": 20, "PROGRAM": 24, "LAUNCH": 32, "LOG": 64}
LOG_RECORDS = 256
SHARED_LOG_RECORDS = 1 << 14
RECORD_BYTES = 48
PROBE_OPEN = PROBE["LOG"] + LOG_RECORDS * RECORD_BYTES
#: Size of the state of one site in a probe. The state consists of the open record (48 bytes); the
#: bounds (base, bytes) of the memory accessed last; the four programs that were reported last; the
#: origin of the open record, which is the start of its run minus the bytes of the tile before its
#: first lane, modulo the size of the tile; and, if several runs will be logged as one record, the
#: first run, the number of runs, and the distance between successive runs in bytes and in lanes.
OPEN_BYTES = 176
CACHE_BASE, CACHE_BYTES, OPEN_ORIGIN = 48, 56, 96
OPEN_FIRST, OPEN_COUNT, OPEN_STRIDE, OPEN_LANES = 104, 152, 160, 168
#: A bit of a record's `site`, set if the record represents several runs. The record's `seq` then
#: holds, from the lowest bit: the number of runs, their distance in lanes and in bytes.
REPEATED = 1 << 30
REPEAT_COUNT_BITS, REPEAT_LANE_BITS, REPEAT_STRIDE_BITS = 12, 21, 31
#: Adjacent lanes that access the same address are logged once. In the `seq` of a record without
#: `REPEATED`, the bits from this position on hold the number of further lanes that accessed the
#: only element of the record.
MORE_LANES_SHIFT = 48
#: A site: i32 size, lanes, region, leader; pointer to the lanes' positions; i64 size of the tile
#: minus 1; i64 1 if the site stores.
SITE_BYTES = 40
#: A region: i64 start and end of the storage; start and size of the range in which any element may
#: be accessed; start and end of the view; pointer to the view's dimensions (null if the view is
#: dense); 1 if accesses are checked against the view.
REGION_BYTES = 64
#: Size of the largest element. The range for the fast check starts at a multiple of it.
LARGEST_ELEMENT = 8
FAST_BASE, FAST_BYTES = 16, 24
#: Counters of a site. For each of `CLASSES`, three i64: the number of failing lanes, the lowest
#: failing program, and the number of failing programs.
COUNTER_BYTES = 96
#: Offset of the addresses in a payload: they follow five bit sets, see `ProbeSite`.
PAYLOAD_ADDRESSES = 40


def probe_bytes(sites: int) -> int:
    """Return the size of a thread's probe for a kernel with `sites` sites."""
    return PROBE_OPEN + sites * OPEN_BYTES
