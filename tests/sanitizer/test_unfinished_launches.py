"""Launches that fail or are interrupted keep the findings so far."""

from __future__ import annotations

import linecache
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.compiler import ASTSource

from ttools.core.errors import KernelError, UsageError
from ttools.core.findings.findings import Finding
from ttools.core.process.interruptible import stop_other_threads
from ttools.core.process.phases import current_work, tick
from ttools.interpreter import interpret
from ttools.interpreter.runtime import blocked_programs, cache, packed_log
from ttools.interpreter.runtime.stopping import stop_all
from ttools.sanitizer import sanitize
from ttools.sanitizer.checks import racecheck
from ttools.sanitizer.passes import rewrites


@triton.jit
def never_ends(x_ptr, out_ptr):
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + 12) + 1)
    total = 0.0
    while total < 10:
        total += tl.load(x_ptr) * 0
    tl.store(out_ptr, total)


@triton.jit
def long_loop(x_ptr, out_ptr, n):
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + 12) + 1)
    total = 0.0
    for i in range(n):
        total += tl.load(x_ptr + i % 4)
    tl.store(out_ptr, total)


@triton.jit
def long_tiles(x_ptr, out_ptr, n):
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + 12) + 1)
    offs = tl.arange(0, 4)
    total = tl.zeros([4], tl.float32)
    for i in range(n):
        for _ in range(n):
            total += tl.load(x_ptr + (offs + i) % 8)
    tl.store(out_ptr + offs, total)


@triton.jit
def fills(out_ptr):
    tl.store(out_ptr, 2.0)


