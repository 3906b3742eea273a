"""Configurations in separate processes: crashes, hangs and wrong results only reject themselves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from tests.tuner.workers.test_serialized_launch import launch_of

from ttools.core import triton_versions
from ttools.core.errors import TtoolsError
from ttools.core.process.channel import WorkerEndedError, WorkerGoneError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.store.store import TuningStore
from ttools.tuner.workers.fork_server import ForkServer
from ttools.tuner.workers.references import UnavailableObjectError
from ttools.tuner.workers.serialized_launch import CannotSendError, deserialize, serialize
from ttools.tuner.workers.serving import Answer, Opening
from ttools.tuner.workers.worker_slot import WorkerSlot

SCALE = tl.constexpr(2.0)


@pytest.fixture(autouse=True)
def unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable bounds checks, so that kernels can crash their process."""
    monkeypatch.setenv("TTOOLS_UNSAFE", "1")


@triton.jit
def scaled(x):
    return x * SCALE


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, KIND: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offs >= 0) if EVEN else (offs < n)
    if KIND == "partial":
        mask = mask & (offs < n // 8)
    if KIND == "crash":
        offs = offs.to(tl.int64) * 1_000_000_000_000
    tl.store(out_ptr + offs, scaled(tl.load(x_ptr + offs, mask=mask)), mask=mask)


def hang(arguments: dict) -> None:
    time.sleep(1000)


def configs() -> list[triton.Config]:
    right = [triton.Config({"BLOCK": block, "KIND": "right"}) for block in (64, 256)]
    return [
        right[0],
        triton.Config({"BLOCK": 1024, "KIND": "partial"}),
        triton.Config({"BLOCK": 64, "KIND": "crash"}),
        triton.Config({"BLOCK": 128, "KIND": "right"}, pre_hook=hang),
        triton.Config({"BLOCK": 48, "KIND": "right"}),
        right[1],
    ]


@pytest.mark.slow
def test_failing_configurations_are_rejected_within_their_timeout(
    tmp_path: Path,
) -> None:
    n, timeout = 4000, 12.0
    x, out = torch.rand(n), torch.zeros(n)
    kernel = triton.autotune(configs(), key=["n"])(scale_kernel)
    options = TuneOptions(search="exhaustive", timeout=timeout)
    with TuningRun(options, store=tmp_path / "store.sqlite") as run:
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert torch.equal(out, 2 * x)
    (result,) = run.results
    statuses = {
        (t.values["BLOCK"], t.values["KIND"]): (t.status, t.reason) for t in result.trials.values()
    }
    assert {key: status for key, (status, _) in statuses.items()} == {
        (64, "right"): "ok",
        (256, "right"): "ok",
        (1024, "partial"): "wrong",
        (64, "crash"): "crashed",
        (128, "right"): "timed_out",
        (48, "right"): "failed",
    }
    assert statuses[64, "crash"][1] == "the process was killed by SIGSEGV (Segmentation fault)"
    assert statuses[128, "right"][1].endswith("no answer within 12 s")
    assert "power of 2" in statuses[48, "right"][1]
    assert result.winner.values["KIND"] == "right"
    assert result.winner.values["BLOCK"] in (64, 256)
    assert result.notes == []


@pytest.mark.slow
def test_no_process_remains() -> None:
    server = ForkServer()
    slot = WorkerSlot(server)
    slot._worker = worker = server.fork()
    server.close()
    until = time.monotonic() + 20
    while Path(f"/proc/{worker.pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker.pid}").exists()
    slot.end()
    assert worker.code == -signal.SIGKILL, "the worker ended with its server"


def test_killed_and_slow_workers_are_distinguished() -> None:
    server = ForkServer()
    slot = WorkerSlot(server)
    try:
        for sent, sentence, timeout, how in (
            (signal.SIGTERM, r"was killed by SIGTERM \(Terminated\)", 60.0, "crashed"),
            (signal.SIGKILL, "was killed by SIGKILL", 60.0, "killed"),
            (signal.SIGSTOP, r"no answer within 0.2 s", 0.2, "timed_out"),
        ):
            slot._worker = server.fork()
            os.kill(slot._worker.pid, sent)
            with pytest.raises(WorkerEndedError, match=sentence) as caught:
                slot.ask("anything", timeout)
            assert caught.value.how == how
    finally:
        server.close()


def _runs(number: int) -> bool:
    try:
        return bool(Path(f"/proc/{number}/cmdline").read_bytes())  # a zombie has no command line
    except FileNotFoundError:
        return False


class LeavesACompiler:
    """Starts a child, as Triton starts `ptxas`, and kills its process when it is unpickled."""

    def __init__(self, number: Path) -> None:
        self.number = number

    def __reduce__(self):
        text = f"""
import os, pathlib, signal, subprocess
child = subprocess.Popen(["sleep", "60"], close_fds=False)
pathlib.Path({str(self.number)!r}).write_text(str(child.pid))
os.kill(os.getpid(), signal.SIGKILL)
"""
        return exec, (text,)


def test_a_compiler_ends_with_its_worker(tmp_path: Path) -> None:
    server = ForkServer(kind="compile")
    number = tmp_path / "number"
    try:
        with pytest.raises(WorkerEndedError, match="SIGKILL"):
            WorkerSlot(server).ask(LeavesACompiler(number), 60.0)
        compiler = int(number.read_text())
        until = time.monotonic() + 15
        while _runs(compiler) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _runs(compiler)
    finally:
        server.close()


def kill_once(arguments: dict) -> None:
    marker = Path(os.environ["TTOOLS_TEST_MARKER"])
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def kill(arguments: dict) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_externally_killed_workers_are_retried_and_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTOOLS_TEST_MARKER", str(tmp_path / "killed"))
    tried = [
        triton.Config({"BLOCK": 64, "KIND": "right"}),
        triton.Config({"BLOCK": 128, "KIND": "right"}, pre_hook=kill_once),
        triton.Config({"BLOCK": 256, "KIND": "right"}, pre_hook=kill),
    ]
    x, out = torch.rand(1000), torch.zeros(1000)
    path = tmp_path / "store.sqlite"
    with TuningRun(TuneOptions(search="exhaustive"), store=path) as run:
        triton.autotune(tried, key=["n"])(scale_kernel)[(16,)](x, out, 1000)
    (result,) = run.results
    trials = {t.values["BLOCK"]: t for t in result.trials.values()}
    assert {block: t.status for block, t in trials.items()} == {64: "ok", 128: "ok", 256: "killed"}
    assert "twice; it was probably killed from outside" in trials[256].reason
    (entry,) = TuningStore(path, create=False).entries()
    assert {t.values["BLOCK"] for t in entry.trials} == {64, 128}


def test_a_server_provides_the_hash_of_triton() -> None:
    server = ForkServer()
    try:
        assert server.triton_hash() == triton_versions.hash_triton()
        worker = server.fork()  # forking still works
        worker.channel.close()
        assert worker.wait(60) == 0
    finally:
        server.close()
    with pytest.raises(TtoolsError):
        server.triton_hash()


def test_a_killed_fork_server_is_restarted() -> None:
    server = ForkServer()
    slot = WorkerSlot(server)
    try:
        slot._worker = server.fork()
        server._process.kill()
        server._process.wait()
        with pytest.raises(WorkerEndedError) as caught:
            slot.ask("anything", 60.0)
        assert caught.value.how == "killed", "the worker ended with its server"
        again = server.fork()
        assert Path(f"/proc/{again.pid}").exists()
        again.end()
    finally:
        server.close()
    with pytest.raises(TtoolsError, match="cannot be started"):
        server.fork()


@pytest.fixture
def generator():
    """Return an object that pickle refuses, so that only a forked process can have it."""
    return (_ for _ in range(1000))


def test_configurations_that_cannot_be_sent_run_in_forks(generator) -> None:
    def counted(arguments: dict) -> None:
        next(generator)

    tried = [
        triton.Config(config.kwargs, pre_hook=config.pre_hook or counted) for config in configs()
    ]
    x, out = torch.rand(1000), torch.zeros(1000)
    with TuningRun(TuneOptions(search="exhaustive", timeout=6.0)) as run:
        triton.autotune(tried, key=["n"])(scale_kernel)[(16,)](x, out, 1000)
    (result,) = run.results
    statuses = {(t.values["BLOCK"], t.values["KIND"]): t.status for t in result.trials.values()}
    assert statuses == {
        (64, "right"): "ok",
        (256, "right"): "ok",
        (1024, "partial"): "wrong",
        (64, "crash"): "crashed",
        (128, "right"): "timed_out",
        (48, "right"): "failed",
    }
    assert torch.equal(out, 2 * x)
    (note,) = result.notes
    assert "cannot be sent to another process: cannot pickle 'generator' object" in note
    assert note.endswith("; its configurations run in forks of this process")
    assert next(generator) < 3, "the forks use their own copies of the generator"


def test_a_worker_refuses_objects_of_the_script(generator) -> None:
    """Refuse the launch, as on a GPU, where the process of the script cannot be forked."""
    rate = {"unused": generator, "n": 16}
    for grid, fails in ((lambda meta: (rate["n"],), False), (lambda meta: next(generator), True)):
        launch = launch_of({"x_ptr": torch.ones(3), "grid": grid})
        with pytest.raises(CannotSendError, match="'generator' object"):
            serialize(launch)
        restored_grid = deserialize(serialize(launch, replaces=True)).arguments["grid"]
        if not fails:
            assert restored_grid({}) == (16,)
            continue
        with pytest.raises(UnavailableObjectError, match=r"builtins\.generator"):
            restored_grid({})


def test_the_reason_is_raised_if_nothing_runs() -> None:
    wrong = [triton.Config({"BLOCK": b, "KIND": "right"}) for b in (33, 48)]
    with TuningRun() as run, pytest.raises(triton.CompilationError, match="power of 2"):
        triton.autotune(wrong, key=["n"])(scale_kernel)[(1,)](torch.ones(9), torch.ones(9), 9)
    assert run.results[0].winner is None


def test_answers_and_openings_are_plain_data() -> None:
    import pickle

    error = WorkerGoneError("why")
    again = pickle.loads(pickle.dumps(Answer(error=error))).error
    assert (again.how, str(again)) == ("crashed", "why")
    assert "compiles_only" in Opening.__dataclass_fields__
