"""Tests of workers that are isolated from the system by Linux namespaces."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ttools.core.process.channel import Channel, WorkerGoneError
from ttools.core.process.isolation import missing_isolation
from ttools.core.process.worker import Limits, Worker, fork_worker

needs_isolation = pytest.mark.skipif(
    missing_isolation() != "", reason=f"isolation is not possible: {missing_isolation()}"
)


def names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def spaces() -> dict[str, str]:
    return {path.name: str(path.readlink()) for path in Path("/proc/self/ns").iterdir()}


def run_isolated(function: Callable[[], Any], **limits: Any) -> Any:
    """Run a function in an isolated worker; return its result or the name of its exception."""

    def serve(channel: Channel) -> None:
        channel.receive()
        try:
            channel.send(function())
        except Exception as error:  # noqa: BLE001 - the test compares its name
            channel.send(type(error).__name__)

    worker = isolated(serve, **limits)
    try:
        return worker.ask("go")
    finally:
        worker.end()


def isolated(serve: Callable[[Channel], int | None], **limits: Any) -> Worker:
    limits = {"seconds": 20.0, **limits}
    return fork_worker(serve, Limits(isolated=True, own_folder=True, **limits))


@needs_isolation
def test_files_can_be_read_but_not_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("before")

    def write() -> str:
        assert file.read_text() == "before"
        file.write_text("after")
        return "written"

    assert run_isolated(write) == "OSError"
    assert file.read_text() == "before"


@needs_isolation
def test_the_workers_folder_can_be_written(tmp_path: Path) -> None:
    def write() -> list[str]:
        Path("file").write_text("text")
        return [Path("file").read_text(), *names(".")]

    assert run_isolated(write) == ["text", "file"]


@needs_isolation
def test_libraries_can_keep_caches_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check what FlagGems does: its database of tuned configurations is in `~/.flaggems`."""
    home = Path.home()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))

    def write() -> list[str]:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        cache.mkdir()
        with sqlite3.connect(cache / "tuned.db") as database:
            database.execute("create table tuned (config text)")
        return [*names(str(cache)), str(Path.home())]

    written, folder = run_isolated(write)
    assert (written, folder == str(home)) == ("tuned.db", False)
    assert Path.home() == home


@needs_isolation
def test_the_cache_can_be_written(tmp_path: Path) -> None:
    def write() -> str:
        (tmp_path / "entry").write_text("text")
        return os.environ["TTOOLS_CACHE_DIR"]

    assert run_isolated(write, cache=str(tmp_path)) == str(tmp_path / "ttools")
    assert (tmp_path / "entry").read_text() == "text"


@needs_isolation
def test_other_processes_are_invisible() -> None:
    parent = os.getpid()

    def visible_processes() -> list[Any]:
        numbers = [int(name) for name in names("/proc") if name.isdigit()]
        return [os.getpid(), numbers, parent in numbers]

    assert run_isolated(visible_processes) == [1, [1], False]


@needs_isolation
def test_settings_of_the_system_cannot_be_written() -> None:
    def opened() -> int:
        return os.open("/proc/sys/kernel/hostname", os.O_WRONLY)

    assert run_isolated(opened) == "OSError"


@needs_isolation
def test_the_host_name_is_in_a_separate_namespace() -> None:
    own_namespace = str(Path("/proc/self/ns/uts").readlink())
    assert run_isolated(lambda: str(Path("/proc/self/ns/uts").readlink())) != own_namespace
    assert run_isolated(lambda: socket.sethostname("another")) == "PermissionError"


@needs_isolation
@pytest.mark.parametrize("network", [False, True])
def test_the_network_can_be_kept(network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        def connect() -> str:
            with socket.create_connection(address, 2.0):
                return "connected"

        expected = "connected" if network else "OSError"
        assert run_isolated(connect, network=network) == expected


@needs_isolation
def test_the_addresses_of_name_servers_stay_with_the_network() -> None:
    file = Path("/etc/resolv.conf")
    expected = file.read_text() if file.exists() else "FileNotFoundError"
    assert run_isolated(file.read_text, network=True) == expected


@needs_isolation
def test_processor_time_is_limited() -> None:
    def spin() -> None:
        while True:
            pass

    with pytest.raises(WorkerGoneError, match="CPU time"):
        run_isolated(spin, cpu_seconds=1, seconds=200.0)


@needs_isolation
def test_there_are_no_capabilities_and_no_disks() -> None:
    def capabilities() -> list[Any]:
        lines = Path("/proc/self/status").read_text().splitlines()
        masks = [line.split()[1] for line in lines if line.startswith("Cap")]
        return [set(masks) == {"0" * 16}, sorted(names("/dev"))]

    has_none, devices = run_isolated(capabilities)
    assert has_none
    assert devices == ["fd", "full", "null", "random", "shm", "stdin", "urandom", "zero"]


@needs_isolation
def test_processes_of_a_worker_end_with_it(tmp_path: Path) -> None:
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
    assert run_isolated(leave, cache=str(file)) == "left"
    time.sleep(0.3)
    last = (file / "beat").read_text()
    time.sleep(0.3)
    assert (file / "beat").read_text() == last


@needs_isolation
def test_the_exit_status_is_returned() -> None:
    def serve(channel: Channel) -> int | None:
        return 7 if channel.receive() == "leave" else None

    worker = isolated(serve)
    with pytest.raises(WorkerGoneError, match="exit status 7"):
        worker.ask("leave")
    worker = isolated(lambda channel: signal.raise_signal(signal.SIGSEGV))
    with pytest.raises(WorkerGoneError, match="ended"):
        worker.ask("anything")


@needs_isolation
def test_isolation_changes_nothing_outside(tmp_path: Path) -> None:
    before = spaces()
    mounts = Path("/proc/self/mountinfo").read_text()
    assert run_isolated(lambda: "done") == "done"
    (tmp_path / "file").write_text("written")
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert spaces() == before
