"""`profile()`: times and counts what chosen Triton kernels do.

The public face of the profiler. Owns what the arguments may be; the rest is delegated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.stages import CompilationError, compile_for
from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.gpus.devices import Device, device_of_machine, read_device
from ttools.core.gpus.targets import Target, read_target
from ttools.profiler.gpu.proton import Data, Hook, ProtonOptions
from ttools.profiler.gpu.session import GpuSession
from ttools.profiler.gpu_time.projection import Constants, is_projected, project, work_of
from ttools.profiler.report.access_frame import access_frame, qualities
from ttools.profiler.report.advice import Evidence, Hint, advise
from ttools.profiler.report.call_tree import Node, call_tree
from ttools.profiler.report.frames import kernel_frame, line_frame
from ttools.profiler.report.graph_frame import graph_frame
from ttools.profiler.run.configuration import config_text
from ttools.profiler.run.origin import Context
from ttools.profiler.run.repetition import Repetition
from ttools.profiler.run.session import CpuSession, Sample, Session

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
R = TypeVar("R")


class Profile:
    """A profiled run, as a context manager and as a decorator; made by `profile`.

    Attributes:
        device: whose roofline bounds launches.
        target: what kernels are compiled for, to report registers and the like.
        timed_on: where kernels are timed: `the CPU`, `the GPU`.
    """

    def __init__(
        self,
        session: Session,
        device: Device | None,
        target: Target | None,
    ) -> None:
        self._session, self.device, self.target = session, device, target
        self.timed_on = session.timed_on
        self._compiled: list[KernelSource] = []
        self._inspections: list[Inspection] = []
        self._active: list[ExitStack] = []
        #: What was found out of so many samples.
        self._known: tuple[int, list[Evidence]] = (0, [])

    @property
    def frame(self) -> pd.DataFrame:
        """A row per kernel and configuration; see `frames.kernel_frame` for the columns.

        Where there is a target, kernels are compiled for it when a frame is first asked for. A run
        on the CPU has a column `projected_s` for devices that `projection` knows, of the launch
        that requests most.
        """
        on_device = self.timed_on == "the GPU"
        frame = kernel_frame(
            self._session.samples,
            self.device,
            on_device=on_device,
            compiled=self.inspections if self.target else None,
            overheads=self._session.overheads,
        )
        if is_projected(self.device) and not on_device:
            times = self._projected()
            keys = zip(frame["kernel"], frame["config"], strict=True)
            frame["projected_s"] = [times.get(key, float("nan")) for key in keys]
        return frame

    def _projected(self) -> dict[tuple[str, str], float]:
        assert self.device is not None
        found = {}
        for each in self._largest():
            # Kernels for another target than the device's would be projected wrongly.
            if each.counts and each.inspection.target == self.device.target:
                work = work_of(each.counts, each.inspection, self.device, each.accesses)
                found[each.kernel, each.config] = project(work, Constants())
        return found

    @property
    def accesses(self) -> pd.DataFrame:
        """A row per access to tiles in memory, as the target's warps would make it.

        They are those of the launch that requests most. See `report.access_frame` for the
        columns; without a target or counts it is empty.
        """
        return access_frame((e.kernel, e.config, e.accesses) for e in self._largest())

    @property
    def advice(self) -> list[Hint]:
        """What costs time on the target, with evidence; empty without a target.

        Each specialisation is looked at in its launch that requests most; of equal hints the one
        for the larger launch is given.
        """
        found: dict[tuple[object, ...], Hint] = {}
        for each in self._evidence():
            for hint in advise(each):
                found.setdefault((hint.kernel, hint.config, hint.kind, hint.location), hint)
        return list(found.values())

    def _largest(self) -> list[Evidence]:
        """What is known of the launch that requests most, of each kernel and configuration."""
        found: dict[tuple[str, str], Evidence] = {}
        for each in self._evidence():
            found.setdefault((each.kernel, each.config), each)
        return list(found.values())

    def _evidence(self) -> list[Evidence]:
        """What is known of each specialisation, see `report.access_frame.qualities`."""
        samples = self._session.samples
        known, evidence = self._known
        if known == len(samples):
            return evidence
        evidence = [
            Evidence(
                kernel=sample.kernel,
                config=config_text(sample.config),
                inspection=inspection,
                accesses=accesses,
                counts=sample.counts,
            )
            for sample, inspection, accesses in qualities(
                samples, self.inspections, self._variants()
            )
        ]
        self._known = (len(samples), evidence)
        return evidence

    def _variants(self) -> dict[int, KernelSource]:
        """The session's, as those that were compiled."""
        found = self._session.variants
        for number, source in found.items():
            equal = (each for each in self._compiled if _is_same(each, source))
            found[number] = next(equal, source)
        return found

    @property
    def tree(self) -> Node:
        """Scopes, or Python's functions, with the kernels launched in them."""
        return call_tree(self._session.samples, self._session.scopes)

    @property
    def graphframe(self) -> Any:
        """The same tree as a `hatchet.GraphFrame` (llnl-hatchet), times in seconds."""
        return graph_frame([self.tree.as_literal()])

    @property
    def samples(self) -> Sequence[Sample]:
        """Every launch, in their order."""
        return tuple(self._session.samples)

    @property
    def lines(self) -> pd.DataFrame:
        """A row per line of source; see `frames.line_frame` for the columns."""
        return line_frame(self._session.samples)

    @property
    def seconds(self) -> dict[tuple[str, str], list[float]]:
        """The time of each launch, by kernel and configuration."""
        found: dict[tuple[str, str], list[float]] = {}
        for (_, kernel, config), seconds in self.seconds_by_scope.items():
            found.setdefault((kernel, config), []).extend(seconds)
        return found

    @property
    def seconds_by_scope(self) -> dict[tuple[tuple[str, ...], str, str], list[float]]:
        """The time of each launch, by the scopes around it, kernel and configuration."""
        found: dict[tuple[tuple[str, ...], str, str], list[float]] = {}
        for sample in self._session.samples:
            if sample.launches != 1:
                continue  # not timed apart
            key = sample.stack, sample.kernel, config_text(sample.config)
            found.setdefault(key, []).append(sample.seconds)
        return found

    @property
    def notes(self) -> dict[str, str]:
        """What could not be counted, by kernel."""
        return dict(self._session.notes)

    @property
    def launches(self) -> int:
        """How many kernels were launched in runs that have ended."""
        return sum(sample.launches for sample in self._session.samples)

    @property
    def seen(self) -> int:
        """How many of Triton's kernels were launched so far, also while the run lasts."""
        return self._session.seen

    @property
    def inspections(self) -> list[Inspection]:
        """What the target's compiler makes of each specialisation; compiled when first asked for.

        Kernels that do not compile for the target are left out and named in `notes`.
        """
        if self.target is None:
            return []
        for source in self._session.variants.values():
            if any(_is_same(each, source) for each in self._compiled):
                continue
            self._compiled.append(source)
            try:
                self._inspections.append(Inspection(compile_for(source, self.target)))
            except CompilationError as error:
                self._session.notes.setdefault(source.name, str(error))
        return self._inspections

    def __enter__(self) -> Profile:
        with ExitStack() as stack:
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


