"""`profile()`: times and counts what chosen Triton kernels do.

The public face of the profiler. Owns what the arguments may be; the rest is delegated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.specialisation import captured
from ttools.core.compilation.stages import CompilationError, compile_for
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.profiler.devices import Device, device_of_machine, read_device
from ttools.profiler.frames import config_text, kernel_frame, line_frame
from ttools.profiler.gpu.session import GpuSession
from ttools.profiler.session import CpuSession, Session

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
R = TypeVar("R")


class Profile:
    """A profiled run, as a context manager and as a decorator; made by `profile`.

    Attributes:
        device: whose roofline bounds launches.
        place: where kernels are timed: `the CPU`, `the GPU`.
    """

    def __init__(self, session: Session, device: Device | None, only: Sequence[str] | None) -> None:
        self._session, self.device, self._only = session, device, only
        self.place = session.place
        self._sources: list[KernelSource] = []
        self._active: list[ExitStack] = []

    @property
    def frame(self) -> pd.DataFrame:
        """A row per kernel and configuration; see `frames.kernel_frame` for the columns."""
        on_device = self.place == "the GPU"
        return kernel_frame(self._session.samples, self.device, on_device=on_device)

    @property
    def lines(self) -> pd.DataFrame:
        """A row per line of source; see `frames.line_frame` for the columns."""
        return line_frame(self._session.samples)

    @property
    def seconds(self) -> dict[tuple[str, str], list[float]]:
        """The time of each launch, by kernel and configuration."""
        found: dict[tuple[str, str], list[float]] = {}
        for sample in self._session.samples:
            found.setdefault((sample.kernel, config_text(sample.config)), []).append(sample.seconds)
        return found

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
        with ExitStack() as stack:
            self._sources = stack.enter_context(captured(names=self._only or ()))
            stack.enter_context(self._session.running())
            self._active.append(stack.pop_all())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._active.pop().__exit__(kind, error, traceback)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Profiles what a function launches."""

        @functools.wraps(function)
        def profiled(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return profiled


def profile(
    *,
    on: Literal["auto", "cpu", "gpu"] = "auto",
    device: str | None = None,
    only: Sequence[str] | None = None,
    threads: int | None = None,
    counts: bool = True,
) -> Profile:
    """Tells what kernels do, how long that takes, and what bounds it.

    Args:
        on: where kernels run and are timed: on a GPU by Proton, or on the CPU. `auto` is the GPU
            where there is one.
        device: a GPU by name, as `h100`: its roofline bounds each launch from below. By default the
            machine's own, if it is in the table.
        only: names of the kernels to profile; all others run as they would without.
        threads: how many threads run the programs of a launch on the CPU; as many as torch uses by
            default.
        counts: whether to count what launches on a GPU do, which copies the tensors of the first of
            equal launches to the host.

    Raises:
        UsageError: an argument is not one of those, or there is no GPU.

    Example:
        with profile(device="h100") as prof:
            kernel[grid](x, y, n)
        print(prof.frame[["kernel", "flops", "unique_bytes", "bound_s", "limited_by"]])
    """
    if isinstance(only, str):
        raise UsageError(f"only={only!r}: give a list of names")
    if on not in ("auto", "cpu", "gpu"):
        raise UsageError(f"on={on!r}: must be auto, cpu or gpu")
    has_gpu = gpu_usable()
    if on == "gpu" and not has_gpu:
        raise UsageError("on='gpu': there is no GPU here that torch can use")
    known = device_of_machine() if device is None else read_device(device)
    session: Session
    if on == "cpu" or not has_gpu:
        session = CpuSession(only, threads)
    else:
        session = GpuSession(only, counts=counts)
    return Profile(session, known, only)