@triton.jit
def waits(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass


@triton.jit
def asserts(x_ptr, out_ptr):
    offs = tl.arange(0, 16)
    x = tl.load(x_ptr + offs)
    tl.device_assert(x > 0, "positive")
    tl.store(out_ptr + offs, x)


def _type_ctrl_c_when(started: torch.Tensor) -> threading.Thread:
    def wait() -> None:
        while not started.all():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("programs", [1, 2])
@pytest.mark.parametrize("checked", [True, False])
def test_endless_loop_is_interrupted(programs: int, checked: bool) -> None:
    x, out = torch.ones(10 if checked else 16), torch.zeros(programs)
    report: Any = sanitize(threads=2) if checked else nullcontext()
    thread = _type_ctrl_c_when(out)
    with interpret(threads=2), report, pytest.raises(KeyboardInterrupt):
        never_ends[(programs,)](x, out)
    thread.join()
    if checked:
        finding, stopped = report.findings
        assert (finding.kind, finding.count) == ("oob_load", programs)
        assert (stopped.kind, stopped.severity) == ("interrupted", "note")
        assert _line(stopped) == "while total < 10:"
        assert [(entry.kernel, entry.count) for entry in report.launches] == [("never_ends", 1)]


def _line(finding: Finding) -> str:
    assert finding.location is not None
    return linecache.getline(finding.location.file, finding.location.line).strip()


@pytest.mark.parametrize("programs", [1, 2])
@pytest.mark.parametrize("kernel", [long_loop, long_tiles])
def test_for_loop_is_interrupted(kernel: Any, programs: int) -> None:
    x, out = torch.ones(10), torch.zeros(max(programs, 4))
    out[programs:] = 1
    # The first launch makes this one seem short, so that the main thread runs it.
    with sanitize(threads=2, checks="memcheck") as report:
        kernel[(programs,)](x, out, 2)
        out[:programs] = 0
        thread = _type_ctrl_c_when(out)
        with pytest.raises(KeyboardInterrupt):
            kernel[(programs,)](x, out, 10**15)
    thread.join()
    _, stopped = report.findings
    assert stopped.kind == "interrupted"
    assert _line(stopped).startswith("for ")
    assert stopped.program is not None


@pytest.mark.parametrize("kernel", [long_loop, long_tiles, never_ends])
@pytest.mark.parametrize("programs", [1, 3])  # the launch of the third program does not begin
def test_launch_is_stopped_after_its_time(kernel: Any, programs: int) -> None:
    x, out = torch.ones(10), torch.zeros(4)
    arguments = (x, out) if kernel is never_ends else (x, out, 10**15)
    with sanitize(threads=2, checks="memcheck", timeout=0.3) as report:
        kernel[(programs,)](*arguments)
        out.zero_()
        fills[(1,)](out)  # the program continues
    assert out[0] == 2
    finding, stopped = report.findings
    assert (finding.kind, finding.count) == ("oob_load", min(programs, 2))
    assert (stopped.kind, stopped.severity, stopped.check) == ("timeout", "error", "launch")
    assert _line(stopped).split()[0] in ("for", "while")
    assert "--timeout" in stopped.message


def test_launch_of_another_thread_is_stopped() -> None:
    x, out = torch.ones(10), torch.zeros(4)

    def launch() -> None:
        with pytest.raises(SystemExit):  # a thread ends silently after this exception
            long_loop[(1,)](x, out, 10**15)

    with sanitize(checks="memcheck") as report:
        thread = threading.Thread(target=launch)
        thread.start()
        while not out[0]:
            time.sleep(0.01)
        stop_all("interrupt")
        thread.join()
    assert [f.kind for f in report.findings] == ["oob_load", "interrupted"]


def test_a_stopped_kernel_gets_less_time_the_next_time() -> None:
    x, out = torch.ones(10), torch.zeros(4)
    with sanitize(checks="memcheck", timeout=0.4) as report:
        for _ in range(3):
            never_ends[(1,)](x, out)
    (stopped,) = (f for f in report.findings if f.kind == "timeout")
    assert stopped.count == 3
    assert sum(entry.seconds for entry in report.launches) < 3 * 0.4


@triton.jit
def counts(count_ptr, out_ptr):
    tl.store(out_ptr + tl.atomic_add(count_ptr, 1), 1.0)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Let the time of a phase end when a function is called."""

    def arrange(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            work = current_work()
            assert work is not None
            work.phase.deadline = 0.0
            tick()
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, called)

    return arrange


PHASES = {
    "front end": (ASTSource, "make_ir", "compilation", "the launch was not made and not checked"),
    "passes": (rewrites, "inline_calls", "compilation", "the launch was not made and not checked"),
    "LLVM": (cache, "wait_for", "compilation", "the launch was not made and not checked"),
    "analysis": (
        racecheck,
        "near_accesses",
        "race analysis",
        "races in this launch were not checked for",
    ),
    "second order": (
        *(racecheck, "in_another_order", "run in another order"),
        "races that only this phase can detect were not checked for",
    ),
}


@pytest.mark.parametrize("place", PHASES)
def test_a_phase_that_takes_too_long_is_left_out(
    place: str, late: Callable[[Any, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTOOLS_CACHE", "off")
    owner, name, phase, missing = PHASES[place]
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(8)
    counts.device_caches.clear()
    with sanitize(checks="all") as report:
        fills[(1,)](out)
        late(owner, name)
        counts[(2,)](count, out)
        monkeypatch.undo()
        fills[(1,)](out)  # the program continues
    (finding,) = report.findings
    assert (finding.kind, finding.severity, finding.check) == ("not_checked", "error", "launch")
    assert finding.message.startswith(f"{phase} of launch 1 of kernel `counts` was stopped after ")
    assert finding.message.endswith(f" s (--timeout); {missing}")
    assert finding.launch is not None
    (entry,) = (launch for launch in report.launches if launch.kernel == "counts")
    assert (entry.count, entry.checked) == (1, 0)
    (cut,) = entry.unfinished
    assert (cut.phase, cut.reason, "racecheck" in cut.checks) == (phase, "timeout", True)
    was_made = phase != "compilation"
    assert out[:2].tolist() == [2.0, 1.0 if was_made else 0.0]
    assert "1 error in 1 kernel, 2 launches; not checked to the end: `counts`" in repr(report)


def test_other_checks_continue_if_one_takes_too_long(late: Callable[[Any, str], None]) -> None:
    late(racecheck, "near_accesses")
    x = torch.zeros(10)
    with sanitize() as report:
        counts[(2,)](torch.full((1,), 9, dtype=torch.int32), x)
    assert sorted(f.kind for f in report.findings) == ["not_checked", "oob_store"]
    (entry,) = report.launches
    assert entry.unfinished[0].checks == ("racecheck",)


def test_an_analysis_in_another_thread_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    analyses, requested = threading.Event(), threading.Event()
    near = racecheck.near_accesses

    def waits(monitor: Any) -> Any:
        analyses.set()
        assert requested.wait(60)
        tick()
        return near(monitor)

    def launch() -> None:
        with pytest.raises(SystemExit):  # a thread ends silently after this exception
            counts[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(8))

    monkeypatch.setattr(racecheck, "near_accesses", waits)
    with sanitize() as report:
        thread = threading.Thread(target=launch)
        thread.start()
        assert analyses.wait(60)
        stop_other_threads()  # as Ctrl-C does
        requested.set()
        thread.join()
    (finding,) = report.findings
    assert (finding.kind, finding.severity) == ("interrupted", "note")
    assert finding.message.startswith(
        "race analysis of launch 1 of kernel `counts` was interrupted "
    )
    (entry,) = report.launches
    assert (entry.checked, entry.unfinished[0].reason) == (0, "interrupted")


def test_a_launch_that_raises_is_not_checked() -> None:
    with sanitize() as report, suppress(KernelError):
        asserts[(1,)](torch.zeros(16), torch.ones(16), debug=True)
    (entry,) = report.launches
    assert (entry.checked, entry.unfinished[0].reason) == (0, "failed")
    assert "no finding" not in repr(report)


def test_running_launches_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[Any] = []
    near = racecheck.near_accesses

    def look(monitor: Any) -> Any:
        states.append((report.launches[-1], repr(report)))
        return near(monitor)

    monkeypatch.setattr(racecheck, "near_accesses", look)
    with sanitize() as report:
        fills[(1,)](torch.zeros(1))
    ((entry, text),) = states
    assert (entry.unfinished[0].phase, entry.unfinished[0].reason) == ("race analysis", "running")
    assert "no launch was checked to its end" in text
    assert [launch.checked for launch in report.launches] == [1]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5"])
def test_timeout_is_validated(timeout: Any) -> None:
    with pytest.raises(UsageError, match="timeout="):
        sanitize(timeout=timeout)


def test_waiting_programs_are_stopped_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_programs, "_DEADLOCK_SECONDS", 1e9)
    with sanitize(timeout=0.5) as report:
        waits[(2,)](torch.zeros(1, dtype=torch.int32))
    (stopped,) = (f for f in report.findings if f.kind == "timeout")
    assert _line(stopped).startswith("while ")
    assert stopped.program == (0, 0, 0)


def test_a_signal_handler_may_let_a_launch_continue() -> None:
    x, out = torch.ones(16), torch.zeros(4)
    out[1:] = 1
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        with sanitize(threads=2, checks="memcheck", timeout=60) as report:
            long_loop[(1,)](x, out, 2)
            out[0] = 0
            thread = _type_ctrl_c_when(out)
            long_loop[(1,)](x, out, 100_000_000)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]
    assert report.findings == []


def test_a_failed_assertion_keeps_the_findings_before_it() -> None:
    with sanitize() as report, pytest.raises(KernelError, match="`positive` failed"):
        asserts[(1,)](torch.ones(10), torch.ones(16), debug=True)
    (finding,) = report.findings
    assert (finding.kind, finding.lane) == ("oob_load", (10,))
    assert [entry.kernel for entry in report.launches] == ["asserts"]


@triton.jit
def stores_forever(x_ptr, step_ptr):
    step, i = tl.load(step_ptr), 0
    while i < 100:
        tl.store(x_ptr + i % 4, i)
        i += step


def test_the_log_of_an_endless_loop_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_log, "MOST_RECORDS", 1 << 15)
    step = torch.zeros(1, dtype=torch.int32)
    with sanitize(timeout=0.3) as report:
        stores_forever[(1,)](torch.zeros(4), step)
    assert [f.kind for f in report.findings] == ["timeout"]


@triton.jit
def scatters(x_ptr, index_ptr, count_ptr, SYNCHRONISES: tl.constexpr, B: tl.constexpr):
    turn = tl.program_id(0)
    if SYNCHRONISES:
        turn = tl.atomic_add(count_ptr, 1)
    tl.store(x_ptr + tl.load(index_ptr + tl.arange(0, B)), turn)


@pytest.mark.parametrize("synchronises", [False, True])
@pytest.mark.parametrize("most", [1 << 20, 100])
def test_a_full_log_is_reported(
    synchronises: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_log, "MOST_RECORDS", most)
    index = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    count = torch.zeros(1, dtype=torch.int32)
    with sanitize(checks="racecheck") as report:
        scatters[(2,)](torch.zeros(64), index, count, SYNCHRONISES=synchronises, B=64)
    (finding,) = report.findings
    expected = ("unsupported", "warning") if most == 100 else ("overlapping_store", "error")
    assert (finding.kind, finding.severity) == expected
