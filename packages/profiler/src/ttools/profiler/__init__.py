"""What Triton kernels do and how long that takes.

    with ttools.profiler.profile(device="h100") as prof:
        kernel[grid](...)
    prof.frame  # a pandas DataFrame

Operations and bytes are counted, not annotated. The public names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.profiler.api import profile
    from ttools.profiler.report.profile import Profile

__all__ = ["Profile", "profile"]


def __getattr__(name: str) -> object:
    """Imports a public name when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ttools.profiler import api

    return getattr(api, name)
