"""Replacements for the functions by which Triton queries CUDA, without importing torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class CublasLt:
    """Replaces `triton._C.libtriton.nvidia.cublas.CublasLt`, which computes products `a @ b.T`."""

    def __init__(self, workspace: Any) -> None:
        del workspace

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """Compute `c = a @ b.T`, accumulated in float32."""
        self.gemm(a, b, c, c, 1.0, 0.0)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """Compute `d = alpha * a @ b.T + beta * c`, accumulated in float32."""
        product = alpha * (a.float() @ b.float().T)
        d.copy_(product + beta * c.float() if beta else product)


def triton_replacements(triton: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) for parts of Triton that would use CUDA."""
    # The modules are imported by name, because Triton's import may still be in progress in a child
    # process.
    libtriton = importlib.import_module(f"{triton.__name__}._C.libtriton")
    cublas = getattr(getattr(libtriton, "nvidia", None), "cublas", None)
    if cublas is not None:
        yield cublas, "CublasLt", CublasLt


def driver_replacements(driver: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) for Triton drivers that query torch for a GPU."""
    for value in list(vars(driver).values()):
        own = isinstance(value, type) and value.__module__ == driver.__name__
        if own and "is_active" in vars(value):
            yield value, "is_active", staticmethod(lambda: False)
