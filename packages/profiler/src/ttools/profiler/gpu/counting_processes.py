"""Processes that count launches while the program that makes them runs.

Compiling a counting kernel takes a tenth of a second, more than a launch on a GPU does. Each
process is started, asked and ended by a thread of its own in the program's process. That thread
waits nearly all the time, and the system ends the process with it.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from queue import SimpleQueue

from ttools.core.environment import processors
from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, PickleCodec, WorkerEndedError
from ttools.core.process.worker import Limits, Worker, spawn_worker
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu.count_request import CountRequest, RequestCounter

_MOST = 4
_PROCESSORS_EACH = 4
_NICE = 10
#: A program that ends sooner is counted faster without other processes.
_DELAY_S = 1.0
#: After so many failures of a process no other one is started.
_MOST_FAILURES = 2

#: What a launch does, or a sentence that says why it cannot be counted.
Answer = WorkCounts | str
_Task = tuple[CountRequest, "Future[Answer]"]


def number_of_processes() -> int:
    """Return how many processes count beside a program; 0 on a machine with few processors."""
    return min(_MOST, processors() // _PROCESSORS_EACH)


class _Tasks:
    """Launches for the processes that are started until `finish`; None ends one of them."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[_Task | None] = SimpleQueue()
        self.finished = threading.Event()
        self.threads = 0


class CountingProcesses:
    """Processes that are started when there is something to count, and end after that.

    Args:
        number: How many there are at most; None for as many as the machine bears.
    """

    def __init__(self, number: int | None = None) -> None:
        self._number = number_of_processes() if number is None else number
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._tasks = _Tasks()
        self._failures = 0

    def submit(self, launch: CountRequest) -> Future[Answer] | None:
        """Have a launch counted; its arguments must not change any more.

        Returns:
            What will hold the answer, or raise an exception if the launch is to be counted here.
            Until a process is ready to count it, it can be cancelled. None if no process counts.
        """
        if not self._number or self._failures >= _MOST_FAILURES or os.getpid() != self._owner:
            return None
        answer: Future[Answer] = Future()
        with self._lock:
            tasks = self._tasks
            tasks.queue.put((launch, answer))
            if tasks.threads < self._number:
                tasks.threads += 1
                name = "ttools counting"
                threading.Thread(target=self._serve, args=(tasks,), name=name, daemon=True).start()
        return answer

    def finish(self) -> None:
        """Have the processes end when they have counted what was submitted; do not wait."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            tasks, self._tasks = self._tasks, _Tasks()
        tasks.finished.set()
        for _ in range(tasks.threads):
            tasks.queue.put(None)

    def _serve(self, tasks: _Tasks) -> None:
        tasks.finished.wait(_DELAY_S)
        worker: Worker | None = None
        while (task := tasks.queue.get()) is not None:
            launch, answer = task
            if answer.cancelled():
                continue
            failure: Exception | None = None
            try:
                worker = worker or self._start()
                if not answer.set_running_or_notify_cancel():
                    continue
                answer.set_result(worker.ask(launch))
            except (WorkerEndedError, OSError) as error:
                failure, worker = error, None
                self._failures += 1
            except Exception as error:  # noqa: BLE001 - such as an argument that cannot be pickled
                failure = error
            if failure is not None and (answer.running() or answer.set_running_or_notify_cancel()):
                answer.set_exception(failure)
        if worker is not None:
            worker.end()

    def _start(self) -> Worker:
        """Start a process and wait until it is ready to count."""
        if self._failures >= _MOST_FAILURES:
            raise WorkerEndedError("the processes that count have ended")
        threads = str(max(1, processors() // self._number))
        limits = Limits(errors="dropped")
        worker = spawn_worker(f"{__name__}:count_launches", [threads], limits, PickleCodec())
        worker.receive()
        return worker


def count_launches(channel: Channel, threads: str) -> None:
    """Count the launches that a channel sends, and send the answers, until it is closed.

    Args:
        threads: How many threads run the programs of a launch.
    """
    os.nice(_NICE)
    counter = RequestCounter(int(threads))
    channel.send("ready")
    while True:
        channel.send(answer_of(counter, channel.receive()))


def answer_of(counter: RequestCounter, launch: CountRequest) -> Answer:
    """Return what a launch does, or a sentence that says why it cannot be counted."""
    try:
        return counter.count(launch)
    except TtoolsError as error:
        return getattr(error, "what", None) or str(error)
    except MemoryError as error:
        return f"no room on the host to count it: {error}"
