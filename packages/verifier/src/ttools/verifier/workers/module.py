"""A file of the user's as a module, and what is wrong with it in a sentence."""

from __future__ import annotations

import linecache
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from ttools.core.ownership import is_program_file
from ttools.core.process.script import load_module


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


def load(word: str) -> tuple[Any, Any]:
    """The module and the function that `FILE.py:NAME` names; NAME may have dots.

    Raises:
        Exception: whatever the file raises; LookupError if it has no such function.
    """
    file, _, name = word.rpartition(":")
    path = Path(file).resolve()
    sys.path.insert(0, str(path.parent))
    module = load_module(path, path.stem)
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise LookupError(f"`{file}` has no function `{name}`")
    return module, found


def described(error: BaseException) -> dict[str, Any]:
    """Describe an exception by its kind, its text and the innermost line of the program."""
    where = ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_program_file(frame.filename):
            line = linecache.getline(frame.filename, frame.lineno or 0).strip()
            where = f"{Path(frame.filename).name}:{frame.lineno}: {line}"
            break
    text = str(error).strip() or type(error).__name__
    return {"kind": type(error).__name__, "text": text[:2000], "where": where}
