"""The parent's side of the worker processes: start, one case at a time, end.

A case that takes too long is ended with its whole process group, and a worker that died is
replaced; either costs the one case that was running.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tools.conformance.outcomes import Case, Outcome
from tools.conformance.plugin import ENGINE_VARIABLE, SOCKET_VARIABLE

ROOT = Path(__file__).parent.parent.parent
# Not "cpu": forks with a CPU backend of their own compare with that name to ask for less.
DEVICE = "cpu:0"
COLLECTION_SECONDS = 300.0
# Native code of earlier cases is never unloaded; a new worker costs some seconds.
CASES_OF_A_WORKER = 1500


class CollectionError(Exception):
    """pytest ended before it said what it collected; carries its output."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How workers run.

    Attributes:
        tests: the `python/test` of the checkout, where its conftest.py is.
        files: test files below it.
        scratch: folder for caches and logs.
        timeout: seconds that a case may take.
        opt: LLVM's optimisation level.
        threads: threads of a launch.
        checks: what the sanitizer checks of every launch; None: nothing.
        engine: what runs the kernels, `native` or `eager`.
    """

    tests: Path
    files: Sequence[Path]
    scratch: Path
    timeout: float
    opt: int
    threads: int
    checks: str | None = None
    engine: str = "native"

    def command(self) -> list[str]:
        """The pytest that a worker is: none of the checkout's or the user's configuration."""
        settings = self.scratch / "pytest.ini"
        settings.write_text("[pytest]\n")
        folders = (f"--rootdir={self.tests}", f"--confcutdir={self.tests}")
        plugins = ("-p", "no:cacheprovider", "-p", "tools.conformance.plugin")
        python = [sys.executable, "-m", "pytest", "-q", "-c", str(settings), *folders, *plugins]
        if self.checks is not None:
            python += ["-p", "ttools.sanitizer.pytest_plugin", "--ttools-fail-on=warning"]
            python += [f"--ttools-sanitize={self.checks}"]
        return [*python, "--device", DEVICE, *map(str, self.files)]

    def environment(self) -> dict[str, str]:
        """The default backend with caches of its own, and without what would change its answers."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TTOOLS_", "TRITON_", "PYTEST_"))
        }
        # TTOOLS_CPU may be a user's question: does it hold on another machine?
        kept |= {name: os.environ[name] for name in ("TTOOLS_CPU",) if name in os.environ}
        return kept | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")])),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TRITON_CACHE_DIR": str(self.scratch / "triton"),
            "TTOOLS_CACHE_DIR": str(self.scratch / "ttools"),
            "TTOOLS_OPT": str(self.opt),
            "TTOOLS_THREADS": str(self.threads),
            "TTOOLS_QUIET": "1",
            "OMP_NUM_THREADS": str(self.threads),
            "CUDA_VISIBLE_DEVICES": "",
            ENGINE_VARIABLE: self.engine,
        }


class WorkerProcess:
    """One pytest process."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        ours, theirs = socket.socketpair()
        handle, log = tempfile.mkstemp(dir=options.scratch, suffix=".log")
        self._log = Path(log)
        self._process = subprocess.Popen(
            options.command(),
            cwd=options.tests,
            env=options.environment() | {SOCKET_VARIABLE: str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        theirs.close()
        os.close(handle)
        self._channel = ours.makefile("rw", encoding="utf-8")
        ours.close()  # the file keeps it open
        self.expired = False
        self.cases_run = 0
        listing = self._receive(COLLECTION_SECONDS)
        if listing is None:
            self.end()
            text = self._log.read_text(errors="replace")
            raise CollectionError(text[-4000:] or "pytest ended without a word")
        self.cases = [Case(**case) for case in listing["cases"]]
        self.failed_files: dict[str, str] = listing["failed_files"]

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        """The next message, or None when the process ended or was ended for taking too long."""
        timer = threading.Timer(seconds, self._expire)
        timer.start()
        try:
            line = self._channel.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        return json.loads(line) if line else None

    def _expire(self) -> None:
        self.expired = True
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def run(self, case: Case) -> Outcome:
        """Runs a case; afterwards the process may be gone (see `alive`)."""
        begin = time.perf_counter()
        self.cases_run += 1
        try:
            self._channel.write(json.dumps({"node": case.node}) + "\n")
            self._channel.flush()
            message = self._receive(self._options.timeout)
        except OSError:
            message = None
        if message is not None:
            return Outcome(**message)
        seconds = time.perf_counter() - begin
        self.end()
        reason = "timeout" if self.expired else "crash"
        detail = f"after {self._options.timeout:g} s" if self.expired else self._last_words()
        return Outcome(case.node, "wrong", reason, detail, seconds)

    def _last_words(self) -> str:
        code = self._process.returncode
        told = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return ": ".join([told, *lines[-1:]])

    @property
    def alive(self) -> bool:
        """Whether another case can be run."""
        return self._process.poll() is None

    def end(self) -> None:
        """Ends the process and whatever it started."""
        self._kill()
        self._process.wait()


def run_cases(
    first: WorkerProcess,
    options: WorkerOptions,
    cases: Sequence[Case],
    jobs: int,
    done: Callable[[Outcome], None],
) -> None:
    """Runs `cases` on `jobs` workers, the first of which is there already.

    Args:
        first: a worker that has collected.
        options: how the others are started.
        cases: what to run; a worker takes the next when it is free.
        jobs: workers at a time.
        done: called with every outcome, by any thread, one at a time.

    Raises:
        CollectionError: a further worker could not start.
        KeyboardInterrupt: the user's; running cases have ended then, and no more were started.
    """
    waiting: SimpleQueue[Case] = SimpleQueue()
    for case in cases:
        waiting.put(case)
    lock, stop = threading.Lock(), threading.Event()

    def work(worker: WorkerProcess | None) -> None:
        try:
            while not stop.is_set():
                case = waiting.get_nowait()
                if worker is not None and worker.cases_run >= CASES_OF_A_WORKER:
                    worker.end()
                if worker is None or not worker.alive:
                    worker = WorkerProcess(options)
                outcome = worker.run(case)
                with lock:
                    done(outcome)
        except Empty:
            pass
        finally:
            if worker is not None:
                worker.end()

    with ThreadPoolExecutor(jobs) as pool:
        others = [pool.submit(work, None) for _ in range(min(jobs, len(cases)) - 1)]
        try:
            for future in [pool.submit(work, first), *others]:
                future.result()
        except BaseException:
            stop.set()  # leaving the pool waits for its threads
            raise


def make_scratch() -> Path:
    """A folder for caches and logs; `remove_scratch` ends it."""
    return Path(tempfile.mkdtemp(prefix="ttools-conformance-"))


def remove_scratch(folder: Path) -> None:
    """Removes the caches and logs of a run."""
    shutil.rmtree(folder, ignore_errors=True)
