"""Cycles inside kernels: scopes that Proton measures on a GPU, per warp and program."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.kernel_selector import kernel_selector
from ttools.core.triton_versions import kernel_scopes, missing_kernel_scopes
from ttools.profiler.gpu import proton
from ttools.profiler.gpu.copies import CopyRecorder, OwnCopies
from ttools.profiler.gpu.proton import ProtonOptions
from ttools.profiler.gpu.proton_file import documents

#: `scopes` measures the program's own scopes; `lines` also measures a scope for each source line.
Inside = Literal["scopes", "lines"]
_BACKEND = "instrumentation"
_PROGRAM = re.compile(r"(?P<kernel>.*) Core(?P<core>\d+) CTA(?P<program>\d+)")
_WARP = re.compile(r"warp (?P<warp>\d+) \(line \d+\)")
#: Proton writes times in microseconds at this assumed frequency in MHz.
_FREQUENCY = 1000.0


@dataclass(frozen=True, kw_only=True)
class ScopeEvent:
    """One pass of a warp through a scope.

    Attributes:
        launch: Number of the launch among the launches of the kernel, starting at 0.
        program: Number of the program in the grid of the launch.
        core: Number of the multiprocessor on which the program ran.
        begin: First cycle of the scope, on a clock that Proton has aligned.
        cycles: Duration of the pass in clock cycles.
    """

    kernel: str
    launch: int
    program: int
    core: int
    warp: int
    scope: str
    begin: float
    cycles: float


def read_events(raw: bytes) -> list[ScopeEvent]:
    """Return the passes through scopes that a trace of Proton's instrumentation contains.

    Args:
        raw: Contents of the file; empty if nothing was launched.

    Raises:
        UsageError: The file is not such a trace.
    """
    if not raw.strip():
        return []
    try:
        traces = documents(raw.decode("utf-8"))
        entries = [entry for trace in traces for entry in trace["traceEvents"]]
        return list(_events(entries))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"cannot read Proton's trace of scopes: {reason}") from error


def _events(entries: list[Mapping[str, Any]]) -> Iterator[ScopeEvent]:
    starts = _ProgramStarts()
    for entry in entries:
        program = _PROGRAM.fullmatch(str(entry.get("pid", "")))
        warp = _WARP.fullmatch(str(entry.get("tid", "")))
        # All other entries describe call paths, or the ends of events that two warps share.
        if program is None or warp is None or entry.get("ph") != "X" or entry["cat"] == "flow":
            continue
        arguments = entry.get("args", {})
        number = starts.number(
            f"{program['kernel']} {program['program']}",
            int(warp["warp"]),
            arguments.get("Init Time (ns)"),
        )
        frequency = float(arguments.get("Frequency (MHz)", _FREQUENCY))
        yield ScopeEvent(
            kernel=program["kernel"],
            launch=number,
            program=int(program["program"]),
            core=int(program["core"]),
            warp=int(warp["warp"]),
            scope=str(entry["name"]),
            begin=float(entry["ts"]) * frequency,
            cycles=float(entry["dur"]) * frequency,
        )


class _ProgramStarts:
    """Numbers the launches of each program, in the order of the events of a trace.

    Newer versions of Triton write the time at which a program began, which distinguishes the
    program's launches. Older versions write one launch after the other and, within a launch, the
    events of each program together, by warp. In such a trace, a new launch of a program begins if
    an event of a different program was written in between, or if the number of the warp decreases.
    Successive launches of a single program with a single warp cannot be distinguished there.
    """

    def __init__(self) -> None:
        self._starts: dict[str, dict[object, int]] = defaultdict(dict)
        self._latest: dict[str, int] = {}
        self._program, self._warp = "", 0

    def number(self, program: str, warp: int, start: object) -> int:
        """Return the number of the launch to which the next event belongs.

        Args:
            program: Name of the kernel, and number of the program.
            warp: Number of the warp.
            start: Time at which the program began; None if the event does not contain it.
        """
        if start is not None:
            starts = self._starts[program]
            self._latest[program] = starts.setdefault(start, len(starts))
        elif program != self._program or warp < self._warp:
            self._latest[program] = self._latest.get(program, -1) + 1
        self._program, self._warp = program, warp
        return self._latest[program]


@dataclass
class InsideSession:
    """Measures scopes inside the kernels that are launched in `running`.

    Args:
        inside: What is measured: named scopes, or source lines as well.
        only: Names of the kernels to report; None for all.
        mode: Mode of Proton's instrumentation, such as `default:granularity=warp`; None for
            Proton's default.
        keep: Path at which to keep the trace that Proton writes; by default it is deleted.

    Attributes:
        events: The passes through scopes, available once the run has ended.
    """

    inside: Inside = "scopes"
    only: list[str] | None = None
    mode: str | None = None
    keep: Path | None = None
    events: list[ScopeEvent] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure scopes during the `with` block.

        Raises:
            UsageError: There is no GPU, or the installed Triton cannot measure scopes.
        """
        if not gpu_usable():
            raise UsageError(
                "cycles inside kernels are measured on a GPU, and there is none here; "
                "`ttools profile --lines` counts and times lines on the CPU"
            )
        if reason := missing_kernel_scopes():
            raise UsageError(reason)
        options = ProtonOptions(data="trace", backend=_BACKEND, mode=self.mode)
        with tempfile.TemporaryDirectory() as folder:
            stem = Path(folder) / "inside"
            copies = CopyRecorder(OwnCopies(), backend=_BACKEND)
            try:
                with (
                    kernel_scopes(lines=self.inside == "lines"),
                    proton.session(stem, options, copies),
                ):
                    yield
            finally:
                path = options.file(stem)
                if path.exists():
                    raw = path.read_bytes()
                    if self.keep is not None:
                        self.keep.write_bytes(raw)
                    selects = kernel_selector(self.only)
                    self.events += [event for event in read_events(raw) if selects(event.kernel)]
