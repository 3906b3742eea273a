"""Storage of a run's recorded values, and access to them during and after the run."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from ttools.core.errors import UsageError, file_errors
from ttools.watch.picture.accesses import LaunchAccesses
from ttools.watch.record.eager_recorder import EagerRecorder
from ttools.watch.record.recorder import Recorder
from ttools.watch.report.comparison import Comparison, compare
from ttools.watch.trace.recording import Recording, open_trace
from ttools.watch.variables.selectors import EVERYTHING

#: Default maximum of recorded bytes.
DEFAULT_LIMIT = 1 << 28
#: Value of `against` that requests a comparison with the kernels' source, run as Python.
EAGER = "eager"


class WatchedValues:
    """The values that a run records.

    Args:
        names: Names of variables and lines; empty for everything.
        trace: File for the trace; by default, the trace is kept in memory.
        programs: Programs whose values are recorded.
        seed: Seed of `random:N` in `programs`.
        limit: Maximum number of bytes of recorded values.
        against: `eager` or a trace to compare the run with; None for no comparison.
        rtol: Relative tolerance of the comparison; by default that of the type.
        atol: Absolute tolerance of the comparison; by default that of the type.
        picture: If True, accesses of launches are recorded for a page.
        only_pictures: If True, only launches that appear in the picture are recorded.

    Attributes:
        accesses: Accesses of launches for a page; None without a picture.

    Raises:
        UsageError: Something cannot be watched.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        trace: str | Path | None = None,
        programs: str | None = None,
        seed: int = 0,
        limit: int = DEFAULT_LIMIT,
        against: str | Path | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        picture: bool = False,
        only_pictures: bool = False,
    ) -> None:
        self.accesses = LaunchAccesses() if picture else None
        self._tolerances = {"rtol": rtol, "atol": atol}
        self._against = against
        self._other: Recording | None = None
        if against is not None and against != EAGER:
            self._other = open_trace(against)
        self._eager_file = io.BytesIO()
        eager = EagerRecorder(self._eager_file, limit) if against == EAGER else None
        self._path = None if trace is None else Path(trace)
        self._file: BinaryIO = io.BytesIO()
        self._limit = limit
        if limit < 1:
            raise UsageError(f"limit={limit}: at least one byte is needed")
        self.recorder = Recorder(
            list(names) or [EVERYTHING],
            programs=programs,
            seed=seed,
            eager=eager,
            accesses=self.accesses,
            only_pictures=only_pictures,
        )

    def begin(self) -> None:
        """Begin to write the trace, which overwrites an existing file.

        This is not done in the constructor, so that no file is overwritten if arguments of the run
        are invalid.

        Raises:
            UsageError: The file cannot be written.
        """
        if self._path is not None:
            with file_errors(f"write `{self._path}`"):
                self._file = self._path.open("wb")
        self.recorder.write_to(self._file, self._limit)

    @property
    def recording(self) -> Recording:
        self.recorder.writer.flush()
        if self._path is not None:
            return open_trace(self._path)
        assert isinstance(self._file, io.BytesIO)
        return Recording(self._file.getvalue())

    @property
    def compares(self) -> bool:
        return self._against is not None

    @property
    def comparison(self) -> Comparison:
        """Compare all values recorded so far with those of the other run.

        Raises:
            UsageError: No comparison was requested, or the runs have no values in common.
        """
        if self._against is None:
            raise UsageError(
                "there is no comparison: watch(compare=...) names what to compare with"
            )
        other = self._other
        if other is None:
            other = Recording(self._eager_file.getvalue())
        names = ("native code", "Python" if self._other is None else str(self._against))
        return compare(self.recording, other, names=names, **self._tolerances)

    def finish(self) -> list[str]:
        """Mark the trace as complete, and return notes for the user about missing values."""
        self.recorder.finish()
        sentences = [*self.recorder.complaints(), *self.recorder.gaps()]
        if self._other is not None and not self._other.complete:
            sentences.append(
                f"`{self._against}` is incomplete, because its run was interrupted: values that it "
                "lacks are not compared"
            )
        refused = self.recorder.writer.refused
        if refused:
            sentences.append(
                f"the trace reached its limit of {self._limit:,} bytes: later values are not in "
                "it; watch fewer variables or programs, or raise the limit (--trace-limit)"
            )
        return sentences
