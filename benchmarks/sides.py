"""The sides that are compared, and the processes that run them.

Owns each side's environment and the taking of turns: in every round each side gives one sample,
so that whatever else the machine does meets all of them. What a side's process does is `measure`'s.
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
#: What sets a side apart from the others.
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
#: The sides that run under `ttools.sanitizer`, and what they check.
CHECKED = {"memcheck": "memcheck", "checks": "default"}
#: Sides whose calls take seconds.
SLOW = ("upstream", "viz")
#: Sides that are given up where a call takes longer than this many seconds.
PATIENCE_S = {"viz": 20.0}
#: Sides that use one thread whatever they are told.
ONE_THREAD = ("viz",)

# Freed memory stays with the process on every side: else where a block happens to lie decides
# whether a call pays for thousands of page faults.
_COMMON = {
    "CUDA_VISIBLE_DEVICES": "",
    "TTOOLS_QUIET": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
}
_OURS = ("TTOOLS_", "TRITON_")
#: Quartiles further than this from the median, relative to it, say that something disturbed.
NOISY = 0.1


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without what steers Triton or ttools, and `extra`."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    return {**inherited, **_COMMON, **extra}


def cache_variables(caches: Path) -> dict[str, str]:
    """What makes ttools and Triton keep compiled kernels in a folder."""
    return {"TTOOLS_CACHE_DIR": str(caches / "ttools"), "TRITON_CACHE_DIR": str(caches / "triton")}


def _thread_variables(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


class TooSlowError(Exception):
    """A side did not answer in time; its process is gone."""


class SideProcess:
    """One side with one number of threads, in a process of its own, started at its first use.

    Args:
        side: of `SIDES`.
        threads: so many work on a launch.
        caches: a folder for compiled kernels.
        program: what answers.
        extra: more variables of its environment.
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
        """Sends a request and waits for the answer.

        Raises:
            RuntimeError: the process has died; what it said is on standard error.
            TooSlowError: see `PATIENCE_S`.
        """
        if self._process is None:
            self._process = self._start()
        process = self._process
        stdin, stdout = _open(process.stdin), _open(process.stdout)
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer says it
        patience = PATIENCE_S.get(self.side)
        if patience is not None and not select.select([stdout], [], [], patience)[0]:
            process.kill()
            self.close()
            raise TooSlowError(f"a call takes longer than {patience:.0f} s")
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"the process of side {self.side} ended with {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends the process."""
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
    """What one side needed for one workload.

    Attributes:
        samples: seconds per call, one of each round.
        unchecked: of a side that checks, what its process took without checks in each round.
        waited: in each round, the share of the time in which the process had no CPU.
        first_s: seconds of the first call, which compiles.
        error: largest error relative to the largest value.
        right: the error is small enough.
        factor: only one in so many programs ran; times are scaled up.
        peak_bytes: the most memory that a call needs, inputs included; 0 if not measured.
        findings: what the checks found, each kind with its severity.
        note: why there are no samples.
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
        """Half the distance of the samples' quartiles, relative to the median."""
        return _spread(self.samples)

    @property
    def slowdowns(self) -> list[float]:
        """How many times longer a call took checked than unchecked, one of each round."""
        return [a / b for a, b in zip(self.samples, self.unchecked, strict=False)]

    @property
    def varies(self) -> bool:
        """Whether more rounds may tell more."""
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
    """How often to measure.

    Attributes:
        sides: which sides, in the order of their turns.
        repeat: samples of each side; more of workloads that something disturbs.
        upstream_repeat: samples of the interpreter, whose calls take seconds.
    """

    sides: Sequence[str]
    repeat: int
    upstream_repeat: int


#: Workloads that something disturbs get at most so many times as many rounds.
_MORE_ROUNDS = 5


def take_turns(
    processes: Sequence[SideProcess], name: str, wrong: Mapping[str, str], plan: Plan
) -> dict[str, Times]:
    """Measures one workload on all sides, in alternation, and longer where times vary."""
    times = {p.side: _prepare(p, name, wrong.get(p.side, "")) for p in processes}
    for number in range(_MORE_ROUNDS * plan.repeat):
        if number >= plan.repeat and not _vary(times):
            break
        for process in processes:
            found = times[process.side]
            if found.note or (process.side in SLOW and number >= plan.upstream_repeat):
                continue
            try:
                answer = process.ask()
            except TooSlowError as error:
                found.note = str(error)
                continue
            found.samples.append(answer["seconds"])
            found.waited.append(answer["waited"])
            if process.side in CHECKED:
                found.unchecked.append(answer["unchecked"])
    return times


def _vary(times: Mapping[str, Times]) -> bool:
    """Whether more rounds may tell more: calls that take seconds are not repeated for this."""
    return any(found.varies for side, found in times.items() if side not in SLOW)


def _prepare(process: SideProcess, name: str, wrong: str) -> Times:
    """Lets a side call a workload once.

    Args:
        wrong: why there is no use in it, if it is known.
    """
    if wrong:
        return Times(note=wrong)
    try:
        found = Times(**process.ask(prepare=name))
    except TooSlowError as error:
        return Times(note=str(error))
    if not found.right:
        found.note = f"wrong result, error {found.error:.1e}"
    return found


@dataclass(frozen=True)
class Row:
    """One workload with one number of threads.

    Attributes:
        access: see `Workload`.
    """

    name: str
    title: str
    threads: int
    times: dict[str, Times]
    access: str = "plain"

    def ratio(self, side: str) -> float | None:
        """How many times longer than that side ours takes; None where one is missing."""
        ours, other = self.times.get("ours"), self.times.get(side)
        if ours is None or other is None or not ours.samples or not other.samples:
            return None
        return ours.median / other.median

    def slowdown(self, side: str) -> float | None:
        """How many times longer a call takes under a side's checks; None if that is unknown."""
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
    """Measures every workload with every number of threads.

    Args:
        workloads: of `workloads.WORKLOADS`.
        threads: numbers of threads.
        plan: how often.
        caches: a folder for compiled kernels.
        report: told of every row as it is done.
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
    """Measures the memory of a side's calls, in a process that is not timed."""
    process = SideProcess(side, threads, caches)
    try:
        for row in rows:
            times = row.times.get(side)
            if times is not None and not times.note:
                process.ask(prepare=row.name)
                times.peak_bytes = process.ask(memory=True)["peak_bytes"]
    finally:
        process.close()
