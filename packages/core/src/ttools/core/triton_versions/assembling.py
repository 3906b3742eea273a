"""What ptxas prints while Triton's NVIDIA backend assembles a kernel.

Triton runs `ptxas -v` with its output in a temporary file, which it deletes. The output is the only
place that says how many bytes are spilled: a cubin has the size of the stack frame alone, and that
also holds arrays, such as the one that the argument reduction of `sin` and `cos` indexes.
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
    """Collect the output of each ptxas that this thread runs through Triton's backend."""
    from triton.backends.nvidia import compiler

    found: list[str] = []
    with Patches() as patches:
        patches.wrap(compiler, "subprocess", lambda module: _ReadingSubprocess(module, found))
        yield found


class _ReadingSubprocess:
    """Stands for the module `subprocess`: reads the file that standard error was written to."""

    def __init__(self, module: ModuleType, found: list[str]) -> None:
        self._module, self._found = module, found
        self._thread = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def run(self, *args: Any, stderr: Any = None, **options: Any) -> Any:
        done = self._module.run(*args, stderr=stderr, **options)
        name = getattr(stderr, "name", None)
        if isinstance(name, str) and threading.get_ident() == self._thread:
            self._found.append(Path(name).read_text())
        return done


def spill_traffic(output: str) -> int | None:
    """Return the bytes that ptxas says its spill stores and loads move, over all functions.

    Returns:
        None if the output does not say.
    """
    found = _SPILLS.findall(output)
    return sum(int(stored) + int(loaded) for stored, loaded in found) if found else None
