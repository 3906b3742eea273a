"""`FILE.py:NAME`: one kernel or function of a file, which is loaded as a module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from inspect import isroutine
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.process.script import load_module


def load_kernel(word: str) -> Any:
    """The `JITFunction` that a word names; decorators around it are taken off.

    Raises:
        UsageError: there is no such file or kernel, or the file cannot be loaded.
    """
    from ttools.core.compilation.kernel_source import kernel_within

    return kernel_within(load_decorated(word))


def load_decorated(word: str, *, or_function: bool = False) -> Any:
    """The kernel that a word names, with the decorators around it.

    Args:
        word: `FILE.py:KERNEL`.
        or_function: whether it may be a function that launches kernels.

    Raises:
        UsageError: there is no such file or kernel, or the file cannot be loaded.
    """
    file, _, name = word.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"there is no file `{file}`")
    module = _load(path)
    from ttools.core.compilation.kernel_source import kernel_within

    kernels = {n: k for n in dir(module) if kernel_within(k := getattr(module, n)) is not None}
    if or_function and name not in kernels and isroutine(getattr(module, name, None)):
        return getattr(module, name)
    if name not in kernels:
        close = get_close_matches(name, kernels) or sorted(kernels)
        hint = f"; it has {', '.join(close)}" if close else "; it has no kernel"
        raise UsageError(f"`{file}` has no kernel `{name}`{hint}")
    return kernels[name]


def load_functions(words: Sequence[str]) -> list[tuple[Any, Any]]:
    """The module and the function that each word names; a file is loaded once.

    Raises:
        UsageError: there is no such file or function, or the file cannot be loaded.
    """
    modules: dict[Path, Any] = {}
    found = []
    for word in words:
        file, _, name = word.rpartition(":")
        path = Path(file).resolve()
        if not file or not name.isidentifier():
            raise UsageError(f"`{word}`: a function is named as FILE.py:FUNCTION")
        if not path.is_file():
            raise UsageError(f"there is no file `{file}`")
        if path not in modules:
            modules[path] = _load(path)
        function = getattr(modules[path], name, None)
        if not callable(function):
            names = [n for n in vars(modules[path]) if isroutine(getattr(modules[path], n))]
            close = get_close_matches(name, names)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise UsageError(f"`{file}` has no function `{name}`{hint}")
        found.append((modules[path], function))
    return found


def _load(path: Path) -> Any:
    # As `python FILE` would: its neighbours can be imported.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        return load_module(path, path.stem)
    except Exception as error:
        raise UsageError(f"`{path}` cannot be loaded: {type(error).__name__}: {error}") from error
