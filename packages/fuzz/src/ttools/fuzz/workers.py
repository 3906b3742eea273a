"""Worker processes that examine kernels and may crash or hang.

A worker announces which kernel and variant it is about to run. Therefore a segmentation fault, an
abort or an endless loop is attributed to that kernel and variant, like any other failure. A new
worker then continues.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.core.process.channel import (
    Channel,
    PickleCodec,
    WorkerEndedError,
    WorkerGoneError,
    wait,
)
from ttools.core.process.worker import Limits, Worker, spawn_worker
from ttools.fuzz.generate.context import Features
from ttools.fuzz.program import Program
from ttools.fuzz.three_way import COMPILATION
from ttools.fuzz.trial import Failure, Kind, Verdict
from ttools.fuzz.variants import BY_NAME

if TYPE_CHECKING:
    from ttools.fuzz.mutation.trial import MutantTrial

#: Announced by a worker before it captures launches for its first mutant.
CAPTURE = "capture"
#: Time limit in seconds for the script whose launches are captured.
_CAPTURE_SECONDS = 900.0
#: Time limit for receiving a message that has begun to arrive, in seconds.
_MESSAGE_S = 30.0
#: A worker is replaced after this many kernels, because Triton and LLVM keep all of them in memory.
_KERNELS_PER_WORKER = 250


def usual_features() -> Features:
    """Return the features that the installed Triton supports."""
    import triton.language as tl

    return Features(
        in_order_cat="dim" in inspect.signature(tl.cat).parameters,
        atomic_loads=hasattr(tl, "atomic_poll"),
    )


@dataclass(frozen=True, kw_only=True)
class Work:
    """Options of the workers.

    Attributes:
        variants: Names of the variants to choose from, besides the baseline.
        per_kernel: Number of variants per kernel, the baseline included.
        cpu: Target CPU of variants that do not set one.
        features: Features of Triton that generated kernels may use.
        timeout: Time limit for one variant in seconds.
        device: Device of the tensors for a comparison with a GPU; empty for no comparison.
        script: Script whose launches are mutated; empty to generate random kernels.
    """

    variants: tuple[str, ...]
    per_kernel: int = 4
    cpu: str = ""
    features: Features = field(default_factory=usual_features)
    timeout: float = 60.0
    device: str = ""
    script: str = ""


@dataclass(frozen=True)
class Task:
    """A kernel for a worker to examine.

    Attributes:
        program: The kernel; None to generate it from the seed.
        variants: Names of the variants to run; empty to choose as `Work` determines.
    """

    seed: int
    program: Program | None = None
    variants: tuple[str, ...] = ()


def verdicts(seeds: Iterator[int], work: Work, processes: int) -> Iterator[Verdict]:
    """Examine kernels in worker processes; yield verdicts in the order of completion.

    Args:
        seeds: Seeds of the kernels. The next one is requested when a worker is free, so that the
            iterator may end at any time.
        processes: Number of worker processes.
    """
    folder = Path(tempfile.mkdtemp(prefix="ttools-fuzz-"))
    pool = [_Worker(work, folder / str(i)) for i in range(processes)]
    try:
        busy = [worker for worker in pool if worker.give(_next(seeds))]
        while busy:
            ready = wait([worker.channel for worker in busy], 0.5)
            for worker in list(busy):
                verdict = worker.receive(worker.channel in ready)
                if verdict is not None:
                    yield verdict
                    if not worker.give(_next(seeds)):
                        busy.remove(worker)
    finally:
        for worker in pool:
            worker.end()
        shutil.rmtree(folder, ignore_errors=True)


def verdicts_here(seeds: Iterator[int], work: Work) -> Iterator[Verdict]:
    """Examine kernels in this process, for debuggers and coverage; a crash ends it."""
    with tempfile.TemporaryDirectory(prefix="ttools-fuzz-") as folder:
        for seed in seeds:
            yield _examine(lambda _: None, Task(seed), work, Path(folder))


def _next(seeds: Iterator[int]) -> Task | None:
    seed = next(seeds, None)
    return None if seed is None else Task(seed)


class Examiner:
    """Examines one program at a time in a worker process."""

    def __init__(self, work: Work) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ttools-fuzz-"))
        self._worker = _Worker(work, self._folder / "0")

    def examine(self, program: Program, variant: str) -> Verdict:
        self._worker.give(Task(program.seed, program, (variant,)))
        while True:
            verdict = self._worker.receive(bool(wait([self._worker.channel], 0.5)))
            if verdict is not None:
                return verdict

    def __enter__(self) -> Examiner:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.end()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Worker:
    """A process that examines one kernel at a time, and is restarted if necessary."""

    def __init__(self, work: Work, folder: Path) -> None:
        self._work = work
        self._folder = folder
        self._process: Worker | None = None

    @property
    def channel(self) -> Channel:
        """The connection to the process, which must have been started."""
        assert self._process is not None
        return self._process.channel

    def give(self, task: Task | None) -> bool:
        """Send a task to the process; return False if there is no task."""
        if task is None:
            return False
        if self._process is None or self._kernels >= _KERNELS_PER_WORKER:
            self.end()
            self._process = self._started()
        self._kernels += 1
        self._seed, self._variant, self._since = task.seed, "front end", time.monotonic()
        self._ran: list[str] = []
        self._process.forget_errors()
        with contextlib.suppress(WorkerGoneError):  # `receive` raises it again
            self._process.channel.send(task)
        return True

    def receive(self, ready: bool) -> Verdict | None:
        """Return the verdict, or None if the process is still busy."""
        if not ready:
            limit = _CAPTURE_SECONDS if self._variant == CAPTURE else self._work.timeout
            if time.monotonic() - self._since < limit:
                return None
            if self._variant == COMPILATION:
                text = f"Triton did not compile it in {self._work.timeout:.0f} s"
                return self._lost("rejected", text)
            return self._lost("hang", f"no result after {self._work.timeout:.0f} s")
        assert self._process is not None
        try:
            message = self._process.receive(_MESSAGE_S)
        except WorkerEndedError as error:
            return self._lost("crash", str(error))
        self._since = time.monotonic()
        if isinstance(message, Verdict):
            if any(failure.kind == "crash" for failure in message.failures):
                self.end()  # the worker has lost its GPU and reported that
            return message
        self._variant = message
        if message not in (COMPILATION, CAPTURE):
            self._ran.append(message)
        return None

    def _lost(self, kind: Kind, text: str) -> Verdict:
        errors = "" if self._process is None else self._process.errors[-2000:]
        self.end()
        failure = Failure(self._seed, kind, self._variant, f"{errors.strip()}\n{text}".strip())
        return Verdict(self._seed, tuple(self._ran), (failure,), 0.0)

    def _started(self) -> Worker:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._kernels = 0
        folder, limits = str(self._folder), Limits(errors="kept")
        worker = spawn_worker("ttools.fuzz.workers:serve", [folder], limits, PickleCodec())
        with contextlib.suppress(WorkerGoneError):  # `receive` raises it again
            worker.channel.send(self._work)
        return worker

    def end(self) -> None:
        """Terminate the process, if there is one."""
        if self._process is not None:
            self._process.end()
        self._process = None


def serve(channel: Channel, folder: str) -> None:
    """Examine kernels: receive the options, then tasks; send names of variants, and verdicts."""
    os.environ.update(
        TTOOLS_CACHE="off", TRITON_CACHE_DIR=f"{folder}/triton", TTOOLS_QUIET="1",
        OMP_NUM_THREADS="1",
    )  # fmt: skip
    work: Work = channel.receive()
    while True:
        task: Task = channel.receive()
        channel.send(_examine(channel.send, task, work, Path(folder)))


def _examine(announce: Callable[[str], None], task: Task, work: Work, folder: Path) -> Verdict:
    from ttools.fuzz.generate.kernel import generate
    from ttools.fuzz.three_way import examine_three_ways
    from ttools.fuzz.trial import examine
    from ttools.fuzz.variants import chosen

    try:
        if work.script:
            return _mutants(work, folder, announce).examine(
                task.seed, [BY_NAME[name] for name in work.variants], work.per_kernel, announce
            )
        program = task.program or generate(task.seed, work.features)
        if work.device:
            return examine_three_ways(program, folder, work.device, announce=announce)
        names = task.variants or work.variants
        variants = [BY_NAME[name] for name in names]
        if not task.variants:
            variants = chosen(task.seed, variants, work.per_kernel)
        return examine(program, variants, folder, cpu=work.cpu, announce=announce)
    except Exception as error:  # noqa: BLE001 - a defect of the fuzzer must not end a campaign
        text = f"{type(error).__name__}: {error}"
        failure = Failure(task.seed, "error", "generator", text)
        return Verdict(task.seed, (), (failure,), 0.0)


#: Captured launches of this process, by script.
_trials: dict[str, MutantTrial] = {}


def _mutants(work: Work, folder: Path, announce: Callable[[str], None]) -> MutantTrial:
    if work.script not in _trials:
        from ttools.fuzz.mutation.capture import capture_script
        from ttools.fuzz.mutation.trial import MutantTrial

        announce(CAPTURE)
        _trials[work.script] = MutantTrial(capture_script(work.script), folder, work.cpu)
    return _trials[work.script]
