"""The values that a run records: where they are kept, and how they are read during and after it.

Owns the trace's file or memory. Must not know what is recorded.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from ttools.core.errors import UsageError, file_errors
from ttools.watch.picture.accesses import AccessBook
from ttools.watch.record.eager_recorder import EagerRecorder
from ttools.watch.record.recorder import Recorder
from ttools.watch.report.comparison import Comparison, compare
from ttools.watch.trace.recording import Recording, open_trace
from ttools.watch.variables.selectors import EVERYTHING

#: Bytes of values that are recorded unless more are asked for.
DEFAULT_LIMIT = 1 << 28
#: What to compare with, if it is no trace: the kernels' own source, run as Python.
EAGER = "eager"


class WatchedValues:
    """What a run records, and where.

    Args:
        names: of variables and lines; everything if there are none.
        trace: a file to keep the trace in; memory by default.
        programs: whose values are recorded.
        seed: of `random:N` in it.
        limit: how many bytes of values are recorded at most.
        against: what the run is compared with: `eager`, or a trace; nothing by default.
        rtol: relative tolerance of the comparison; by default that of the type.
        atol: absolute tolerance, likewise.
        picture: also takes what launches access, for a page.
        only_pictures: launches that are not drawn are not recorded.

    Attributes:
        book: what launches access, for a page; None if nothing is drawn.

    Raises:
        UsageError: something cannot be watched.
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
        self.book = AccessBook() if picture else None
        self._tolerances = {"rtol": rtol, "atol": atol}
        self._against = against
        self._other: Recording | None = None
        if against is not None and against != EAGER:
            self._other = open_trace(against)
        self._twin_file = io.BytesIO()
        twin = EagerRecorder(self._twin_file, limit) if against == EAGER else None
        self._path = None if trace is None else Path(trace)
        self._file: BinaryIO = io.BytesIO()
        self._limit = limit
        if limit < 1:
            raise UsageError(f"limit={limit}: at least one byte is needed")
        self.recorder = Recorder(
            list(names) or [EVERYTHING],
            programs=programs,
            seed=seed,
            twin=twin,
            book=self.book,
            only_pictures=only_pictures,
        )

    def begin(self) -> None:
        """Begins the trace; a run that is misused must leave the file as it is.

        Raises:
            UsageError: the file cannot be written.
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
        """What the comparison of all that was recorded so far finds.

        Raises:
            UsageError: nothing is compared, or there is nothing in common.
        """
        if self._against is None:
            raise UsageError("nothing is compared: watch(compare=...) says with what")
        other = self._other
        if other is None:
            other = Recording(self._twin_file.getvalue())
        names = ("native code", "Python" if self._other is None else str(self._against))
        return compare(self.recording, other, names=names, **self._tolerances)

    def finish(self) -> list[str]:
        """Marks the trace as complete; returns what the user should know."""
        self.recorder.finish()
        sentences = [*self.recorder.complaints(), *self.recorder.gaps()]
        if self._other is not None and not self._other.complete:
            sentences.append(
                f"`{self._against}` ends early, since its run was interrupted: what is not in it "
                "is not compared"
            )
        refused = self.recorder.writer.refused
        if refused:
            sentences.append(
                f"the trace reached its limit of {self._limit:,} bytes: later values are not in "
                "it; watch fewer variables or programs, or raise the limit (--trace-limit)"
            )
        return sentences