def _is_same(one: KernelSource, other: KernelSource) -> bool:
    return one.function is other.function and repr(one) == repr(other)


def profile(
    *,
    on: Literal["auto", "cpu", "gpu"] = "auto",
    device: str | None = None,
    target: str | None = None,
    only: Sequence[str] | None = None,
    threads: int | None = None,
    counts: bool = True,
    line_times: bool = True,
    warmup: int = 0,
    iterations: int = 1,
    context: Context = "shadow",
    data: Data = "trace",
    backend: str | None = None,
    mode: str | None = None,
    hook: Hook | None = None,
    proton_file: Path | None = None,
    dot: Literal["as-written", "exact"] | None = None,
) -> Profile:
    """Measures what kernels do, how long that takes, and what bounds it.

    Args:
        on: where kernels run and are timed: on a GPU by Proton, or on the CPU. `auto` is the GPU
            where there is one.
        device: a GPU by name, as `h100`: its roofline bounds each launch from below. By default the
            machine's own, if it is in the table.
        target: a GPU's architecture, as `sm_90`: kernels are compiled for it, which shows
            registers, spills, shared memory and occupancy. By default the device's.
        only: names of the kernels to profile; all others run as they would without.
        threads: how many threads run the programs of a launch on the CPU; as many as torch uses by
            default.
        counts: whether to count what launches on a GPU do, which copies the tensors of the first of
            equal launches to the host.
        line_times: whether to estimate, on the CPU, how a kernel's time spreads over its lines: its
            first launch, and one that takes twice as long as those sampled so far, is made again
            for a twentieth of a second while samples are taken.
        warmup: how many of the first launches that are alike (kernel, specialisation, grid and
            numbers that matter) are left out of all figures.
        iterations: how often each launch of the program's is made; before each, what it may have
            written is put back, so that the program's results stay the same. If more than once, the
            launches that warm up come on top. Trials of autotuners are made once.
        context: what distinguishes launches in the tree, as Proton has it: `shadow` are the
            program's scopes, `python` its call stack.
        data: on a GPU, `trace` times every launch; `tree` keeps sums of equal ones, and costs less.
        backend: on a GPU, Proton's source of times; the GPU's own by default.
        mode: on a GPU, the backend's mode, as Proton has it: `periodic_flushing`, `pcsampling`.
        hook: on a GPU, `triton` lets Proton's file hold what kernels report of their launches, as
            `proton.start` has it; the profile has it anyway.
        proton_file: on a GPU, where to keep the file that Proton writes.
        dot: on the CPU, how products of f32 tiles are computed, see `interpret`.

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
    if context not in ("shadow", "python"):
        raise UsageError(f"context={context!r}: must be shadow or python")
    if data not in ("trace", "tree"):
        raise UsageError(f"data={data!r}: must be trace or tree")
    if hook not in (None, "triton"):
        raise UsageError(f"hook={hook!r}: must be triton")
    if backend == "instrumentation":
        raise UsageError(
            "backend='instrumentation' measures cycles inside kernels, no times of launches; run "
            "it with proton.start and open its file with `ttools profile view`"
        )
    repetition = Repetition(warmup=warmup, iterations=iterations)
    has_gpu = gpu_usable()
    if on == "gpu" and not has_gpu:
        raise UsageError("on='gpu': there is no GPU here that torch can use")
    known = device_of_machine() if device is None else read_device(device)
    session: Session
    if on == "cpu" or not has_gpu:
        given: dict[str, object] = {"data": data != "trace", "backend": backend, "mode": mode}
        given |= {"hook": hook, "proton_file": proton_file}
        if wrong := [name for name, value in given.items() if value]:
            raise UsageError(
                f"{wrong[0]} is Proton's, which times kernels on a GPU; on the CPU "
                "every launch is timed"
            )
        session = CpuSession(only, threads, context, repetition, line_times, dot)
    else:
        if warmup and data == "tree":
            raise UsageError(
                "data='tree' keeps sums, from which launches that warm up cannot be separated; "
                "leave out `warmup`, or take data='trace'"
            )
        options = ProtonOptions(context=context, data=data, backend=backend, mode=mode, hook=hook)
        session = GpuSession(
            only, counts=counts, options=options, keep=proton_file, repetition=repetition
        )
    wanted = read_target(target) if target else known.target if known else None
    return Profile(session, known, wanted)
