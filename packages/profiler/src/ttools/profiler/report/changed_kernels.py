"""Determines which instructions a kernel saves if its TTIR is changed, by compiling the change."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.stages import compile_for
from ttools.core.errors import TtoolsError
from ttools.core.gpus.targets import Target
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu_time.instruction_mix import executed_by


def with_changes(
    ttir: str,
    pattern: re.Pattern[str],
    numbers: Collection[int],
    changed: Callable[[int, re.Match[str]], str],
) -> str:
    """Return the text of a kernel in which some operations are replaced.

    Args:
        ttir: Text of a kernel.
        pattern: Regular expression that matches the operations which may be replaced.
        numbers: Indices of the matches that are replaced, starting at 0.
        changed: Function that returns the new text, given the index of a match and the match.
    """
    parts, end = [], 0
    for number, match in enumerate(pattern.finditer(ttir)):
        if number in numbers:
            parts += [ttir[end : match.start()], changed(number, match)]
            end = match.end()
    return "".join([*parts, ttir[end:]])


def saved_share(inspection: Inspection, counts: WorkCounts, ttir: str) -> float | None:
    """Return the share of the executed instructions that a changed kernel saves; None if unknown.

    Args:
        inspection: The kernel, compiled for an NVIDIA GPU.
        counts: Work of a launch, which the change must not affect.
        ttir: The changed text of the kernel.
    """
    code, warps = inspection.machine_code, inspection.resources.warps
    if code is None:
        return None
    source, target = inspection.source, inspection.target
    other = _compiled(ttir, source.name, tuple(sorted(source.options.items())), target)
    if other is None or other.machine_code is None:
        return None
    before = executed_by(code, counts, warps).units.total()
    after = executed_by(other.machine_code, counts, other.resources.warps).units.total()
    return (before - after) / before if before else None


@lru_cache(maxsize=64)
def _compiled(
    ttir: str, name: str, options: tuple[tuple[str, Any], ...], target: Target
) -> Inspection | None:
    """Compile the text of a kernel; return None if Triton's compiler rejects it."""
    with tempfile.TemporaryDirectory(prefix="ttools-changed-") as folder:
        file = Path(folder) / f"{name}.ttir"
        file.write_text(ttir)
        source = KernelSource(name=name, path=file, options=dict(options))
        try:
            inspection = Inspection(compile_for(source, target))
            inspection.readings()
        except TtoolsError:
            return None
        return inspection
