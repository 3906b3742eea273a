"""Layouts of what instrumented code shares with Python: monitor, probe, records, payloads.

A *monitor* belongs to a launch: its sites, the bounds of its arguments, its counters. Each thread
has a *probe* behind its arena: the program it runs, its log of accesses, one open record per site.
All numbers are byte offsets or sizes.
"""

from __future__ import annotations

#: The tests that a lane of an access may fail, by their place in a payload. A check has the first.
CLASSES = ("storage", "view", "misaligned", "overwritten")
#: Bits of a synchronising access.
ACQUIRES, RELEASES, READS_AND_WRITES, IS_SCALAR, IMPLIES_BARRIER = 1, 2, 4, 8, 16
#: The access is atomic towards its own program only.
IS_LOCAL = 32
#: It leaves the word as it finds it, so it might as well have been made earlier.
REREADS = 64
#: Its result is used: the program looks at the word. It would acquire, were its result used.
LOOKS, BLIND = 128, 256
#: It stores, whatever is there. It loads, and is atomic towards other programs.
OVERWRITES, IS_STRONG = 512, 1024

#: The functions of the runtime, in the order of the monitor's first words.
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

#: Offsets in a monitor. SEQUENCE counts synchronising accesses; WATCHED points to one byte per
#: program, not 0 where it is watched. While REREADS is not 0, Python chooses what such accesses
#: see. While FINDS is not 0, Python looks for the memory at an address that no known one holds.
MONITOR = {
    **{name.upper(): 8 * n for n, name in enumerate(FUNCTIONS)},
    "SITES": 88,
    "SITE_COUNT": 96,
    "REGIONS": 104,
    "ALLOCATION_COUNT": 112,
    "ALLOCATIONS": 120,
    "COUNTERS": 128,
    # From here on each launch has its own.
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
#: Offsets in a probe; `EPOCH` and `BARRIER` are neighbouring i32.
PROBE = {"LOGGED": 8, "EPOCH": 16, "BARRIER": 20, "PROGRAM": 24, "LAUNCH": 32, "LOG": 64}
LOG_RECORDS = 256
SHARED_LOG_RECORDS = 1 << 14
RECORD_BYTES = 48
PROBE_OPEN = PROBE["LOG"] + LOG_RECORDS * RECORD_BYTES
#: An open record, the bounds of the memory last seen (base, bytes), four last programs, the open
#: record's origin: its start less the bytes before its lane, modulo the bytes of the tile. Then
#: the first of the runs that wait to be logged as one, their number, and by how many bytes and
#: lanes they follow each other.
OPEN_BYTES = 176
CACHE_BASE, CACHE_BYTES, OPEN_ORIGIN = 48, 56, 96
OPEN_FIRST, OPEN_COUNT, OPEN_STRIDE, OPEN_LANES = 104, 152, 160, 168
#: A bit of the site of a record that stands for several runs; its `seq` holds their number in the
#: lowest bits, then by how many lanes, then by how many bytes they follow each other.
REPEATED = 1 << 30
REPEAT_COUNT_BITS, REPEAT_LANE_BITS, REPEAT_STRIDE_BITS = 12, 21, 31
#: From this bit on the `seq` of any other record counts further lanes that accessed its one
#: element: of neighbours at one address only the first ones are logged.
MORE_LANES_SHIFT = 48
#: i32 size, lanes, region, leader; ptr positions of lanes; i64 bytes of the tile, less one; i64
#: whether it stores.
SITE_BYTES = 40
#: i64 storage begin and end, begin and bytes of what every element may be accessed in, view begin
#: and end, ptr to the view's dimensions (null: dense), whether the view matters.
REGION_BYTES = 64
#: Bounds for a quick look begin at a multiple of this many bytes, the most an element has.
LARGEST_ELEMENT = 8
FAST_BASE, FAST_BYTES = 16, 24
#: Per class: i64 lanes, lowest program, programs.
COUNTER_BYTES = 96
#: In a payload, behind the bits of four classes and of the active lanes.
PAYLOAD_ADDRESSES = 40


def probe_bytes(sites: int) -> int:
    """Size of a thread's probe for a kernel with so many sites."""
    return PROBE_OPEN + sites * OPEN_BYTES
