"""Lets processes that a program starts take part in the run that the program is in.

A run says in a variable of the environment, which all children inherit, what a process that begins
anew is to call; the backend plugin looks for it where Triton is imported. Forked processes have the
run already.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ttools.core.imports import after_import
from ttools.core.ownership import package_folders

#: Not for users, so it begins otherwise than theirs.
_VARIABLE = "_TTOOLS_RUN"
#: What Triton imports last: all that a run may want of it is there.
_LAST_MODULE = "triton.tools"
#: The module that TorchInductor's workers run: they import Triton to compile for their parent.
_COMPILE_WORKER = "_inductor/compile_worker/__main__.py"

_lock = threading.Lock()
#: What the runs of this process ask for, the latest last.
_asked: list[str] = []


@contextmanager
def children_call(function: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Has processes that begin meanwhile call a function as soon as they have imported Triton.

    Args:
        function: `module:name`.
        given: what it is given, as JSON.
    """
    text = json.dumps({"owner": os.getpid(), "call": function, "given": given})
    with _lock:
        before = None if _asked else os.environ.get(_VARIABLE)
        _asked.append(text)
        os.environ[_VARIABLE] = text
    try:
        yield
    finally:
        with _lock:
            _asked.remove(text)
            if _asked:
                os.environ[_VARIABLE] = _asked[-1]
            elif before is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = before


def without_run(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment whose processes take no part in the run."""
    return {name: value for name, value in environment.items() if name != _VARIABLE}


def join_run() -> None:
    """Calls the function that a process above this one asks for, once Triton has been imported."""
    text = os.environ.get(_VARIABLE)
    if text is None or _asked:
        return  # no run, or a fork of the process that asks, which is in the run
    asked = json.loads(text)
    if asked["owner"] != os.getpid() and not _is_compile_worker():
        after_import(_LAST_MODULE, lambda _: _call(asked))


def _is_compile_worker() -> bool:
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(program, str):
        return False
    workers = (Path(folder, _COMPILE_WORKER) for folder in package_folders("torch"))
    return Path(program).resolve() in workers


def _call(asked: Mapping[str, Any]) -> None:
    module, _, name = asked["call"].partition(":")
    try:
        found: ModuleType = importlib.import_module(module)
        getattr(found, name)(asked["given"])
    except Exception as error:  # noqa: BLE001 - the program is not to fail for it
        sys.stderr.write(f"ttools: this process takes no part in the run: {error}\n")
