"""Tests of worker processes: answers, time limits, exit, resource limits and cleaning up."""

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

from ttools.core.process.channel import Channel, PickleCodec, WorkerGoneError, WorkerSlowError, wait
from ttools.core.process.child_environment import children_call
from ttools.core.process.worker import Limits, Worker, exit_text, fork_worker, spawn_worker

_MODULE = """
import os, sys, time
from pathlib import Path
from ttools.core.process.channel import WorkerGoneError

def double(channel, suffix):
    while True:
        channel.send(channel.receive() * 2 + suffix)

def says(channel):
    sys.stderr.write("first\\n")
    os.kill(os.getpid(), 11)

def raises(channel):
    raise ValueError("of the worker")

def four(channel):
    return 4

def surroundings(channel):
    channel.send({"run": "_TTOOLS_RUN" in os.environ, "path": sys.path, "folder": os.getcwd()})

class Thing:
    pass

def thing(channel):
    channel.send(Thing())
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    tmp_path.joinpath("served_here.py").write_text(_MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "served_here"


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    """Return a function that starts workers, which are ended after the test."""
    workers: list[Worker] = []

    def started(serve: Any, *arguments: str, codec: Any = None, **limits: Any) -> Worker:
        own = Limits(**{"seconds": 60.0, **limits})
        worker = (
            spawn_worker(serve, arguments, own, codec)
            if isinstance(serve, str)
            else fork_worker(serve, own, codec)
        )
        workers.append(worker)
        return worker

    yield started
    for worker in workers:
        worker.end()


def _doubles(channel: Channel) -> None:
    while True:
        channel.send(channel.receive() * 2)


def _exists(pid: int) -> bool:
    """Return True if a process exists and is not a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def _ends(pid: int) -> bool:
    until = time.monotonic() + 30
    while _exists(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not _exists(pid)


def test_both_kinds_of_workers_answer(start: Callable[..., Worker], module: str) -> None:
    fork, spawned = start(_doubles), start(f"{module}:double", "!")
    assert fork.ask(21) == 42
    assert fork.ask((1, "a")) == (1, "a", 1, "a")
    assert [spawned.ask("x"), spawned.ask("y")] == ["xx!", "yy!"]
    assert fork.end() == -signal.SIGKILL
    assert fork.end() == -signal.SIGKILL
    with pytest.raises(WorkerGoneError, match="the process has ended"):
        fork.ask(1)


def test_waiting_for_the_first_answer(start: Callable[..., Worker]) -> None:
    one, two, three = (start(_doubles) for _ in range(3))
    two.send(4)
    channels = [worker.channel for worker in (one, two, three)]
    assert wait(channels, 60) == [two.channel]
    assert two.receive() == 8
    os.kill(three.pid, signal.SIGKILL)
    assert wait(channels, 60) == [three.channel]
    assert wait(channels[:1], 0.01) == []


@pytest.mark.parametrize(
    ("act", "code", "text"),
    [
        (lambda: os.kill(os.getpid(), 11), -11, "was killed by SIGSEGV (Segmentation fault)"),
        (os.abort, -6, "was killed by SIGABRT (Aborted)"),
        (lambda: os._exit(3), 3, "ended with exit status 3"),
        (lambda: 1 / 0, 1, "ended with exit status 1"),
        (
            lambda: os.kill(os.getpid(), 9),
            -9,
            (
                "was killed by SIGKILL (sent by another process, or by the system when memory or "
                "CPU time runs out)"
            ),
        ),
    ],
)
def test_the_end_of_a_worker_is_described(
    start: Callable[..., Worker], act: Callable[[], Any], code: int, text: str
) -> None:
    with pytest.raises(WorkerGoneError) as raised:
        start(lambda _: act(), errors="dropped").receive()
    assert raised.value.code == code
    assert str(raised.value) == f"the process {text}"


def test_texts_for_exit_codes() -> None:
    assert exit_text(0) == "ended with exit status 0"
    assert exit_text(None) == "has ended"
    assert exit_text(-200) == "was killed by signal 200"


def test_standard_error_of_a_worker_is_kept(start: Callable[..., Worker], module: str) -> None:
    spawned = start(f"{module}:says", errors="kept")
    with pytest.raises(WorkerGoneError, match="SIGSEGV"):
        spawned.receive()
    assert spawned.errors == "first\n"

    def serve(channel: Channel) -> None:
        channel.receive()
        os.write(2, b"before\n")
        channel.send(1)
        channel.receive()
        os.write(2, b"after\n")
        raise ValueError("of the worker")

    fork = start(serve, errors="kept")
    fork.ask(0)
    assert fork.errors == "before\n"
    fork.forget_errors()
    with pytest.raises(WorkerGoneError, match="exit status 1"):
        fork.ask(0)
    assert fork.errors.startswith("after\nTraceback")
    assert fork.errors.endswith("ValueError: of the worker\n")


def test_the_result_of_the_function_is_the_exit_status(
    start: Callable[..., Worker], module: str
) -> None:
    assert start(f"{module}:four").wait(60) == 4
    assert start(lambda _: 5).wait(60) == 5
    raising = start(f"{module}:raises", errors="kept")
    assert raising.wait(60) == 1
    assert raising.errors.endswith("ValueError: of the worker\n")


def test_a_slow_worker_is_killed_with_its_children(
    start: Callable[..., Worker],
) -> None:
    def serve(channel: Channel) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        channel.send(child.pid)
        while True:
            pass

    worker = start(serve)
    grandchild = worker.receive()
    assert _exists(grandchild)
    with pytest.raises(WorkerSlowError, match=r"no answer within 0\.2 s"):
        worker.receive(0.19999)
    assert worker.code == -signal.SIGKILL
    assert _ends(grandchild)
    slow = start(lambda _: time.sleep(600))
    with pytest.raises(WorkerSlowError):
        slow.wait(0.1)


def test_sending_has_the_same_time_limit(start: Callable[..., Worker]) -> None:
    worker = start(lambda _: time.sleep(600), seconds=0.2)
    with pytest.raises(WorkerSlowError):
        worker.send(bytes(1 << 24))


def test_the_end_of_a_worker_is_noticed_if_a_child_keeps_the_connection(
    start: Callable[..., Worker],
) -> None:
    def serve(channel: Channel) -> None:
        if os.fork() == 0:
            os.setsid()
            time.sleep(20)
            os._exit(0)
        channel.send("goodbye")
        os._exit(7)

    begin = time.monotonic()
    worker = start(serve)
    assert worker.receive() == "goodbye"
    with pytest.raises(WorkerGoneError, match="exit status 7"):
        worker.receive()
    assert time.monotonic() - begin < 15


_PARENT = """
import os, sys
from ttools.core.process.worker import Limits, fork_worker, spawn_worker

def forever(channel):
    channel.send(os.getpid())
    while True:
        pass

if __name__ == "__main__":
    limits = Limits(seconds=60)
    worker = fork_worker(forever, limits) if sys.argv[1] == "fork" else spawn_worker(
        "parent_of_one:forever", (), limits)
    print(worker.receive(), flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_workers_end_when_their_parent_is_killed(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "parent_of_one.py"
    file.write_text(_PARENT)
    completed = subprocess.run(
        [sys.executable, str(file), kind], stdout=subprocess.PIPE, timeout=120, check=False
    )
    assert completed.returncode == -signal.SIGKILL
    assert _ends(int(completed.stdout))


def test_memory_and_folder_are_limited(start: Callable[..., Worker]) -> None:
    def serve(channel: Channel) -> None:
        channel.send((str(Path.cwd()), os.environ["TMPDIR"]))
        channel.receive()
        try:
            bytearray(1 << 30)
        except MemoryError:
            channel.send("no memory")

    worker = start(serve, memory=1 << 28, own_folder=True)
    folder, temporary = worker.receive()
    assert folder == temporary
    assert Path(folder).is_dir()
    assert worker.ask(0) == "no memory"
    worker.end()
    assert not Path(folder).exists()


def test_forks_inherit_no_connections_to_other_workers(start: Callable[..., Worker]) -> None:
    first = start(_doubles)
    descriptor = first.channel.fileno()

    def serve(channel: Channel) -> None:
        try:
            os.fstat(descriptor)
            channel.send(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        except OSError:
            channel.send("closed")

    link = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    assert start(serve).receive() != link
    assert first.ask(2) == 4


def test_workers_do_not_join_the_run(
    start: Callable[..., Worker], module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a worker does not join the run, or import files of the current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    folder.joinpath(f"{module}.py").write_text("raise SystemExit(7)", "utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with children_call(f"{module}:four", {}):
        surroundings = start(f"{module}:surroundings").receive()
    assert surroundings["run"] is False
    assert "" not in surroundings["path"]


def test_only_trusted_workers_send_objects(start: Callable[..., Worker], module: str) -> None:
    received = start(f"{module}:thing", codec=PickleCodec()).receive()
    assert type(received).__name__ == "Thing"
    with pytest.raises(WorkerGoneError, match="exit status 1"):
        start(f"{module}:thing", errors="dropped").receive()


def test_workers_can_be_started_by_threads(start: Callable[..., Worker]) -> None:
    answers: list[int] = []

    def work() -> None:
        worker = start(_doubles)
        answers.append(worker.ask(3))
        worker.end()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert answers == [6]
