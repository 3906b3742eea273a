"""The module in which Triton looks for the compiler of the CPU backend."""

from __future__ import annotations

from triton.backends.compiler import BaseBackend

from ttools_triton import find

CPUBackend = find("compiler", "CPUBackend", BaseBackend)
