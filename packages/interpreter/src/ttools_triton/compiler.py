"""The compiler half of the plugin, where Triton looks for it."""

from __future__ import annotations

from triton.backends.compiler import BaseBackend

from ttools_triton import find

CPUBackend = find("compiler", "CPUBackend", BaseBackend)
