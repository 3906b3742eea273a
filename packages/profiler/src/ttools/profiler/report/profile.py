"""`Profile`: records the launches of kernels while it is active, and analyses them on request."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import ContextDecorator, ExitStack
from dataclasses import fields, replace
from typing import Any

from ttools.core.compilation.compilation_log import CompilationLog, observe_compilations
from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.lock import RunCosts
from ttools.core.compilation.specialisation_report import explain
from ttools.core.gpus.devices import Device, one_gpu, read_gpu
from ttools.core.gpus.targets import Target
from ttools.core.reports.notebook import Code, Part, parts_as_html, parts_as_text
from ttools.core.reports.result import Result
from ttools.profiler.report.analysis import Compiler, OnProgress, ProfileAnalysis, analyse
from ttools.profiler.report.baseline import costs_of
from ttools.profiler.run.session import Session

#: Attributes of profiles in earlier releases, and their current names in the result of `analyse`
#: (empty if there is none).
_FORMER = {"forms": "signatures", "judge": "", "judged": "", "counted": ""}


class Profile(ContextDecorator, Result):
    """A profiled run, as a context manager or decorator; `profile` creates it.

    The profile records launches while it is active. `analyse` returns the figures of these
    launches, and `to` returns a report.

    Attributes:
        device: The default device of `analyse`, whose roofline bounds launches; None for no device.
        target: The default target of `analyse`, for which kernels are compiled; None for no target.
        timed_on: Processor on which kernels are timed: `the CPU` or `the GPU`.

    Args:
        session: Records the launches of the run.
        line_costs: If True, kernels are compiled again to determine what masks cost.
    """

    def __init__(
        self,
        session: Session,
        device: Device | None,
        target: Target | None,
        *,
        line_costs: bool = False,
    ) -> None:
        self._session, self.device, self.target = session, device, target
        self._line_costs = line_costs
        self.timed_on = session.timed_on
        self._compiler = Compiler()
        self._active: list[ExitStack] = []
        self._compilations = CompilationLog()
        #: The last result of `analyse`, with the key for which it is valid.
        self._last: tuple[object, ProfileAnalysis] | None = None

    def analyse(
        self,
        gpu: str | Device | None = None,
        target: str | None = None,
        *,
        device: str | Device | None = None,
        complete: bool = True,
        progress: OnProgress = lambda _: None,
    ) -> ProfileAnalysis:
        """Analyse the recorded launches; with a target, compile the kernels for it.

        A second call returns the same result as long as nothing more was recorded.

        Args:
            gpu: Name or architecture of a GPU, such as `h100` or `sm_90`, whose roofline bounds
                launches and for which kernels are compiled; by default the GPU of the profile.
            target: Architecture to compile for, if it differs from that of the GPU.
            device: Former name of `gpu`.
            complete: If False, skip everything slow: the counting that remains after a run on a
                GPU, and all compilation.
            progress: Called whenever the analysis has advanced.

        Raises:
            UsageError: There is no such GPU or target.
        """
        wanted, architecture = self.device, self.target
        if (named := one_gpu(gpu, device)) is not None:
            chosen = read_gpu(named)
            wanted, architecture = chosen.device, chosen.target
        if target is not None:
            architecture = read_gpu(target).target
        made_of = wanted, architecture, complete, self._session.recorded
        if self._last is None or self._last[0] != made_of:
            result = analyse(
                self._session,
                wanted,
                architecture,
                compiler=self._compiler,
                complete=complete,
                line_costs=self._line_costs and complete,
                progress=progress,
            )
            result = replace(result, compilations=explain(self._compilations))
            self._last = made_of, result
        return self._last[1]

    @property
    def failures(self) -> tuple[()]:
        """Return an empty list, because a profile contains measurements and cannot fail."""
        return ()

    def to(self, form: str) -> str:
        """Return the report of `analyse()` in a format, see `ProfileAnalysis`.

        Raises:
            UsageError: There is no such format.
        """
        return self.analyse().to(form)

    def _shown(self) -> Iterable[Part]:
        """Return the latest result of `analyse`; displaying a profile starts no analysis."""
        return [Code(repr(self))] if self._last is None else self._last[1]._shown()

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        parts = list(self._shown())
        return {"text/plain": parts_as_text(parts), "text/html": parts_as_html(parts)}

    @property
    def seen(self) -> int:
        """Return the number of Triton launches so far, even during the run."""
        return self._session.seen

    def costs_of(self, inspection: Inspection) -> RunCosts | None:
        """Return figures of the launches of a kernel that is compiled for any target.

        Returns:
            None if no launch was counted, or if the counts may differ in another run.
        """
        self._session.finish()
        return costs_of(inspection, self._session.samples, self._session.variants)

    def __enter__(self) -> Profile:
        with ExitStack() as stack:
            stack.enter_context(self._session.running())
            stack.enter_context(observe_compilations(log=self._compilations))
            self._active.append(stack.pop_all())
        return self

    def __exit__(self, *raised: Any) -> None:
        self._active.pop().__exit__(*raised)

    def __repr__(self) -> str:
        return (
            f"<Profile of {self.seen} launches on {self.timed_on}; analyse() returns its figures>"
        )

    def __getattr__(self, name: str) -> Any:
        """Raise an error that explains how to obtain what earlier releases' attributes had."""
        results = {field.name for field in fields(ProfileAnalysis)} | set(vars(ProfileAnalysis))
        if name.startswith("_") or name not in results | set(_FORMER):
            raise AttributeError(f"a Profile has no attribute {name!r}")
        now = _FORMER.get(name, name)
        raise AttributeError(
            f"a Profile no longer has the attribute {name!r}: call `analyse()` once and read "
            f"`{now}` of its result"
            if now
            else f"a Profile no longer has the attribute {name!r}: call `analyse()` instead"
        )
