"""Compilations that never finish, and failing compiler processes, for tests of time limits."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ttools.core.process.channel import Channel
from ttools.interpreter.run import variants

#: Basic blocks of the endless module, and cases of the `switch` that ends each of them.
_BLOCKS, _CASES = 12_000, 8


def endless_module() -> str:
    """Return LLVM IR that takes many minutes to compile: a dense, irregular control-flow graph."""
    lines = ["define void @ttools_run(ptr %launch, ptr %arena) {", "  br label %b0"]
    for n in range(_BLOCKS):
        cases = " ".join(f"i64 {k}, label %b{(n * k + k) % _BLOCKS}" for k in range(_CASES))
        lines += [f"b{n}:", f"  %x{n} = load volatile i64, ptr %launch"]
        lines += [f"  switch i64 %x{n}, label %b{(7 * n + 1) % _BLOCKS} [ {cases} ]"]
    return "\n".join([*lines, "}"])


@contextmanager
def endless_compilation(kernel: str) -> Iterator[None]:
    """Replace the LLVM IR of the kernel with this name by the endless module."""
    owner: Any = variants
    emit = owner.emit_kernel

    def emits(module: Any, *arguments: Any) -> Any:
        emitted = emit(module, *arguments)
        return replace(emitted, llvm_ir=endless_module()) if emitted.name == kernel else emitted

    owner.emit_kernel = emits
    try:
        yield
    finally:
        owner.emit_kernel = emit


def ignores(channel: Channel) -> None:
    """Serve as a compiler process that never answers."""
    ctypes.CDLL(None).sleep(1000)


def is_killed(channel: Channel) -> None:
    """Serve as a compiler process that is killed at its first request, as if memory ran out."""
    channel.receive()
    os.kill(os.getpid(), signal.SIGKILL)


def crashes(channel: Channel) -> None:
    """Serve as a compiler process in which LLVM aborts."""
    channel.receive()
    os.abort()


def exits(channel: Channel) -> int:
    """Serve as a compiler process that exits at once."""
    return 1
