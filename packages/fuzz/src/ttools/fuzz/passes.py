"""Which of Triton's passes a kernel has gone through before the engine reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from ttools.core.triton_versions import run_required_passes


@contextmanager
def fewest_passes() -> Iterator[None]:
    """Kernels that are compiled meanwhile are not simplified by Triton.

    A `@triton.jit` function keeps what it was compiled to before, for each set of options.
    """
    import triton  # noqa: F401 - imports the backend itself, halfway

    from ttools.interpreter.backend.compiler import CPUBackend
    from ttools.interpreter.frontend import front

    key = CPUBackend.hash
    with (
        mock.patch.object(front, "run_ttir_passes", run_required_passes),
        mock.patch.object(CPUBackend, "hash", lambda self: f"{key(self)}-fewest-passes"),
    ):
        yield
