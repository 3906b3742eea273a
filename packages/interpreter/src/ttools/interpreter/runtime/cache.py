"""Compiles TTIR to a runnable kernel, through the object cache.

This module defines the cache key, which covers everything that determines the machine code, and the
serialised form of an `EmittedModule`, and it measures the phases. `object_store` stores the
entries; `emit` and `jit` generate the code.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from ttools.core.environment import installed_version
from ttools.core.errors import UsageError
from ttools.core.location import SourceLocation
from ttools.core.process.background import wait_for
from ttools.core.process.phases import current_work
from ttools.core.sources import fingerprint
from ttools.interpreter.abi.module import (
    ABI_VERSION,
    EmitOptions,
    EmittedModule,
    Facts,
)
from ttools.interpreter.native import jit
from ttools.interpreter.native.line_table import line_table
from ttools.interpreter.native.object_store import Entry, ObjectStore, object_store
from ttools.interpreter.runtime import crash_note
from ttools.interpreter.runtime.launch import Kernel

_DEFAULT_OPT = 2
#: The longest time that LLVM took per character of text in measurements: for chains of elementary
#: functions.
_SECONDS_PER_CHARACTER = 8e-6
#: The same for modules whose code is generated without optimising it.
_QUICKEST_SECONDS_PER_CHARACTER = 2e-7
#: Compilations that may take longer than this run in a process of their own, which can be stopped
#: but takes 0.15 s to start (0.5 s on busy processors): with a time limit, and without one, where
#: only Ctrl-C can stop it. Emitting such a module takes 2 s and more.
_LONG_LIMITED_S, _LONG_S = 2.0, 8.0


@dataclass(frozen=True)
class Compilation:
    """A compiled kernel and the time that each phase took.

    Attributes:
        kernel: The kernel, ready to run.
        hit: True if the object cache had the kernel.
        phases: Seconds by phase: `lookup`, `emit`, `parse`, `optimise`, `codegen`, `load`,
            `store`; phases that did not run are absent.
    """

    kernel: Kernel
    hit: bool
    phases: dict[str, float]


def optimisation_level() -> int:
    """Return LLVM's optimisation level, from `TTOOLS_OPT`."""
    text = os.environ.get("TTOOLS_OPT", "")
    if text not in ("", "0", "1", "2", "3"):
        raise UsageError(f"TTOOLS_OPT={text}: LLVM has the levels 0, 1, 2 and 3")
    return int(text) if text else _DEFAULT_OPT


def get_or_compile(
    ttir: str,
    facts: Facts,
    options: EmitOptions,
    build: Callable[[], EmittedModule],
    *,
    name: str = "kernel",
    defined: SourceLocation | None = None,
    opt: int | None = None,
) -> Compilation:
    """Return a kernel from the cache, or build it, compile it and store it.

    Args:
        ttir: Text of the module with its locations, which name the source file.
        facts: Properties of the launch's arguments that the code depends on.
        build: Emits the module; only called if the cache has no entry.
        name: Name of the kernel, for messages.
        opt: LLVM's optimisation level; by default `optimisation_level()`.
    """
    phases: dict[str, float] = {}
    opt = optimisation_level() if opt is None else opt
    store = object_store()
    key = ""
    if store is not None and store.refusal is None:
        start = time.perf_counter()
        decided = msgspec.json.encode((facts, options), order="deterministic")
        key = object_key("kernel", ttir, decided.decode(), opt=opt)
        entry = store.read(key)
        phases["lookup"] = time.perf_counter() - start
        kernel = None if entry is None else _restore(entry, store, key, phases, defined)
        if kernel is not None:
            return Compilation(kernel, True, phases)
    start = time.perf_counter()
    emitted = build()
    phases["emit"] = time.perf_counter() - start
    object_code = _compiled(emitted.llvm_ir, name, defined, opt, phases)
    start = time.perf_counter()
    native = jit.load(object_code)
    loaded = time.perf_counter()
    phases["load"] = loaded - start
    if key and store is not None:
        store.write(key, _packed(emitted), object_code)
        phases["store"] = time.perf_counter() - loaded
    return Compilation(_kernel(emitted, native, object_code, defined), False, phases)


def _compiled(
    llvm_ir: str,
    name: str,
    defined: SourceLocation | None,
    opt: int,
    phases: dict[str, float],
) -> bytes:
    """Return the object of a module; where this thread's work may be stopped, so may the wait."""
    if _may_take_long(llvm_ir, is_limited=current_work() is not None):
        # Few programs need what this imports.
        from ttools.interpreter.native import compiler_process as apart

        try:
            return apart.compile_in_process(llvm_ir, name=name, opt=opt, phases=phases)
        except apart.CompilerProcessError as error:
            apart.warn_of_fallback(name, error)

    def generate() -> bytes:
        with crash_note.compiling(name, defined):
            return jit.compile_ir(llvm_ir, name=name, opt=opt, phases=phases)

    return wait_for(generate)


def _may_take_long(llvm_ir: str, *, is_limited: bool) -> bool:
    """Return whether a module may take LLVM so long that it goes to a process of its own.

    Args:
        llvm_ir: Text of the module.
        is_limited: True if a time limit may end the wait before the module is compiled.
    """
    is_quickest = llvm_ir.startswith(jit.QUICKEST)
    rate = _QUICKEST_SECONDS_PER_CHARACTER if is_quickest else _SECONDS_PER_CHARACTER
    return len(llvm_ir) * rate > (_LONG_LIMITED_S if is_limited else _LONG_S)


def _restore(
    entry: Entry,
    store: ObjectStore,
    key: str,
    phases: dict[str, float],
    defined: SourceLocation | None,
) -> Kernel | None:
    start = time.perf_counter()
    try:
        emitted, native = _unpacked(entry.metadata), jit.load(entry.object_code)
        kernel = _kernel(emitted, native, entry.object_code, defined)
    except Exception:  # noqa: BLE001 - whole, but not what we write: as good as absent
        store.discard(key)
        return None
    phases["load"] = time.perf_counter() - start
    return kernel


def _packed(emitted: EmittedModule) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(emitted), level=1)


def _unpacked(metadata: bytes) -> EmittedModule:
    return msgspec.msgpack.decode(zlib.decompress(metadata), type=EmittedModule)


def _kernel(
    emitted: EmittedModule,
    native: jit.NativeCode,
    object_code: bytes,
    defined: SourceLocation | None,
) -> Kernel:
    lines = line_table(object_code, jit.ENTRY) if emitted.locations else None
    return Kernel(emitted, native, lines, defined)


# ---- keys


def object_key(*parts: str, opt: int) -> str:
    """Return a key of everything in `parts` and everything else that decides machine code."""
    target = jit.host_target()
    digest = hashlib.sha256()
    for part in (*parts, *_versions(), str(ABI_VERSION), target.cpu, target.features, str(opt)):
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _versions() -> tuple[str, ...]:
    return (
        f"ttools {_version('ttools-interpreter')} {fingerprint('ttools.interpreter')}",
        f"ttools.ir {fingerprint('ttools.ir')}",
        f"triton {_version('triton')}",
        f"llvmlite {_version('llvmlite')} {jit.llvm_version()}",
    )


def _version(distribution: str) -> str:
    module = sys.modules.get(distribution)
    module_version = getattr(module, "__version__", None)
    if isinstance(module_version, str):
        return module_version
    return installed_version(distribution) or "none"
