"""Verifies Triton kernels against references, for all inputs that a caller may pass.

    result = ttools.verifier.verify(
        "kernel.py:candidate", "kernel.py:reference", "kernel.py:inputs"
    )
    result.raise_for_failures()

The public names are imported on first use, because this package contains a pytest plugin, and test
runs that do not use the plugin must not import the verifier.

PYTEST_DONT_REWRITE: this word keeps pytest from rewriting the assertions of this package. If a
verification runs pytest, the package is already imported, and pytest would print a warning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.verifier.api import Failure, Verification, VerifyOptions, verify
    from ttools.verifier.reproducibility.api import reproduce
    from ttools.verifier.reproducibility.result import Answer, Reproducibility

__all__ = [
    "Answer",
    "Failure",
    "Reproducibility",
    "Verification",
    "VerifyOptions",
    "reproduce",
    "verify",
]
_REPRODUCIBILITY = {"Answer": "report", "Reproducibility": "report", "reproduce": "api"}


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _REPRODUCIBILITY:
        module = f"ttools.verifier.reproducibility.{_REPRODUCIBILITY[name]}"
        return getattr(import_module(module), name)
    from ttools.verifier import api

    return getattr(api, name)
