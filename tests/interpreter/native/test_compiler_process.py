"""Tests of compilation in another process: the same code and errors, and stopping at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import slow_compilers
from tests.slow_compilers import endless_compilation, endless_module

from ttools.core.errors import KernelError, TtoolsError, UsageError
from ttools.core.process.phases import PhaseStopped, Work
from ttools.core.process.worker import Worker, _is_over, spawn_worker
from ttools.interpreter import interpret
from ttools.interpreter.native import compiler_process, jit
from ttools.interpreter.runtime import cache

torch = pytest.importorskip("torch", reason="torch is not installed")
triton = pytest.importorskip("triton", reason="Triton is not installed")
import triton.language as tl  # noqa: E402

SIMPLE = "define void @ttools_run(ptr %launch, ptr %arena) {\n  ret void\n}\n"
REFUSED = {"syntax": "define nonsense", "types": SIMPLE.replace("ret void", "ret i32 1")}


@triton.jit
def softmax(x_ptr, out_ptr, n):
    offs = tl.arange(0, 64)
    x = tl.load(x_ptr + offs, mask=offs < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + offs, e / tl.sum(e), mask=offs < n)


@triton.jit
def product(x_ptr, out_ptr, n):
    offs = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    total = tl.zeros([16, 16], tl.float32)
    for i in range(n):
        total += tl.dot(tl.load(x_ptr + offs + i), tl.load(x_ptr + offs))
    tl.store(out_ptr + offs, total)


@triton.jit
def ordered(x_ptr, out_ptr, n):
    offs = tl.arange(0, 32)
    tl.store(out_ptr + offs, tl.sort(tl.load(x_ptr + offs) * n))


def compiled(text: str, opt: int = 2) -> bytes:
    return compiler_process.compile_in_process(text, name="k", opt=opt, phases={})


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    """Yield the list of started processes, and finally check that all have ended."""
    started: list[Worker] = []
    start = spawn_worker

    def spawn(*arguments: Any) -> Worker:
        started.append(start(*arguments))
        return started[-1]

    monkeypatch.setattr(compiler_process, "spawn_worker", spawn)
    yield started
    assert all(_is_over(worker.pid) for worker in started)


@pytest.fixture
def all_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile modules of any size in another process, and disable the cache."""
    monkeypatch.setattr(cache, "_LONG_S", 0.0)
    monkeypatch.setattr(cache, "_LONG_LIMITED_S", 0.0)
    monkeypatch.setenv("TTOOLS_CACHE", "off")


@pytest.mark.parametrize("opt", [0, 1, 2, 3])
def test_the_bytes_are_the_same(opt: int) -> None:
    for text in (SIMPLE, f"{jit.QUICK}\n{SIMPLE}", f"{jit.QUICKEST}\n{SIMPLE}"):
        assert compiled(text, opt) == jit.compile_ir(text, name="k", opt=opt)


@pytest.mark.parametrize("kernel", [softmax, product, ordered])
@pytest.mark.parametrize("checked", [False, True])
def test_the_code_of_kernels_is_the_same(
    kernel: Any, checked: bool, all_in_process: None, workers: list[Worker], monkeypatch: Any
) -> None:
    modules: list[tuple[str, int, bytes]] = []
    compile_in_process = compiler_process.compile_in_process

    def compiles(llvm_ir: str, *, opt: int, **options: Any) -> bytes:
        code = compile_in_process(llvm_ir, opt=opt, **options)
        modules.append((llvm_ir, opt, code))
        return code

    monkeypatch.setattr(compiler_process, "compile_in_process", compiles)
    x, outs = torch.rand(512), [torch.zeros(512), torch.zeros(512)]
    kernel.device_caches.clear()
    context: Any = interpret
    if checked:
        from ttools.sanitizer import sanitize as context
    with context():
        kernel[(1,)](x, outs[0], 3)
    assert len(workers) == len(modules) >= 1
    for text, opt, code in modules:
        assert code == jit.compile_ir(text, opt=opt)
    monkeypatch.undo()
    kernel.device_caches.clear()
    with context():
        kernel[(1,)](x, outs[1], 3)
    assert torch.equal(*outs)


@pytest.mark.parametrize("why", REFUSED)
def test_errors_are_the_same(why: str) -> None:
    errors = []
    for compiles in (compiled, lambda text: jit.compile_ir(text, name="k")):
        with pytest.raises(TtoolsError) as caught:
            compiles(REFUSED[why])
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]
    assert "kernel `k` is not valid LLVM IR" in errors[0][1]


