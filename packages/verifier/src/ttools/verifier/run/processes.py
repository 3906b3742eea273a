"""Starts and ends the processes of a verification, and limits their time, memory and access."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.location import excerpt, location_of_line
from ttools.core.process.channel import WorkerEndedError
from ttools.core.process.isolation import missing_isolation
from ttools.core.process.worker import Limits, Serve, Worker, fork_worker, spawn_worker
from ttools.verifier.cases.tensors import CODEC
from ttools.verifier.options import VerifyOptions
from ttools.verifier.run.answers import (
    MalformedAnswerError,
    all_sizes_answer,
    require_dictionary,
)
from ttools.verifier.workers.all_sizes import AllSizes
from ttools.verifier.workers.candidate import Candidate
from ttools.verifier.workers.hidden import Hidden
from ttools.verifier.workers.reference import Reference
from ttools.verifier.workers.replayer import Replayer

#: Factor by which time limits are shortened after a launch or a call has exceeded its limit.
_SHARE_OF_TIME = 0.1
#: Share of the memory limit that the size of a candidate's answer may reach. The process that reads
#: the answer needs twice as much memory as the answer.
_SHARE_OF_MEMORY = 0.25
#: Maximum number of processes and threads of an isolated candidate.
_MOST_PROCESSES = 512


@dataclass(frozen=True)
class Subject:
    """The functions of a verification.

    Attributes:
        candidate: Candidate function as `FILE.py:NAME`.
        reference: Reference function as `FILE.py:NAME`.
        inputs: Function that draws the inputs, as `FILE.py:NAME`.
    """

    candidate: str
    reference: str
    inputs: str

    def is_source(self, file: str) -> bool:
        """Return whether a file is a Python file that a trusted process may read for a report.

        Such files are those in the candidate's folder and its subfolders, and installed modules.
        The process of a candidate chooses the name, so names of devices and pipes must be rejected.
        """
        path = Path(file)
        own = Path(self.candidate.rpartition(":")[0]).resolve().parent
        folders = [own, *(Path(entry).resolve() for entry in sys.path if entry)]
        try:
            is_inside = any(path.resolve().is_relative_to(folder) for folder in folders)
            return path.suffix == ".py" and is_inside and path.is_file()
        except (OSError, ValueError):  # a name that no file can have
            return False


class NotLoadedError(TtoolsError):
    """The candidate's file raises an exception when it is loaded."""


