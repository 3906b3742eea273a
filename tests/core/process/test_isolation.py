"""Workers in namespaces of their own."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ttools.core.process.channel import Channel, WorkerGoneError
from ttools.core.process.isolation import missing_isolation
from ttools.core.process.worker import Limits, Worker, fork_worker

needs_isolation = pytest.mark.skipif(
    missing_isolation() != "", reason=f"not permitted here: {missing_isolation()}"
)


def names(folder: str) -> list[str]:
    return [each.name for each in Path(folder).iterdir()]


def spaces() -> dict[str, str]:
    return {each.name: str(each.readlink()) for each in Path("/proc/self/ns").iterdir()}


def answered(function: Callable[[], Any], **limits: Any) -> Any:
    """What a function returns in an isolated worker; the name of the error that it raises."""

    def serve(channel: Channel) -> None:
        channel.receive()
        try:
            channel.send(function())
        except Exception as error:  # noqa: BLE001 - it is what is asked for
            channel.send(type(error).__name__)

    worker = isolated(serve, **limits)
    try:
        return worker.ask("go")
    finally:
        worker.end()


def isolated(serve: Callable[[Channel], int | None], **limits: Any) -> Worker:
    return fork_worker(serve, Limits(seconds=20.0, isolated=True, own_folder=True, **limits))


@needs_isolation
def test_files_are_seen_but_not_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("before")

    def write() -> str:
        assert file.read_text() == "before"
        file.write_text("after")
        return "written"

    assert answered(write) == "OSError"
    assert file.read_text() == "before"


@needs_isolation
def test_its_own_folder_is_written(tmp_path: Path) -> None:
    def write() -> list[str]:
        Path("file").write_text("text")
        return [Path("file").read_text(), *names(".")]

    assert answered(write) == ["text", "file"]


@needs_isolation
def test_the_cache_is_written(tmp_path: Path) -> None:
    def write() -> str:
        (tmp_path / "entry").write_text("text")
        return os.environ["TTOOLS_CACHE_DIR"]

    assert answered(write, cache=str(tmp_path)) == str(tmp_path / "ttools")
    assert (tmp_path / "entry").read_text() == "text"


@needs_isolation
def test_other_processes_are_not_seen() -> None:
    parent = os.getpid()

    def seen() -> list[Any]:
        numbers = [int(each) for each in names("/proc") if each.isdigit()]
        return [os.getpid(), numbers, parent in numbers]

    assert answered(seen) == [1, [1], False]


@needs_isolation
def test_settings_of_the_system_are_not_written() -> None:
    def opened() -> int:
        return os.open("/proc/sys/kernel/hostname", os.O_WRONLY)

    assert answered(opened) == "OSError"


@needs_isolation
def test_the_host_name_is_its_own() -> None:
    here = str(Path("/proc/self/ns/uts").readlink())
    assert answered(lambda: str(Path("/proc/self/ns/uts").readlink())) != here
    assert answered(lambda: socket.sethostname("another")) == "PermissionError"


@needs_isolation
def test_there_is_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        assert answered(lambda: str(socket.create_connection(address, 2.0))) == "OSError"


@needs_isolation
def test_there_are_no_capabilities_and_no_disks() -> None:
    def kept() -> list[Any]:
        lines = Path("/proc/self/status").read_text().splitlines()
        masks = [line.split()[1] for line in lines if line.startswith("Cap")]
        return [set(masks) == {"0" * 16}, sorted(names("/dev"))]

    has_none, devices = answered(kept)
    assert has_none
    assert devices == ["fd", "full", "null", "random", "shm", "stdin", "urandom", "zero"]


@needs_isolation
def test_a_process_that_it_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "alive"

    def leave() -> str:
        if os.fork() == 0:
            os.setsid()
            while True:
                (file / "beat").write_text(str(time.monotonic()))
                time.sleep(0.02)
        while not (file / "beat").exists():
            time.sleep(0.02)
        return "left"

    file.mkdir()
    assert answered(leave, cache=str(file)) == "left"
    time.sleep(0.3)
    last = (file / "beat").read_text()
    time.sleep(0.3)
    assert (file / "beat").read_text() == last


@needs_isolation
def test_how_it_ends_is_seen() -> None:
    def serve(channel: Channel) -> int | None:
        return 7 if channel.receive() == "leave" else None

    worker = isolated(serve)
    with pytest.raises(WorkerGoneError, match="exit status 7"):
        worker.ask("leave")
    worker = isolated(lambda channel: signal.raise_signal(signal.SIGSEGV))
    with pytest.raises(WorkerGoneError, match="ended"):
        worker.ask("anything")


@needs_isolation
def test_the_system_is_as_before(tmp_path: Path) -> None:
    before = spaces()
    mounts = Path("/proc/self/mountinfo").read_text()
    assert answered(lambda: "done") == "done"
    (tmp_path / "file").write_text("written")
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert spaces() == before
