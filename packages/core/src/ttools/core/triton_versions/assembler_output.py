"""The output of ptxas while Triton's NVIDIA backend assembles a kernel.

Triton runs `ptxas -v` and writes the output to a temporary file, which it deletes later. The number
of spilled bytes is contained only in this output. A cubin contains just the size of the stack
frame, which also includes arrays, such as the one in the argument reduction of `sin` and `cos`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ttools.core.patches import Patches

_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@contextmanager
def assembler_output() -> Iterator[list[str]]:
    """Collect the output of each ptxas run that Triton's backend starts in this thread."""
    from triton.backends.nvidia import compiler

    outputs: list[str] = []
    with Patches() as patches:
        patches.wrap(compiler, "subprocess", lambda module: _ReadingSubprocess(module, outputs))
        yield outputs


class _ReadingSubprocess:
    """Replaces the module `subprocess`, and reads the file to which standard error was written."""

    def __init__(self, module: ModuleType, outputs: list[str]) -> None:
        self._module, self._outputs = module, outputs
        self._thread = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def run(self, *args: Any, stderr: Any = None, **options: Any) -> Any:
        done = self._module.run(*args, stderr=stderr, **options)
        name = getattr(stderr, "name", None)
        if isinstance(name, str) and threading.get_ident() == self._thread:
            self._outputs.append(Path(name).read_text())
        return done


def spill_traffic(output: str) -> int | None:
    """Return how many bytes spills store and load in all functions, according to ptxas.

    Returns:
        The number, or None if the output does not contain it.
    """
    spills = _SPILLS.findall(output)
    return sum(int(stored) + int(loaded) for stored, loaded in spills) if spills else None
