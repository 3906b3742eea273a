"""Prepares a process for the files of a verification, and describes exceptions that they raise."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ttools.core.compilation.compile_errors import is_compilation_error, message_in_one_line
from ttools.core.process.user_module import LoadError, describe, program_frame


def leave_out_compiler() -> None:
    """Make `torch.compile` return the function unchanged, so that each operator is observed.

    Torch's modes import torch's compiler only to exclude themselves from compilation. The import
    takes two seconds in each process. Since nothing is compiled, it is avoided.
    """
    torch.compile = _as_it_is
    if "torch._dynamo" not in sys.modules:
        name = "_disable_dynamo"
        setattr(torch, name, lambda fn=None, recursive=True: fn)


def _as_it_is(model: Any = None, **_: Any) -> Any:
    """Replace `torch.compile`, even where it is used as a decorator with arguments."""
    return (lambda function: function) if model is None else model


def has_loaded(function: str, modules: Iterable[ModuleType]) -> bool:
    """Return whether this process has loaded the file of a function.

    Args:
        function: The function as `FILE.py:NAME`.
        modules: Further modules to search, which may not be in `sys.modules`.
    """
    file = Path(function.rpartition(":")[0]).resolve()
    files = {getattr(loaded, "__file__", None) for loaded in (*sys.modules.values(), *modules)}
    alike = [Path(other) for other in files if isinstance(other, str) and other.endswith(file.name)]
    return any(other.resolve() == file for other in alike)


def not_loaded(error: BaseException) -> dict[str, str]:
    """Return the answer of a process that cannot load its files."""
    if isinstance(error, LoadError):
        return {"not_loaded": error.reason}
    return {"not_loaded": f"cannot be loaded: {describe(error)}"}


def described(error: BaseException) -> dict[str, Any]:
    """Describe an exception by its kind, its text and the innermost line of the user's program."""
    text = str(error).strip() or type(error).__name__
    if is_compilation_error(error):
        text = f"{message_in_one_line(error)}\n{text}"  # reports show the first line
    frame = program_frame(error)
    where = "" if frame is None else f"{frame.filename}:{frame.lineno}"
    return {"kind": type(error).__name__, "text": text[:2000], "where": where}