class Processes:
    """Starts and ends the processes of one verification.

    Args:
        subject: Functions of the verification.
        options: Limits of time, memory and network.

    Attributes:
        device: Device of the candidate's tensors: `cuda` if the CPU stands in for a GPU.
        is_mapped: If True, the CPU stands in for a GPU in the reference's process.
        is_endless: If True, a launch or a call has exceeded its time limit, so later ones get less
            time.
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
        #: Reason why candidates are not isolated; empty if they are.
        self.not_isolated = missing_isolation()
        # A candidate must not write native code to a cache that later runs use.
        self._cache = tempfile.mkdtemp(prefix="ttools-verify-")
        self._contained = replace(
            self._limits,
            isolated=not self.not_isolated,
            cache=self._cache,
            cpu_seconds=options.cpu_seconds,
            answer_bytes=int(_SHARE_OF_MEMORY * options.memory),
            processes=None if self.not_isolated else _MOST_PROCESSES,
        )
        self._workers: list[Worker] = []
        self._started = 0
        self.device = "cpu"
        self.is_mapped = False
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
        """Start a process that loads the reference; return it with what it found in the files.

        Args:
            is_mapped: If True, the CPU stands in for a GPU.

        Raises:
            UsageError: The reference or the inputs cannot be loaded.
        """
        self.is_mapped = is_mapped
        files = self._subject.reference, self._subject.inputs
        reference = Reference(*files, is_mapped, self._subject.candidate)
        worker = self._start(reference.serve, is_trusted=True)
        try:
            loaded = worker.ask({"do": "load"})
        except WorkerEndedError as error:
            raise UsageError(f"the reference cannot be loaded: {error.message}") from None
        if "not_loaded" in loaded:
            raise UsageError(f"reference and inputs: the file {loaded['not_loaded']}")
        if "misuse" in loaded:
            raise UsageError(loaded["misuse"])
        return worker, loaded

    def hidden(self) -> Worker:
        """Start the process that holds the hidden seed, before candidates are started."""
        return self._start(Hidden(self._options.replay_seed).serve, is_trusted=True)

    def fresh(self) -> Worker:
        """Start a process that has just loaded the candidate.

        Raises:
            NotLoadedError: The candidate's file raises an exception.
            WorkerGoneError: The process ended while it loaded the file.
        """
        share = _SHARE_OF_TIME if self.is_endless else 1.0
        seconds = self._options.launch_seconds * share
        self._started += 1
        candidate = Candidate(self._subject.candidate, seconds, self.device, self._started)
        worker = self._start(candidate.serve, self._options.answer_seconds * share)
        _loaded(worker)
        return worker

    def replayer(self) -> Worker:
        """Start a process that executes plans and imports none of the user's files.

        Raises:
            NotLoadedError: The process could not prepare itself.
            WorkerEndedError: The process ended, or exceeded its time limit.
        """
        # The cache is used only if the candidate is isolated; otherwise the candidate could write
        # native code to the user's cache.
        has_cache = not self.not_isolated and self._options.on == "cpu"
        replayer = Replayer(
            self._options.launch_seconds, self._subject.is_source, has_cache=has_cache
        )
        worker = self._start(replayer.serve, is_trusted=True)
        answer = worker.ask({"do": "load"})
        if "broken" in answer:
            self.end(worker)
            raise NotLoadedError(answer["broken"])
        return worker

    def all_sizes(self, seconds: float) -> Worker:
        """Start a process that checks all sizes of the domain.

        Args:
            seconds: Time limit of an answer in seconds.

        Raises:
            WorkerGoneError: The process ended while it loaded the files.
            WorkerSlowError: The process exceeded the time limit while it loaded the files.
            NotLoadedError: A file raises an exception.
        """
        subject = self._subject
        asked = AllSizes(subject.candidate, subject.inputs, self.device)
        worker = self._start(asked.serve, seconds)
        try:
            answer = all_sizes_answer(worker.ask({"do": "load"}))
        except MalformedAnswerError as error:
            raise NotLoadedError(error.message) from None
        if answer.error:
            raise NotLoadedError(
                f"the inputs and the candidate cannot be loaded in one process: {answer.error}"
            )
        return worker

    def on_gpu(self) -> tuple[Worker, dict[str, Any]]:
        """Start a process that loads the candidate for the GPU; return it and the GPU's name.

        Raises:
            NotLoadedError: The candidate's file raises an exception, or there is no GPU.
            WorkerGoneError: The process ended while it loaded the file.
        """
        answer_bytes = self._contained.answer_bytes
        limits = replace(self._limits, memory=None, cache=self._cache, answer_bytes=answer_bytes)
        served = "ttools.verifier.workers.gpu_candidate:serve"
        worker = spawn_worker(served, [self._subject.candidate], limits, CODEC)
        self._workers.append(worker)
        return worker, _loaded(worker)

    def excerpt(self, where: str) -> str:
        """Return the source line of a `file:line:column`; empty if it may not be read."""
        location = location_of_line(where)
        if location is None or not self._subject.is_source(location.file):
            return ""
        return excerpt(location)

    def end(self, worker: Worker) -> None:
        worker.end()
        self._workers.remove(worker)

    def end_all(self) -> None:
        for worker in self._workers:
            worker.end()
        shutil.rmtree(self._cache, ignore_errors=True)


def _loaded(worker: Worker) -> dict[str, Any]:
    """Have a candidate's process load its file, and return the answer."""
    try:
        answer = require_dictionary(worker.ask({"do": "load"}))
    except MalformedAnswerError as error:
        raise NotLoadedError(error.message) from None
    if "broken" in answer:
        raise TtoolsError(f"the candidate's process has failed: {answer['broken']}")
    if "not_loaded" in answer:
        raise NotLoadedError(answer["not_loaded"])
    return answer
