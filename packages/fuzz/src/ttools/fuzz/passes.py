"""Selection of the Triton passes that run before the engine reads a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from ttools.core.triton_versions import run_required_passes


@contextmanager
def fewest_passes() -> Iterator[None]:
    """Compile kernels without Triton's simplifications while the context is active.

    A `@triton.jit` function caches its compiled kernels by launch options, so a kernel that was
    compiled before must be launched with other options.
    """
    import triton  # noqa: F401 - must come first, because it imports the backend midway

    from ttools.interpreter.backend.compiler import CPUBackend
    from ttools.interpreter.frontend import triton_passes

    key = CPUBackend.hash
    with (
        mock.patch.object(triton_passes, "run_ttir_passes", run_required_passes),
        mock.patch.object(CPUBackend, "hash", lambda self: f"{key(self)}-fewest-passes"),
    ):
        yield
