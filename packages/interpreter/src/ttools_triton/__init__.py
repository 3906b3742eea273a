"""Entry point at which Triton finds the CPU backend; deliberately outside the `ttools` namespace.

Triton imports the modules of its backends' entry points unguarded. Were they in the namespace, a
stranger's `ttools` that hides it would make `import triton` fail. This package imports the real
halves of the plugin, and where that fails stands in for them with classes that are never active.
It must not know what the plugin does, and imports only the standard library and Triton.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from typing import Any, NoReturn


def find(half: str, name: str, base: type) -> type:
    """Return the plugin's class, or one that is never active when it cannot be imported.

    Args:
        half: `compiler` or `driver`.
        base: Triton's abstract class of it.
    """
    try:
        found: type = getattr(importlib.import_module(f"ttools.interpreter.backend.{half}"), name)
    except ImportError as error:
        if half == "compiler":  # Triton asks for both halves, one line is enough
            print(_sentence(error), file=sys.stderr)
        return _stand_in(base)
    return found


def _sentence(error: ImportError) -> str:
    spec = PathFinder.find_spec("ttools")
    if spec is None or spec.origin is None:
        cause, remedy = str(error), "reinstall ttools-core and ttools-interpreter"
    else:
        cause = f"`import ttools` finds {spec.origin}, which is not ours"
        remedy = "uninstall or rename that"
    return f"ttools: Triton runs without its CPU backend: {cause}; {remedy}"


def _stand_in(base: type) -> type:
    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise RuntimeError("the CPU backend of ttools could not be imported; see `ttools doctor`")

    body: dict[str, Any] = dict.fromkeys(getattr(base, "__abstractmethods__", ()), refuse)
    body["is_active"] = body["supports_target"] = staticmethod(lambda *target: False)
    return type("AbsentBackend", (base,), body)
