"""Counts the work of Triton kernels and measures their times.

    with ttools.profiler.profile(gpu="h100") as prof:
        kernel[grid](...)
    prof.analyse().frame  # a pandas DataFrame

Operations and bytes are counted; kernels need no annotations. Public names are imported on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ttools.profiler.api import profile
    from ttools.profiler.report.analysis import ProfileAnalysis
    from ttools.profiler.report.profile import Profile
    from ttools.profiler.sweep.sweep import Sweep

__all__ = ["Profile", "ProfileAnalysis", "Sweep", "profile"]

__getattr__ = lazy_names(
    __name__,
    {
        "Profile": "report.profile",
        "ProfileAnalysis": "report.analysis",
        "Sweep": "sweep.html",
        "profile": "api",
    },
)
