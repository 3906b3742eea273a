"""Verifies Triton kernels against references, over everything that a caller may pass.

    result = ttools.verifier.verify(
        "kernel.py:candidate", "kernel.py:reference", "kernel.py:inputs"
    )
    assert result.verdict == "pass", result.failures

The public names are resolved on first use: the pytest plugin lives in this package, and a test run
that does not use it must import nothing for it.

PYTEST_DONT_REWRITE: pytest finds this package loaded where a verification runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.verifier.api import Failure, Verification, VerifyOptions, verify

__all__ = ["Failure", "Verification", "VerifyOptions", "verify"]


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ttools.verifier import api

    return getattr(api, name)
