"""The sides of the benchmark, and the processes that run them.

A side is one way to run a workload: ttools, torch, Triton's own interpreter, ttools with checks, or
triton-viz. This module sets the environment of each side's process and schedules the measurements.
In every round each side gives one sample, so that other load on the machine affects all sides
alike. `measure` is the program that the processes run.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent

_UPSTREAM = {"TTOOLS_BACKEND": "off", "TRITON_INTERPRET": "1"}
#: Environment variables of each side, by its name.
SIDES: dict[str, dict[str, str]] = {
    "ours": {},
    "torch": {"TTOOLS_BACKEND": "off"},
    "upstream": _UPSTREAM,
    "memcheck": {},
    "checks": {},
    "viz": {**_UPSTREAM, "ENABLE_SANITIZER": "1"},
}
TITLES = {
    "ours": "ttools",
    "torch": "torch",
    "upstream": "TRITON_INTERPRET=1",
    "memcheck": "memcheck",
    "checks": "default checks",
    "viz": "triton-viz",
}
#: The sides that run under `ttools.sanitizer`, with their checks.
CHECKED = {"memcheck": "memcheck", "checks": "default"}
#: Sides whose calls take seconds.
SLOW = ("upstream", "viz")
#: Time limit for a call in seconds; a side that exceeds it is not measured for that workload.
PATIENCE_S = {"viz": 20.0}
#: Sides that always use one thread.
ONE_THREAD = ("viz",)

# Freed memory stays with the process on every side. Otherwise, whether a call causes thousands of
# page faults would depend on the addresses of blocks.
_COMMON = {
    "CUDA_VISIBLE_DEVICES": "",
    "TTOOLS_QUIET": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
}
_OURS = ("TTOOLS_", "TRITON_")
#: Maximum distance between the quartiles and the median, relative to the median; times with a
#: larger distance are marked.
NOISY = 0.1


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without variables of Triton and ttools, plus `extra`."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    return {**inherited, **_COMMON, **extra}


def cache_variables(caches: Path) -> dict[str, str]:
    """Return variables that set the folder in which ttools and Triton cache compiled kernels."""
    return {"TTOOLS_CACHE_DIR": str(caches / "ttools"), "TRITON_CACHE_DIR": str(caches / "triton")}


def _thread_variables(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


class TooSlowError(Exception):
    """A side did not answer in time, and its process was killed."""


class SideProcess:
    """One side with one number of threads, in its own process, which starts at the first request.

    Args:
        side: Name of the side, a key of `SIDES`.
        threads: Number of threads that run the programs of a launch.
        caches: Folder for compiled kernels.
        program: Program that the process runs.
        extra: Further environment variables.
    """

    def __init__(
        self,
        side: str,
        threads: int,
        caches: Path,
        program: Path = HERE / "measure.py",
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.side = side
        self._program = program
        self._threads = threads
        self._caches = caches
        self._extra = extra or {}
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        own = {
            **SIDES[self.side],
            **_thread_variables(self._threads),
            **cache_variables(self._caches),
            **self._extra,
        }
        options = ("--side", self.side, "--threads", str(self._threads))
        return subprocess.Popen(
            [sys.executable, str(self._program), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(own),
            text=True,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            RuntimeError: The process has died; its error message is on standard error.
            TooSlowError: The answer takes longer than `PATIENCE_S` allows.
        """
        if self._process is None:
            self._process = self._start()
        process = self._process
        stdin, stdout = _open(process.stdin), _open(process.stdout)
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer is reported below
        patience = PATIENCE_S.get(self.side)
        if patience is not None and not select.select([stdout], [], [], patience)[0]:
            process.kill()
            self.close()
            raise TooSlowError(f"a call takes longer than {patience:.0f} s")
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"the process of side {self.side} exited with {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Terminate the process."""
        process, self._process = self._process, None
        if process is None:
            return
        _open(process.stdin).close()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@dataclass
class Times:
    """The measurements of one side for one workload.

    Attributes:
        samples: Seconds per call, one for each round.
        unchecked: For sides with checks, seconds per call without checks in the same rounds.
        waited: Share of each round's time in which the process had no CPU.
        first_s: Duration of the first call, which compiles, in seconds.
        error: Largest error relative to the largest value.
        right: True if the error is within the workload's tolerance.
        factor: Number by which the times are multiplied, because only part of the programs ran.
        peak_bytes: Peak memory of a call, inputs included; 0 if it was not measured.
        findings: Kind and severity of each finding of the checks.
        note: Reason why there are no samples.
    """

    samples: list[float] = field(default_factory=list)
    unchecked: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    first_s: float = 0.0
    error: float = 0.0
    right: bool = True
    factor: int = 1
    peak_bytes: int = 0
    findings: Sequence[str] = ()
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples) if self.samples else float("nan")

    @property
    def spread(self) -> float:
        """Return half the distance between the quartiles, relative to the median."""
        return _spread(self.samples)

    @property
    def slowdowns(self) -> list[float]:
        """Return the ratio of the times with and without checks, for each round."""
        return [a / b for a, b in zip(self.samples, self.unchecked, strict=False)]

    @property
    def varies(self) -> bool:
        """Return whether the times vary so much that more rounds are useful."""
        return max(self.spread, _spread(self.slowdowns)) > NOISY

    def to_json(self) -> dict[str, Any]:
        return {"median_s": self.median if self.samples else None, **self.__dict__}


