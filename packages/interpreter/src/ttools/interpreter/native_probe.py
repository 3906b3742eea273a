"""The functions that instrumented code calls on its seldom paths: `native_probe.ll`.

They judge lanes, count, log and call back; layouts are `emit.probe_layout`'s. What is emitted
around an access is `emit.access`'s, what Python makes of events is `monitor`'s.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from ttools.interpreter import jit
from ttools.interpreter.emit.callback import CALLBACK
from ttools.interpreter.emit.module import CallbackKind
from ttools.interpreter.emit.probe_layout import (
    COUNTER_BYTES,
    FUNCTIONS,
    LARGEST_ELEMENT,
    LOG_RECORDS,
    MONITOR,
    OPEN_BYTES,
    OPEN_ORIGIN,
    PAYLOAD_ADDRESSES,
    PROBE,
    PROBE_OPEN,
    REGION_BYTES,
    SHARED_LOG_RECORDS,
    SITE_BYTES,
)
from ttools.interpreter.object_store import object_store

_WORDS = {
    **{f"MONITOR_{name}": offset for name, offset in MONITOR.items()},
    **{f"PROBE_{name}": offset for name, offset in PROBE.items()},
    "PROBE_OPEN": PROBE_OPEN,
    "OPEN_BYTES": OPEN_BYTES,
    "OPEN_ORIGIN": OPEN_ORIGIN,
    "SITE_BYTES": SITE_BYTES,
    "REGION_BYTES": REGION_BYTES,
    "COUNTER_BYTES": COUNTER_BYTES,
    "LOG_RECORDS": LOG_RECORDS,
    "SHARED_LOG_RECORDS": SHARED_LOG_RECORDS,
    "PAYLOAD_ADDRESSES": PAYLOAD_ADDRESSES,
    "LARGEST_ELEMENT": LARGEST_ELEMENT,
    "LAUNCH_CALLBACK": CALLBACK,
    "EVENT": int(CallbackKind.EVENT),
    "DRAIN": int(CallbackKind.DRAIN),
}


def probe_ir() -> str:
    """The text of the module."""
    text = Path(__file__).with_name("native_probe.ll").read_text()
    for word in sorted(_WORDS, key=len, reverse=True):
        text = text.replace(word, str(_WORDS[word]))
    return text


@lru_cache(maxsize=1)
def probe_code() -> jit.NativeCode:
    """The functions, compiled or read from the object cache at first use."""
    text = probe_ir()
    target = jit.host_target()
    parts = (text, jit.llvm_version(), target.cpu, target.features)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    store = object_store()
    found = store.read(key) if store is not None else None
    if found is not None:
        try:
            return jit.load(found.object_code, FUNCTIONS)
        except ValueError:
            pass
    object_code = jit.compile_ir(text, name="the probes", opt=2)
    if store is not None:
        store.write(key, {}, object_code)
    return jit.load(object_code, FUNCTIONS)
