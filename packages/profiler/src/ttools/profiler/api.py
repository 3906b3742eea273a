"""`profile()`: times and counts what chosen Triton kernels do.

The public face of the profiler. Owns what the arguments may be; the rest is delegated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.specialisation import captured
from ttools.core.compilation.stages import CompilationError, compile_for
from ttools.core.errors import UsageError
from ttools.interpreter import interpret
from ttools.profiler.devices import Device, read_device
from ttools.profiler.frames import kernel_frame, line_frame
from ttools.profiler.session import Session

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
R = TypeVar("R")


class Profile:
    """A profiled run, as a context manager and as a decorator; made by `profile`."""

    def __init__(
        self,
        session: Session,
        device: Device | None,
        only: Sequence[str] | None,
        threads: int | None,
    ) -> None:
        self._session, self.device, self._only = session, device, only
        self._interpretation = interpret(
            only=only, threads=threads, first_config=True, observer=session
        )
        self._sources: list[KernelSource] = []
        self._capture: Any = None

    @property
    def frame(self) -> pd.DataFrame:
        """A row per kernel and configuration; see `frames.kernel_frame` for the columns."""
        return kernel_frame(self._session.samples, self.device)

    @property
    def lines(self) -> pd.DataFrame:
        """A row per line of source; see `frames.line_frame` for the columns."""
        return line_frame(self._session.samples)

    @property
    def notes(self) -> dict[str, str]:
        """What could not be counted, by kernel."""
        return dict(self._session.notes)

    @property
    def launches(self) -> int:
        """How many kernels were launched so far."""
        return len(self._session.samples)

    @functools.cached_property
    def inspections(self) -> list[Inspection]:
        """What the device's compiler makes of each specialisation; compiled when first asked for.

        Kernels that do not compile for the device are left out and named in `notes`.
        """
        found = []
        for source in self._sources if self.device else ():
            assert self.device is not None
            try:
                found.append(Inspection(compile_for(source, self.device.target)))
            except CompilationError as error:
                self._session.notes.setdefault(source.name, str(error))
        return found

    def __enter__(self) -> Profile:
        self._capture = captured(names=self._only or ())
        self._sources = self._capture.__enter__()
        self._interpretation.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._interpretation.__exit__(kind, error, traceback)
        self._capture.__exit__(kind, error, traceback)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Profiles what a function launches."""

        @functools.wraps(function)
        def profiled(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return profiled


def profile(
    *,
    device: str | None = None,
    only: Sequence[str] | None = None,
    threads: int | None = None,
) -> Profile:
    """Runs kernels on the CPU and tells what they do there, and what a GPU would need for it.

    Args:
        device: a GPU by name, as `h100`: its roofline bounds each launch from below.
        only: names of the kernels to profile; all others run as they would without.
        threads: how many threads run the programs of a launch; as many as torch uses by default.

    Raises:
        UsageError: an argument is not one of those.

    Example:
        with profile(device="h100") as prof:
            kernel[grid](x, y, n)
        print(prof.frame[["kernel", "flops", "unique_bytes", "bound_s", "limited_by"]])
    """
    if isinstance(only, str):
        raise UsageError(f"only={only!r}: give a list of names")
    known = None if device is None else read_device(device)
    return Profile(Session(), known, only, threads)