def test_an_invalid_target_is_an_error_before_a_process_starts(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise UsageError("TTOOLS_CPU=no such level")

    monkeypatch.setattr(jit, "host_target", refused)
    with pytest.raises(UsageError):
        compiled(SIMPLE)
    assert workers == []


def test_phases_are_measured() -> None:
    phases: dict[str, float] = {}
    compiler_process.compile_in_process(SIMPLE, name="k", opt=2, phases=phases)
    assert set(phases) == {"parse", "optimise", "codegen"}


def test_small_modules_stay_in_this_process(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTOOLS_CACHE", "off")
    softmax.device_caches.clear()
    with interpret(timeout=100):
        softmax[(1,)](torch.rand(64), torch.zeros(64), 60)
    assert workers == []


def test_only_long_compilations_use_a_process() -> None:
    text = SIMPLE + ";" * 300_000
    assert cache._may_take_long(text, is_limited=True)
    assert not cache._may_take_long(text, is_limited=False)
    assert cache._may_take_long(text * 4, is_limited=False)
    assert not cache._may_take_long(f"{jit.QUICKEST}\n{text}", is_limited=True)
    assert not cache._may_take_long(SIMPLE, is_limited=True)


def test_a_timeout_ends_the_process(workers: list[Worker]) -> None:
    with Work("k", 1, 0.5, "compilation"), pytest.raises(PhaseStopped) as stopped:
        compiled(endless_module())
    assert (stopped.value.reason, len(workers)) == ("timeout", 1)
    assert jit.compile_ir(SIMPLE), "LLVM's lock is not free"


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Return a function that makes processes serve with a function of `slow_compilers`."""

    def serve_by(function: Callable[..., object]) -> None:
        owner: Any = compiler_process
        start = owner.spawn_worker

        def spawn(_: str, *arguments: Any) -> Worker:
            return start(f"{slow_compilers.__name__}:{function.__name__}", *arguments)

        monkeypatch.setattr(compiler_process, "spawn_worker", spawn)

    return serve_by


def test_a_process_that_reads_no_request_is_ended(
    workers: list[Worker], serving: Callable[..., None]
) -> None:
    serving(slow_compilers.ignores)
    with Work("k", 1, 1.0, "compilation"), pytest.raises(PhaseStopped):
        compiled(SIMPLE + ";" * 10_000_000)
    assert len(workers) == 1


@pytest.mark.parametrize("how", ["is_killed", "crashes", "exits"])
@pytest.mark.usefixtures("all_in_process")
def test_if_the_process_fails_this_process_compiles(
    how: str, workers: list[Worker], serving: Callable[..., None]
) -> None:
    serving(getattr(slow_compilers, how))
    x, out = torch.ones(64), torch.zeros(64)
    softmax.device_caches.clear()
    with interpret(), pytest.warns(RuntimeWarning, match="kernel `softmax` is compiled in this"):
        softmax[(1,)](x, out, 64)
    assert out.tolist() == [1 / 64] * 64
    assert len(workers) == 1


@pytest.mark.usefixtures("all_in_process")
def test_if_no_process_can_start_this_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(compiler_process, "spawn_worker", refuses)
    out = torch.zeros(64)
    softmax.device_caches.clear()
    with interpret(), pytest.warns(RuntimeWarning, match="the process cannot be started: Resource"):
        softmax[(1,)](torch.ones(64), out, 64)
    assert out.tolist() == [1 / 64] * 64


@pytest.mark.usefixtures("all_in_process")
def test_interpret_stops_compilations(workers: list[Worker]) -> None:
    x, out = torch.ones(64), torch.zeros(64)
    softmax.device_caches.clear()
    with interpret(timeout=3.0), endless_compilation("softmax"):
        with pytest.raises(
            KernelError, match="compilation of kernel `softmax` was stopped"
        ) as late:
            softmax[(1,)](x, out, 64)
        ordered[(1,)](x, out, 1)
    assert late.value.kind == "timeout"
    assert late.value.location is not None
    assert out.tolist()[:33] == [1.0] * 32 + [0.0]
    assert len(workers) == 2


@pytest.mark.slow  # tests/cli/sanitize/test_sanitize_ending.py tests the command
@pytest.mark.usefixtures("all_in_process")
def test_sanitize_stops_compilations(workers: list[Worker]) -> None:
    from ttools.sanitizer import sanitize

    x, out = torch.ones(64), torch.zeros(64)
    softmax.device_caches.clear(), ordered.device_caches.clear()
    with sanitize(timeout=3.0) as report, endless_compilation("softmax"):
        softmax[(1,)](x, out, 64)
        ordered[(1,)](x, out, 1)
    (finding,) = report.findings
    assert finding.kind == "not_checked"
    assert finding.message.startswith(
        "compilation of launch 1 of kernel `softmax` was stopped after "
    )
    assert out.tolist()[:33] == [1.0] * 32 + [0.0]


def test_other_threads_can_compile_at_the_same_time(workers: list[Worker]) -> None:
    begun, over = threading.Event(), threading.Event()

    def waits() -> None:
        with Work("k", 1, 1000.0, "compilation") as work:
            works.append(work)
            begun.set()
            with pytest.raises(PhaseStopped):
                compiled(endless_module())
            over.set()

    works: list[Work] = []
    thread = threading.Thread(target=waits)
    thread.start()
    assert begun.wait(60)
    assert jit.compile_ir(SIMPLE) == compiled(SIMPLE)
    assert not over.is_set()
    works[0].ask("interrupt")
    thread.join(60)
    assert over.is_set()


def children() -> set[str]:
    """Return the ids of this process's children, started by any of its threads."""
    tasks = Path("/proc/self/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


def test_a_fork_can_compile(all_in_process: None) -> None:
    before = children()
    assert compiled(SIMPLE)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if compiled(SIMPLE) == jit.compile_ir(SIMPLE, name="k") else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert children() <= before  # otherwise a script that waits for all its children would hang


SCRIPT = """
import os, signal, sys, threading
from tests.slow_compilers import endless_module
from ttools.interpreter.native import compiler_process
start = compiler_process.spawn_worker

def spawn(*arguments):
    worker = start(*arguments)
    send = worker.send

    def sends(*words):
        send(*words)
        print(worker.pid, flush=True)

    worker.send = sends
    return worker

compiler_process.spawn_worker = spawn
compiler_process.compile_in_process(endless_module(), name="k", opt=2, phases={})
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_the_process_ends_with_the_one_that_waits(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    until = time.monotonic() + 60
    while not _is_over(worker) and time.monotonic() < until:
        time.sleep(0.02)
    assert _is_over(worker)
