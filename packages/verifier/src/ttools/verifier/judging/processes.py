"""The processes of a verification: which there are, and how long they may take.

Owns starting and ending them, and what it means that one cannot load its file.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.isolation import missing_isolation
from ttools.core.process.worker import Limits, Serve, Worker, fork_worker, spawn_worker
from ttools.verifier.cases.tensors import CODEC
from ttools.verifier.options import VerifyOptions
from ttools.verifier.workers.all_sizes import AllSizes
from ttools.verifier.workers.candidate import Candidate
from ttools.verifier.workers.reference import Reference
from ttools.verifier.workers.replayer import Replayer

#: Once a launch or a call did not end in its time, others get a tenth of it.
_SHARE_OF_TIME = 0.1
#: Processes and threads of an isolated candidate.
_MOST_PROCESSES = 512


@dataclass(frozen=True)
class Subject:
    """What is verified.

    Attributes:
        candidate: `FILE.py:NAME`.
        reference: the same.
        inputs: the same.
    """

    candidate: str
    reference: str
    inputs: str


class NotLoadedError(TtoolsError):
    """The candidate's file raises when it is loaded."""


class Processes:
    """Starts and ends the processes of one verification.

    Args:
        options: what each process may use.

    Attributes:
        configs: by number of an autotuner's configuration, integers that its kernels get by it.
        device: of the candidate's tensors: `cuda` where the CPU stands in for a GPU.
        is_endless: whether something did not end in its time, so that others get less.
    """

    def __init__(self, subject: Subject, options: VerifyOptions) -> None:
        self._subject, self._options = subject, options
        self._limits = Limits(
            seconds=options.answer_seconds,
            memory=options.memory,
            network=options.network,
            own_folder=True,
            errors="dropped",
        )
        #: Why candidates are not isolated; empty if they are.
        self.not_isolated = missing_isolation()
        # A candidate must not write native code where later runs find it.
        self._cache = tempfile.mkdtemp(prefix="ttools-verify-")
        self._contained = replace(
            self._limits,
            isolated=not self.not_isolated,
            cache=self._cache,
            processes=None if self.not_isolated else _MOST_PROCESSES,
        )
        self._workers: list[Worker] = []
        self._started = 0
        self.configs: list[list[int]] = []
        self.device = "cpu"
        self.is_endless = False

    def _start(
        self, serve: Serve, seconds: float | None = None, *, is_trusted: bool = False
    ) -> Worker:
        limits = self._limits if is_trusted else self._contained
        limits = replace(limits, seconds=seconds or self._options.answer_seconds)
        worker = fork_worker(serve, limits, CODEC)
        self._workers.append(worker)
        return worker

    def reference(self, is_mapped: bool = False) -> tuple[Worker, dict[str, Any]]:
        """A process in which the reference was loaded, and what its files say.

        Args:
            is_mapped: whether the CPU stands in for a GPU there.

        Raises:
            UsageError: reference or inputs cannot be loaded.
        """
        files = self._subject.reference, self._subject.inputs
        worker = self._start(Reference(*files, is_mapped).serve, is_trusted=True)
        try:
            loaded = worker.ask({"do": "load"})
        except WorkerEndedError as error:
            raise UsageError(f"the reference cannot be loaded: {error.message}") from None
        if "not_loaded" in loaded:
            raise UsageError(f"reference and inputs: the file {loaded['not_loaded']}")
        return worker, loaded

    def fresh(self) -> Worker:
        """A process in which the candidate was just loaded.

        Raises:
            NotLoadedError: its file raises.
            WorkerGoneError: loading it ended the process.
        """
        share = _SHARE_OF_TIME if self.is_endless else 1.0
        seconds = self._options.launch_seconds * share
        self._started += 1
        candidate = Candidate(self._subject.candidate, seconds, self.device, self._started)
        worker = self._start(candidate.serve, self._options.answer_seconds * share)
        self.configs = _loaded(worker)["configs"]
        return worker

    def replayer(self) -> Worker:
        """A process that executes plans; it has imported nobody's file."""
        serve = Replayer(self._options.launch_seconds).serve
        worker = self._start(serve, is_trusted=True)
        worker.ask({"do": "load"})
        return worker

    def all_sizes(self, seconds: float) -> Worker:
        """A process that answers for all sizes of the domain.

        Args:
            seconds: for an answer.

        Raises:
            WorkerGoneError: loading the files ended the process.
            WorkerSlowError: it took longer.
            NotLoadedError: they raise.
        """
        subject = self._subject
        asked = AllSizes(subject.candidate, subject.inputs, self.device)
        worker = self._start(asked.serve, seconds)
        answer = worker.ask({"do": "load"})
        if "error" in answer:
            raise NotLoadedError(f"inputs and candidate in one process: {answer['error']}")
        return worker

    def on_gpu(self) -> tuple[Worker, dict[str, Any]]:
        """A process in which the candidate was loaded for the GPU, and which GPU that is.

        Raises:
            NotLoadedError: its file raises there, or there is no GPU.
            WorkerGoneError: loading it ended the process.
        """
        limits = replace(self._limits, memory=None, cache=self._cache)
        served = "ttools.verifier.workers.gpu_candidate:serve"
        worker = spawn_worker(served, [self._subject.candidate], limits, CODEC)
        self._workers.append(worker)
        return worker, _loaded(worker)

    def end(self, worker: Worker) -> None:
        worker.end()
        self._workers.remove(worker)

    def end_all(self) -> None:
        for each in self._workers:
            each.end()
        shutil.rmtree(self._cache, ignore_errors=True)


def _loaded(worker: Worker) -> dict[str, Any]:
    """What a candidate's process says once it has loaded the file."""
    answer: dict[str, Any] = worker.ask({"do": "load"})
    if "broken" in answer:
        raise TtoolsError(f"the candidate's process has failed: {answer['broken']}")
    if "not_loaded" in answer:
        raise NotLoadedError(answer["not_loaded"])
    return answer
