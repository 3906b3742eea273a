"""`Profile`: a profiled run, and what it says in frames, trees and advice.

Joins what the run's session has measured to what the target's compiler makes of its kernels. Must
not know how launches were timed or counted, nor how a profile is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ContextDecorator, ExitStack
from typing import TYPE_CHECKING, Any

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.lock import LaunchCosts
from ttools.core.compilation.stages import compile_for
from ttools.core.errors import TtoolsError
from ttools.core.gpus.devices import Device
from ttools.core.gpus.targets import Target
from ttools.core.reports.shown import Part, ShowsItself
from ttools.profiler.gpu_time.projection import Projection, is_projected, project
from ttools.profiler.report.access_frame import access_frame, qualities
from ttools.profiler.report.advice import Evidence, Hint, advise
from ttools.profiler.report.call_tree import Node, call_tree
from ttools.profiler.report.frames import kernel_frame, line_frame
from ttools.profiler.report.graph_frame import graph_frame
from ttools.profiler.report.launch_costs import costs_of
from ttools.profiler.run.configuration import config_text
from ttools.profiler.run.session import Sample, Session

if TYPE_CHECKING:
    import pandas as pd


class Profile(ContextDecorator, ShowsItself):
    """A profiled run, as a context manager and as a decorator; made by `profile`.

    Attributes:
        device: whose roofline bounds launches.
        target: what kernels are compiled for, to report registers and the like.
        timed_on: where kernels are timed: `the CPU`, `the GPU`.
    """

    def __init__(self, session: Session, device: Device | None, target: Target | None) -> None:
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
        on the CPU for a device of NVIDIA's has the columns `projected_s`, `projected_low_s` and
        `projected_high_s`, a time there and the interval it is in nine times in ten, of the launch
        that requests most, and `projected_outside`, why it is less sure than that, or None.
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
            known = [times.get(key) for key in keys]
            nothing = float("nan")
            frame["projected_s"] = [each.seconds if each else nothing for each in known]
            frame["projected_low_s"] = [each.low if each else nothing for each in known]
            frame["projected_high_s"] = [each.high if each else nothing for each in known]
            frame["projected_outside"] = [
                "; ".join(each.outside) or None if each else None for each in known
            ]
        return frame

    def _projected(self) -> dict[tuple[str, str], Projection]:
        assert self.device is not None
        return {
            (each.kernel, each.config): project(
                each.counts, each.inspection, self.device, each.accesses
            )
            for each in self._largest()
            # Kernels for another target than the device's would be projected wrongly.
            if each.counts and each.inspection.target == self.device.target
        }

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

        Kernels that do not compile for the target, or whose machine code no tool here can read, are
        left out and named in `notes`.
        """
        if self.target is None:
            return []
        for source in self._session.variants.values():
            if any(_is_same(each, source) for each in self._compiled):
                continue
            self._compiled.append(source)
            try:
                inspection = Inspection(compile_for(source, self.target))
                _ = inspection.resources  # reads the machine code
            except TtoolsError as error:
                self._session.notes.setdefault(source.name, str(error))
            else:
                self._inspections.append(inspection)
        return self._inspections

    def costs_of(self, inspection: Inspection) -> LaunchCosts | None:
        """What launches of a compiled kernel do, whatever it was compiled for.

        None where none was counted, or another run may count something else.
        """
        return costs_of(inspection, self._session.samples, self._session.variants)

    def _shown(self) -> Iterator[Part]:
        from ttools.profiler.report.shown import shown_profile

        return shown_profile(self)

    def __enter__(self) -> Profile:
        with ExitStack() as stack:
            stack.enter_context(self._session.running())
            self._active.append(stack.pop_all())
        return self

    def __exit__(self, *raised: Any) -> None:
        self._active.pop().__exit__(*raised)


def _is_same(one: KernelSource, other: KernelSource) -> bool:
    return one.function is other.function and repr(one) == repr(other)
