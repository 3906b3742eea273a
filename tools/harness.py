"""Worker processes with a time limit for each case, and tables, for the programs in `tools/`.

A worker answers requests over a socket. Each request and each answer is one line of JSON, so the
parent knows which case terminated a worker. `Worker` is the parent's side, and `requests` the
worker's side. `run_cases` distributes cases to several workers and replaces those that die.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from rich.console import Console

ROOT = Path(__file__).parents[1]
_CHANNEL = "TTOOLS_HARNESS_CHANNEL"
_Case = TypeVar("_Case")


def end_process(process: subprocess.Popen[Any], *, grace: float = 0.0) -> None:
    """End a process that leads a session, and all processes that it has started.

    Args:
        process: The process.
        grace: Seconds between SIGINT and SIGKILL, in which the process may write a report.
    """
    for number, seconds in ((signal.SIGINT, grace), (signal.SIGKILL, None)):
        if process.poll() is None and (seconds is None or seconds):
            # While another thread waits for the process, `poll` returns None even if the process
            # has ended.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
    process.wait()


def ending(code: int) -> str:
    """Return how a process ended: the name of the signal, or its exit status."""
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


class Worker:
    """A process that answers requests.

    Args:
        command: Command of the process.
        folder: Working directory of the process.
        environment: All environment variables of the process.
    """

    def __init__(
        self, command: Sequence[str], *, folder: Path = ROOT, environment: Mapping[str, str]
    ) -> None:
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the worker)
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, _CHANNEL: str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        theirs.close()
        self._channel = ours.makefile("rw", encoding="utf-8")
        ours.close()  # the file object keeps the socket open
        self.answered = 0
        self._limit: float | None = None

    @property
    def alive(self) -> bool:
        """True if another request can be made."""
        return self._process.poll() is None

    def receive(self, seconds: float) -> Any:
        """Return the next message, or None if the process ended or exceeded its time limit."""
        timer = threading.Timer(seconds, self._expire, (seconds,))
        timer.start()
        try:
            line = self._channel.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            self.end()
            return None
        return json.loads(line)

    def _expire(self, seconds: float) -> None:
        self._limit = seconds
        end_process(self._process)

    def ask(self, request: Any, seconds: float) -> Any:
        """Return the answer to a request; None in the same cases as `receive`."""
        self.answered += 1
        try:
            self._channel.write(json.dumps(request) + "\n")
            self._channel.flush()
        except OSError:
            self.end()
            return None
        return self.receive(seconds)

    @property
    def expired(self) -> bool:
        """True if the process was terminated because it took too long."""
        return self._limit is not None

    def output(self) -> str:
        """Return what the process has printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()

    def why(self) -> str:
        """Return why the process ended, with the last line that it printed."""
        if self._limit is not None:
            return f"no answer after {self._limit:g} s"
        return ": ".join([ending(self._process.returncode), *self.output().splitlines()[-1:]])

    def end(self) -> None:
        """Terminate the process and all processes that it has started."""
        end_process(self._process)


def requests() -> tuple[Iterator[Any], Callable[[Any], None]]:
    """Return an iterator over the parent's requests, and a function that sends a message to it."""
    connection = socket.socket(fileno=int(os.environ.pop(_CHANNEL)))
    connection.set_inheritable(False)
    channel = connection.makefile("rw", encoding="utf-8")

    def send(message: Any) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    return map(json.loads, channel), send


def run_cases(
    cases: Iterable[_Case],
    jobs: int,
    start: Callable[[], Worker],
    run: Callable[[Worker, _Case], None],
    *,
    first: Worker | None = None,
    most: int = sys.maxsize,
) -> None:
    """Run cases on several workers; each takes the next case when it is free.

    Args:
        cases: Cases to run.
        jobs: Number of workers at a time.
        start: Starts a worker, initially or to replace one that has ended.
        run: Runs a case on a worker, which may end during it. It is called from several threads.
        first: A worker that was started already.
        most: Number of requests after which a worker is replaced.
    """
    waiting: SimpleQueue[_Case] = SimpleQueue()
    for case in cases:
        waiting.put(case)
    stop = threading.Event()

    def work(worker: Worker | None) -> None:
        try:
            while not stop.is_set():
                case = waiting.get_nowait()
                if worker is not None and worker.answered >= most:
                    worker.end()
                if worker is None or not worker.alive:
                    worker = start()
                run(worker, case)
        except Empty:
            pass
        finally:
            if worker is not None:
                worker.end()

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(work, first)]
        running += [pool.submit(work, None) for _ in range(min(jobs, waiting.qsize() + 1) - 1)]
        try:
            for future in running:
                future.result()
        except BaseException:
            stop.set()  # leaving the context of the pool waits for its threads
            raise


def cell(text: str) -> str:
    """Return text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: str = "") -> str:
    """Return a table in Markdown.

    Args:
        header: Titles of the columns.
        rows: Texts of the cells.
        numbers: Titles of columns that are aligned to the right, separated by commas.
    """
    right = numbers.split(",")
    lines = ["| " + " | ".join(header) + " |"]
    lines.append("|" + "".join("---:|" if name in right else "---|" for name in header))
    lines += ("| " + " | ".join(map(cell, row)) + " |" for row in rows)
    return "\n".join(lines)


def write_section(page: Path, name: str, text: str) -> None:
    """Write text between the markers of a section of a page, or as the whole page without any."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    if begin in old and end in old:
        text = f"{old.split(begin)[0]}{begin}\n{text}{end}{old.split(end)[1]}"
    page.write_text(text, encoding="utf-8")


def output_console(width: int) -> Console:
    """Return the console for standard output; if it is not a terminal, it has the given width."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=width)
    return console


def versions_and_machine(*more: str) -> dict[str, str]:
    """Return versions and machine of a run, without paths of this machine."""
    versions = [f"{name} {version(name)}" for name in ("triton", "torch", "llvmlite")]
    machine = (platform.machine(), f"{os.cpu_count()} CPUs", f"Python {platform.python_version()}")
    return {"versions": ", ".join([*versions, *more]), "machine": ", ".join(machine)}


def positive(text: str) -> int:
    """Parse a positive integer of the command line."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value