def _spread(values: Sequence[float]) -> float:
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / middle


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sides to measure, and the number of measurements.

    Attributes:
        sides: Names of the sides, in the order in which each round measures them.
        repeat: Number of samples of each side; noisy workloads get more.
        upstream_repeat: Number of samples of slow sides, whose calls take seconds.
    """

    sides: Sequence[str]
    repeat: int
    upstream_repeat: int


#: Maximum factor by which the number of rounds is increased for a noisy workload.
_MORE_ROUNDS = 5


def take_turns(
    processes: Sequence[SideProcess], name: str, wrong: Mapping[str, str], plan: Plan
) -> dict[str, Times]:
    """Measure one workload on all sides alternately; continue for more rounds if times vary."""
    times = {p.side: _prepare(p, name, wrong.get(p.side, "")) for p in processes}
    for number in range(_MORE_ROUNDS * plan.repeat):
        if number >= plan.repeat and not _vary(times):
            break
        for process in processes:
            side_times = times[process.side]
            if side_times.note or (process.side in SLOW and number >= plan.upstream_repeat):
                continue
            try:
                answer = process.ask()
            except TooSlowError as error:
                side_times.note = str(error)
                continue
            side_times.samples.append(answer["seconds"])
            side_times.waited.append(answer["waited"])
            if process.side in CHECKED:
                side_times.unchecked.append(answer["unchecked"])
    return times


def _vary(times: Mapping[str, Times]) -> bool:
    """Return whether more rounds are useful, ignoring sides whose calls take seconds."""
    return any(side_times.varies for side, side_times in times.items() if side not in SLOW)


def _prepare(process: SideProcess, name: str, wrong: str) -> Times:
    """Prepare a workload on a side, which calls it once.

    Args:
        wrong: Reason to skip the side, or empty.
    """
    if wrong:
        return Times(note=wrong)
    try:
        side_times = Times(**process.ask(prepare=name))
    except TooSlowError as error:
        return Times(note=str(error))
    if not side_times.right:
        side_times.note = f"wrong result, error {side_times.error:.1e}"
    return side_times


@dataclass(frozen=True)
class Row:
    """One workload with one number of threads.

    Attributes:
        access: Kind of memory access, as in `Workload`.
    """

    name: str
    title: str
    threads: int
    times: dict[str, Times]
    access: str = "plain"

    def ratio(self, side: str) -> float | None:
        """Return the ratio of the median time of `ours` to a side's; None if one is missing."""
        ours, other = self.times.get("ours"), self.times.get(side)
        if ours is None or other is None or not ours.samples or not other.samples:
            return None
        return ours.median / other.median

    def slowdown(self, side: str) -> float | None:
        """Return the median slowdown by a side's checks, or None if it was not measured."""
        slowdowns = self.times[side].slowdowns if side in self.times else []
        return statistics.median(slowdowns) if slowdowns else None

    def to_json(self) -> dict[str, Any]:
        return {
            "workload": self.name,
            "title": self.title,
            "threads": self.threads,
            "sides": {side: times.to_json() for side, times in self.times.items()},
        }


def measure_workloads(
    workloads: Sequence[Any],
    threads: Sequence[int],
    plan: Plan,
    caches: Path,
    report: Callable[[Row], None],
) -> list[Row]:
    """Measure every workload with every number of threads.

    Args:
        workloads: Elements of `workloads.WORKLOADS`.
        threads: Numbers of threads.
        plan: Sides and number of samples.
        caches: Folder for compiled kernels.
        report: Called with each row when it is complete.
    """
    rows = []
    for number in threads:
        sides = [s for s in plan.sides if number == threads[0] or s not in ONE_THREAD]
        processes = [SideProcess(side, number, caches) for side in sides]
        try:
            for workload in workloads:
                times = take_turns(processes, workload.name, workload.wrong, plan)
                name, title, access = workload.name, workload.title, workload.access
                rows.append(Row(name, title, number, times, access))
                report(rows[-1])
        finally:
            for process in processes:
                process.close()
        for side in ("ours", *CHECKED):
            _measure_memory(side, number, [row for row in rows if row.threads == number], caches)
    return rows


def _measure_memory(side: str, threads: int, rows: Sequence[Row], caches: Path) -> None:
    """Measure the memory of a side's calls, in a process that is not timed."""
    process = SideProcess(side, threads, caches)
    try:
        for row in rows:
            times = row.times.get(side)
            if times is not None and not times.note:
                process.ask(prepare=row.name)
                times.peak_bytes = process.ask(memory=True)["peak_bytes"]
    finally:
        process.close()
