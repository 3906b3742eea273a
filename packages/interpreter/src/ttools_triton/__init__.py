"""The package in which Triton finds the CPU backend; it is outside `ttools` on purpose.

Triton does not catch errors when it imports the entry points of its backends. If they were in the
package `ttools`, a third-party module with that name would hide them, and `import triton` would
fail. This package imports the compiler and the driver of the backend. If that fails, it replaces
them by classes that are never active. It imports only the standard library and Triton.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from typing import Any, NoReturn


def find(half: str, name: str, base: type) -> type:
    """Return a class of the plugin, or a class that is never active if the import fails.

    Args:
        half: Module with the class: `compiler` or `driver`.
        name: Name of the class.
        base: Triton's abstract base class.
    """
    try:
        plugin: type = getattr(importlib.import_module(f"ttools.interpreter.backend.{half}"), name)
    except ImportError as error:
        if half == "compiler":  # Triton imports both; report the error once
            print(_sentence(error), file=sys.stderr)
        return _stand_in(base)
    return plugin


def _sentence(error: ImportError) -> str:
    spec = PathFinder.find_spec("ttools")
    if spec is None or spec.origin is None:
        cause, remedy = str(error), "reinstall ttools-core and ttools-interpreter"
    else:
        cause = f"`import ttools` finds {spec.origin}, which is unrelated to this tool"
        remedy = "uninstall or rename it"
    return f"ttools: Triton runs without its CPU backend: {cause}; {remedy}"


def _stand_in(base: type) -> type:
    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise RuntimeError("the CPU backend of ttools could not be imported; see `ttools doctor`")

    body: dict[str, Any] = dict.fromkeys(getattr(base, "__abstractmethods__", ()), refuse)
    body["is_active"] = body["supports_target"] = staticmethod(lambda *target: False)
    return type("AbsentBackend", (base,), body)
