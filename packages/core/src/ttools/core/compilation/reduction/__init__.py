"""Reduces a kernel whose compilation fails to the smallest one that fails in the same way."""

from __future__ import annotations

from ttools.core.compilation.reduction.failure import CompileFailure
from ttools.core.compilation.reduction.search import (
    DEFAULT_COMPILE_SECONDS,
    DEFAULT_SECONDS,
    Reduction,
    ReductionProgress,
    reduce_failure,
)
from ttools.core.compilation.reduction.trial import Compiler, kernel_codec

__all__ = [
    "DEFAULT_COMPILE_SECONDS",
    "DEFAULT_SECONDS",
    "CompileFailure",
    "Compiler",
    "Reduction",
    "ReductionProgress",
    "kernel_codec",
    "reduce_failure",
]
