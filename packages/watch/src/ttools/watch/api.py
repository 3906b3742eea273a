"""The public interface of watching: `watch()` runs Triton kernels and records their variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from ttools.core.errors import UsageError
from ttools.core.json_document import json_text
from ttools.core.reports.notebook import Part, Text
from ttools.core.reports.result import Result
from ttools.interpreter.abi.module import DotMode
from ttools.interpreter.api import Interpretation, KernelStats, interpret
from ttools.interpreter.run.skipped_accesses import SkippedAccess
from ttools.interpreter.runtime import selection
from ttools.watch.picture.picture import Picture
from ttools.watch.report import comparison, summary
from ttools.watch.report.comparison import Comparison, Difference
from ttools.watch.trace.recording import Recording
from ttools.watch.values import DEFAULT_LIMIT, EAGER, WatchedValues

__all__ = ["WatchedRun", "watch"]


class WatchedRun(ContextDecorator, Result):
    """A run that records values, as a context manager and as a decorator; created by `watch`.

    It may be entered several times; it then records the values of all of these runs.
    """

    def __init__(self, interpretation: Interpretation, values: WatchedValues) -> None:
        self._interpretation = interpretation
        self._values = values
        self._notes: dict[str, None] = {}

    @property
    def stats(self) -> list[KernelStats]:
        """Return launches, programs and times of each kernel, in order of first appearance."""
        return self._interpretation.stats

    @property
    def warnings(self) -> list[str]:
        """Return warnings to the user about completed launches."""
        return [*self._interpretation.warnings, *self._notes]

    @property
    def notes(self) -> list[str]:
        """Return the notes of the run, see `Interpretation.notes`."""
        return self._interpretation.notes

    @property
    def recording(self) -> Recording:
        """Return the values recorded so far, as NumPy arrays."""
        return self._values.recording

    @property
    def comparison(self) -> Comparison:
        """Compare the values recorded so far with those of the run given by `compare`.

        Raises:
            UsageError: No comparison was requested, or the runs have nothing in common.
        """
        return self._values.comparison

    @property
    def failures(self) -> list[SkippedAccess | Difference]:
        """Skipped accesses outside of tensors, and the first difference, if any.

        Raises:
            UsageError: The runs that were to be compared have nothing in common.
        """
        first = self.comparison.first if self._values.compares else None
        return [*self._interpretation.skipped, *([] if first is None else [first])]

    def picture(self, target: str = "") -> Picture:
        """Return a page with the values, loads and stores recorded so far, which notebooks display.

        Args:
            target: The program's name, for the title.

        Raises:
            UsageError: The run was made without `picture=True`.
        """
        if self._values.accesses is None:
            raise UsageError("there is no picture: watch(picture=True) records what it shows")
        return Picture(self.recording, self._values.accesses, target)

    @property
    def unmatched(self) -> list[str]:
        """Return a sentence for each entry of `names` that matched nothing."""
        return self._values.recorder.complaints()

    def _shown(self) -> Iterator[Part]:
        if self._values.compares:
            yield from self.comparison._shown()
        else:
            yield from summary.tables(self.recording)
        yield from map(Text, (*self.unmatched, *self.warnings, *self.notes))

    def _repr_html_(self) -> str:
        """Return the picture if the run records one, otherwise tables."""
        drawn = self._values.accesses is not None and bool(self._values.accesses.launches)
        return self.picture()._repr_html_() if drawn else super()._repr_html_()

    def _formats(self) -> Mapping[str, Callable[[], str]]:
        return {
            **super()._formats(),
            "json": lambda: json_text(self._as_data()),
            "html": lambda: self.picture().html(),
        }

    def _as_data(self) -> dict[str, Any]:
        if self._values.compares:
            return comparison.as_data(self.comparison)
        return summary.as_data(self.recording)

    def __enter__(self) -> WatchedRun:
        self._interpretation.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._interpretation.__exit__(kind, error, traceback)
        self._notes |= dict.fromkeys(self._values.finish())


def watch(
    names: Sequence[str] | None = None,
    *,
    trace: str | Path | None = None,
    limit: int = DEFAULT_LIMIT,
    compare: str | Path | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    picture: bool = False,
    programs: str | None = None,
    only: Sequence[str] | Callable[[str], bool] | None = None,
    threads: int | None = None,
    order: Literal["natural", "reverse", "random"] = "natural",
    seed: int = 0,
    schedule: Literal["fused", "materialised"] = "fused",
    dot: DotMode | None = None,
    unsafe: bool | None = None,
    timeout: float | None = None,
) -> WatchedRun:
    """Run Triton kernels on the CPU in the returned context, and record values.

    The kernels run as native code, and their results do not change. All programs run. Autotuners
    use their first configuration.

    Args:
        names: Variables (`acc`, `*_ptrs`) and lines (`kernel.py:31`) whose values are recorded; by
            default, all variables.
        trace: File to record to, for `open_trace`; by default, values are kept in memory.
        limit: Maximum number of bytes of recorded values.
        compare: Values to compare with: `eager` to run the same programs as Python, or the file of
            a trace. The result is the run's `comparison`.
        rtol: Relative tolerance of the comparison; by default that of `torch.testing`.
        atol: Absolute tolerance of the comparison; by default that of `torch.testing`.
        picture: If True, the run records the data for the page `picture()`: for up to three
            launches of each kernel, the values in up to 16 programs, and all accesses.
        programs: Programs to record, such as `0,5:8,last,random:64`; by default, all programs.
        only: Names of kernels, or a predicate on names, see `interpret`.
        threads: Number of threads that run the programs of a launch, see `interpret`.
        order: Order in which programs start.
        seed: Seed of the random order and of `random:N` in `programs`.
        schedule: Kind of compilation, see `interpret`.
        dot: Computation of products of f32 tiles, see `interpret`.
        unsafe: If True, accesses outside tensors are executed, see `interpret`.
        timeout: Seconds after which a launch is stopped and raises `KernelError`; None or 0, the
            default, for no limit. It cannot be combined with `compare="eager"`.

    Returns:
        The run: a context manager and a decorator.

    Raises:
        UsageError: An argument is invalid, something cannot be watched, or the file cannot be
            written.

    Examples:
        >>> with watch(["acc"]) as run:
        ...     softmax(x)
        >>> run.recording.select("acc", program=2)
    """
    if isinstance(names, str):
        raise UsageError(f"names={names!r}: must be a list of variables, as in watch([{names!r}])")
    if programs is not None:
        selection.parse(programs)
    if timeout and compare == EAGER:
        raise UsageError(
            f"timeout={timeout:g}: there is no time limit for compare='eager', which runs the "
            "programs as Python"
        )
    values = WatchedValues(
        names or (),
        trace=trace,
        programs=programs,
        seed=seed,
        limit=limit,
        against=compare,
        rtol=rtol,
        atol=atol,
        picture=picture,
        only_pictures=picture and names is None and trace is None and compare is None,
    )
    interpretation = interpret(
        only=only,
        threads=threads,
        order=order,
        seed=seed,
        schedule=schedule,
        observer=values.recorder,
        dot=dot,
        unsafe=unsafe,
        timeout=timeout,
    )
    values.begin()
    return WatchedRun(interpretation, values)
