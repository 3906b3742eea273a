"""A session of Proton, Triton's profiler, and the times of kernels in the trace it writes.

Must not know what is made of the times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError


@dataclass(frozen=True)
class KernelTime:
    """How long one launch took on the GPU.

    Attributes:
        kernel: its name.
        begin: seconds on the trace's clock.
        seconds: it took.
    """

    kernel: str
    begin: float
    seconds: float


@contextmanager
def tracing(path: Path) -> Iterator[None]:
    """Traces what runs on the GPU while the context lasts; the trace is then in `path`.

    Raises:
        UsageError: Proton is not there, or cannot start here.
    """
    try:
        import triton.profiler as proton
    except ImportError as error:
        raise UsageError(f"this Triton has no Proton: {error}") from error
    stem = path.with_suffix("")
    try:
        session = proton.start(str(stem), data="trace")
    except Exception as error:
        raise UsageError(f"Proton cannot start: {type(error).__name__}: {error}") from error
    try:
        yield
    finally:
        import torch

        torch.cuda.synchronize()
        proton.finalize(session)


def trace_path(folder: Path) -> Path:
    """Where the trace of a session in a folder is written."""
    return folder / "profile.chrome_trace"


def kernel_times(path: Path) -> list[KernelTime]:
    """The launches in a trace, in the order in which they began.

    Raises:
        UsageError: the file is no trace.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the trace `{path}`: {error}") from error
    events = data.get("traceEvents", []) if isinstance(data, dict) else data
    found = [
        KernelTime(str(event["name"]), _seconds(event["ts"]), _seconds(event["dur"]))
        for event in events
        if isinstance(event, dict) and event.get("ph") == "X" and event.get("cat") == "kernel"
    ]
    return sorted(found, key=lambda each: each.begin)


def _seconds(microseconds: Any) -> float:
    return float(microseconds) / 1e6
