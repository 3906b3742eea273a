"""The functions that instrumented code calls on its cold paths: `native_probe.ll`.

They judge lanes, count, log and call back; layouts are `emit.probe_layout`'s. What is emitted
around an access is `emit.access`'s, what Python makes of events is `monitor`'s.
"""

from __future__ import annotations

from pathlib import Path

from ttools.core.once import once
from ttools.interpreter.abi.launch_layout import offset
from ttools.interpreter.abi.module import CallbackKind
from ttools.interpreter.abi.probe_layout import (
    COUNTER_BYTES,
    FUNCTIONS,
    IMPLIES_BARRIER,
    LARGEST_ELEMENT,
    LOG_RECORDS,
    MONITOR,
    MORE_LANES_SHIFT,
    OPEN_BYTES,
    OPEN_COUNT,
    OPEN_FIRST,
    OPEN_LANES,
    OPEN_ORIGIN,
    OPEN_STRIDE,
    OVERWRITES,
    PAYLOAD_ADDRESSES,
    PROBE,
    PROBE_OPEN,
    READS_AND_WRITES,
    REGION_BYTES,
    RELEASES,
    REPEAT_COUNT_BITS,
    REPEAT_LANE_BITS,
    REPEAT_STRIDE_BITS,
    REPEATED,
    SHARED_LOG_RECORDS,
    SITE_BYTES,
)
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_text, native_module

_WORDS = {
    **{f"MONITOR_{name}": offset for name, offset in MONITOR.items()},
    **{f"PROBE_{name}": offset for name, offset in PROBE.items()},
    "PROBE_OPEN": PROBE_OPEN,
    "OPEN_BYTES": OPEN_BYTES,
    "OPEN_ORIGIN": OPEN_ORIGIN,
    "OPEN_FIRST": OPEN_FIRST,
    "OPEN_COUNT": OPEN_COUNT,
    "OPEN_STRIDE": OPEN_STRIDE,
    "OPEN_LANES": OPEN_LANES,
    "ONE_MORE_LANE": 1 << MORE_LANES_SHIFT,
    "REPEATED_SITE": REPEATED,
    "REPEAT_COUNT_LIMIT": (1 << REPEAT_COUNT_BITS) - 1,
    "REPEAT_COUNT_ROOM": (1 << REPEAT_COUNT_BITS) - 3,
    "REPEAT_LANE_LIMIT": 1 << REPEAT_LANE_BITS,
    "REPEAT_LANE_SHIFT": REPEAT_COUNT_BITS,
    "REPEAT_STRIDE_LIMIT": 1 << REPEAT_STRIDE_BITS,
    "REPEAT_STRIDE_SHIFT": REPEAT_COUNT_BITS + REPEAT_LANE_BITS,
    "SITE_BYTES": SITE_BYTES,
    "REGION_BYTES": REGION_BYTES,
    "COUNTER_BYTES": COUNTER_BYTES,
    "LOG_RECORDS": LOG_RECORDS,
    "SHARED_LOG_RECORDS": SHARED_LOG_RECORDS,
    "PAYLOAD_ADDRESSES": PAYLOAD_ADDRESSES,
    "IMPLIES_BARRIER": IMPLIES_BARRIER,
    "WRITING": RELEASES | READS_AND_WRITES | OVERWRITES,
    "LARGEST_ELEMENT": LARGEST_ELEMENT,
    "LAUNCH_CALLBACK": offset("callback"),
    "EVENT": int(CallbackKind.EVENT),
    "DRAIN": int(CallbackKind.DRAIN),
    "SYNCHRONISE": int(CallbackKind.SYNCHRONISE),
    "FIND_KIND": int(CallbackKind.FIND),
}


def probe_ir() -> str:
    """The text of the module."""
    return module_text(Path(__file__).with_name("native_probe.ll"), _WORDS)


@once
def probe_code() -> jit.NativeCode:
    """The functions, compiled or read from the object cache at first use."""
    return native_module(probe_ir(), FUNCTIONS, name="the probes", opt=2)
