"""Compilations that do not end by themselves, for tests of what ends them."""

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

_BLOCKS, _WAYS = 12_000, 8


def endless_module() -> str:
    """Return a function that takes LLVM many minutes: its blocks go on to any of a few others."""
    lines = ["define void @ttools_run(ptr %launch, ptr %arena) {", "  br label %b0"]
    for n in range(_BLOCKS):
        ways = " ".join(f"i64 {k}, label %b{(n * k + k) % _BLOCKS}" for k in range(_WAYS))
        lines += [f"b{n}:", f"  %x{n} = load volatile i64, ptr %launch"]
        lines += [f"  switch i64 %x{n}, label %b{(7 * n + 1) % _BLOCKS} [ {ways} ]"]
    return "\n".join([*lines, "}"])


@contextmanager
def endless_compilation(kernel: str) -> Iterator[None]:
    """Have LLVM get an endless module for the kernel of this name."""
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
    """Serve as a process does that is not given any time."""
    ctypes.CDLL(None).sleep(1000)


def is_killed(channel: Channel) -> None:
    """Serve until the system wants the memory."""
    channel.receive()
    os.kill(os.getpid(), signal.SIGKILL)


def crashes(channel: Channel) -> None:
    """Serve as LLVM does when it gives up."""
    channel.receive()
    os.abort()


def exits(channel: Channel) -> int:
    """Serve nothing."""
    return 1
