"""Reduction of kernels that do not compile to the smallest ones that fail in the same way."""

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
