"""Lets child processes of the user's program take part in the current run.

A run stores the name of a function in an environment variable. In a new process, the backend plugin
reads this variable when Triton is imported, and calls the function. A forked process needs no such
call, because it inherits the state of the run.
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

#: The underscore marks the variable as internal.
_VARIABLE = "_TTOOLS_RUN"
#: The last module that `import triton` imports; after it, Triton is completely imported.
_LAST_MODULE = "triton.tools"
#: The main module of TorchInductor's workers, which import Triton only to compile.
_COMPILE_WORKER = "_inductor/compile_worker/__main__.py"

_lock = threading.Lock()
#: The active requests of this process as JSON, the latest last.
_requests: list[str] = []


@contextmanager
def children_call(function: str, argument: Mapping[str, Any]) -> Iterator[None]:
    """Make new child processes call a function once they have imported Triton.

    This applies to processes that start during the `with` block.

    Args:
        function: Qualified name, written as `module:name`.
        argument: The argument of the function; it is passed on as JSON.
    """
    text = json.dumps({"owner": os.getpid(), "call": function, "given": argument})
    with _lock:
        previous = None if _requests else os.environ.get(_VARIABLE)
        _requests.append(text)
        os.environ[_VARIABLE] = text
    try:
        yield
    finally:
        with _lock:
            _requests.remove(text)
            if _requests:
                os.environ[_VARIABLE] = _requests[-1]
            elif previous is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = previous


def without_run(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of an environment with which child processes do not join the run."""
    return {name: value for name, value in environment.items() if name != _VARIABLE}


def join_run() -> None:
    """Call the function that a parent process requests, as soon as Triton is imported."""
    text = os.environ.get(_VARIABLE)
    if text is None or _requests:
        return  # there is no run, or this is a fork of a process that takes part in it
    request = json.loads(text)
    if request["owner"] != os.getpid() and not _is_compile_worker():
        after_import(_LAST_MODULE, lambda _: _call(request))


def _is_compile_worker() -> bool:
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(program, str):
        return False
    workers = (Path(folder, _COMPILE_WORKER) for folder in package_folders("torch"))
    return Path(program).resolve() in workers


def _call(request: Mapping[str, Any]) -> None:
    module, _, name = request["call"].partition(":")
    try:
        owner: ModuleType = importlib.import_module(module)
        getattr(owner, name)(request["given"])
    except Exception as error:  # noqa: BLE001 - the program must not fail
        sys.stderr.write(f"ttools: this process is not included in the run: {error}\n")
