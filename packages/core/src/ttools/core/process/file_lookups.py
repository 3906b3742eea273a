"""Records which files a program looks for, whether or not they exist."""

from __future__ import annotations

import builtins
import io
import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core.patches import Patches

#: Functions through which Python code looks for a file: `os.path.exists` and `Path.exists` call
#: `os.stat`, and `Path.open` calls `io.open`.
_FUNCTIONS: list[tuple[Any, str]] = [(os, "stat"), (builtins, "open"), (io, "open")]
if hasattr(pathlib, "_normal_accessor"):  # `Path` of Python 3.10 calls its own references to them
    _FUNCTIONS += [(pathlib._normal_accessor, "stat"), (pathlib._normal_accessor, "open")]


@contextmanager
def file_lookups(wanted: Callable[[str], bool]) -> Iterator[dict[str, None]]:
    """Record the base names of files that are looked for within the `with` block.

    Args:
        wanted: Function that returns whether a base name is recorded.

    Yields:
        The names in the order of their first look-up; names are added while the block runs.
    """
    names: dict[str, None] = {}

    def recording(function: Callable[..., Any]) -> Callable[..., Any]:
        def look_up(*arguments: Any, **options: Any) -> Any:
            path = arguments[0] if arguments else None
            if isinstance(path, (str, os.PathLike)):
                name = os.path.basename(os.fspath(path))  # noqa: PTH119 - of any path, also bytes
                if isinstance(name, str) and wanted(name):
                    names.setdefault(name)
            return function(*arguments, **options)

        return look_up

    with Patches() as patches:
        for module, name in _FUNCTIONS:
            patches.wrap(module, name, recording)
        yield names
