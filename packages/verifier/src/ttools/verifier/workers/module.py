"""Prepares a process for the files of a verification, and describes what they raise."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ttools.core.process.user_module import LoadError, describe, program_line


def leave_out_compiler() -> None:
    """What `torch.compile` is asked for runs as it is: the same meaning, and each operator is seen.

    Modes tell torch's compiler to pass them over, for which it would be imported: two seconds in
    each process, where nothing is compiled.
    """
    torch.compile = _as_it_is
    if "torch._dynamo" not in sys.modules:
        name = "_disable_dynamo"
        setattr(torch, name, lambda fn=None, recursive=True: fn)


def _as_it_is(model: Any = None, **_: Any) -> Any:
    """For `torch.compile`, also as a decorator with arguments."""
    return (lambda given: given) if model is None else model


def not_loaded(error: BaseException) -> dict[str, str]:
    """Return the answer of a process that cannot load its files."""
    if isinstance(error, LoadError):
        return {"not_loaded": error.reason}
    return {"not_loaded": f"cannot be loaded: {describe(error)}"}


def described(error: BaseException) -> dict[str, Any]:
    """Describe an exception by its kind, its text and the innermost line of the program."""
    text = str(error).strip() or type(error).__name__
    return {"kind": type(error).__name__, "text": text[:2000], "where": program_line(error)}
