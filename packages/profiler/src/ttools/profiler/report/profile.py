"""`Profile`: records what kernels do while it is active, and analyses it when asked."""

from __future__ import annotations

from contextlib import ContextDecorator, ExitStack
from dataclasses import fields
from typing import Any

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.lock import RunCosts
from ttools.core.gpus.devices import Device, read_device
from ttools.core.gpus.targets import Target, read_target
from ttools.profiler.report.analysis import Compiler, OnProgress, ProfileAnalysis, analyse
from ttools.profiler.report.baseline import costs_of
from ttools.profiler.run.session import Session

#: Attributes that a profile had before `analyse`, beside those that its result has.
_FORMER = {"forms": "signatures", "judge": "", "judged": "", "counted": ""}


class Profile(ContextDecorator):
    """A profiled run, as a context manager and as a decorator; made by `profile`.

    It records. What is known of the run is in the result of `analyse`.

    Attributes:
        device: The device whose roofline bounds launches, unless `analyse` is given another.
        target: What kernels are compiled for, unless `analyse` is given another.
        timed_on: Where kernels are timed: `the CPU`, `the GPU`.
    """

    def __init__(self, session: Session, device: Device | None, target: Target | None) -> None:
        self._session, self.device, self.target = session, device, target
        self.timed_on = session.timed_on
        self._compiler = Compiler()
        self._active: list[ExitStack] = []
        #: The last result, with what it was made of.
        self._last: tuple[object, ProfileAnalysis] | None = None

    def analyse(
        self,
        device: str | Device | None = None,
        target: str | None = None,
        *,
        complete: bool = True,
        progress: OnProgress = lambda _: None,
    ) -> ProfileAnalysis:
        """Analyse what was recorded so far; with a target, compile the kernels for it.

        A second call gives the same result as long as nothing more was recorded.

        Args:
            device: A GPU by name, as `h100`, whose roofline bounds launches; by default that of the
                profile.
            target: An architecture, as `sm_90`, to compile kernels for; by default that of
                `device`, or of the profile.
            complete: False leaves out what takes long: counting that is still to be done after a
                run on a GPU, and everything that needs a compiler.
            progress: Is called whenever the analysis has come further.

        Raises:
            UsageError: There is no such device or target.
        """
        wanted, architecture = self.device, self.target
        if device is not None:
            wanted = read_device(device) if isinstance(device, str) else device
            architecture = wanted.target
        if target is not None:
            architecture = read_target(target)
        made_of = wanted, architecture, complete, self._session.recorded
        if self._last is None or self._last[0] != made_of:
            result = analyse(
                self._session,
                wanted,
                architecture,
                compiler=self._compiler,
                complete=complete,
                progress=progress,
            )
            self._last = made_of, result
        return self._last[1]

    @property
    def seen(self) -> int:
        """How many of Triton's kernels were launched so far, also while the run lasts."""
        return self._session.seen

    def costs_of(self, inspection: Inspection) -> RunCosts | None:
        """Return what launches of a compiled kernel do, whatever it was compiled for.

        None where none was counted, or another run may count something else.
        """
        self._session.finish()
        return costs_of(inspection, self._session.samples, self._session.variants)

    def __enter__(self) -> Profile:
        with ExitStack() as stack:
            stack.enter_context(self._session.running())
            self._active.append(stack.pop_all())
        return self

    def __exit__(self, *raised: Any) -> None:
        self._active.pop().__exit__(*raised)

    def __repr__(self) -> str:
        return f"<Profile of {self.seen} launches on {self.timed_on}; analyse() has its figures>"

    def __getattr__(self, name: str) -> Any:
        """Say where attributes of earlier releases are, for one release."""
        results = {field.name for field in fields(ProfileAnalysis)} | set(vars(ProfileAnalysis))
        if name.startswith("_") or name not in results | set(_FORMER):
            raise AttributeError(f"a Profile has no attribute {name!r}")
        now = _FORMER.get(name, name)
        raise AttributeError(
            f"a Profile has no attribute {name!r} any more, as reading it compiled kernels: call "
            f"`analyse()` once and read `{now}` of its result"
            if now
            else f"a Profile has no attribute {name!r} any more: call `analyse()`, which does it"
        )
