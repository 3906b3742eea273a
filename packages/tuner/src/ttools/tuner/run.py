"""A tuning run as a context: opens the store, intercepts kernels, writes the lock file.

The public face of tuning whole programs. Owns the life of files; tuning is the session's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.interpreter import interpret
from ttools.interpreter.api import Interpretation
from ttools.sanitizer.uninitialised import UninitialisedMemory
from ttools.tuner.cost.gpu_time import read_gpu
from ttools.tuner.measure.gpu_launch import tuning_on_gpu
from ttools.tuner.options import TuneOptions
from ttools.tuner.session import Session
from ttools.tuner.store.lock import lock_of, merged, read_lock, write_lock
from ttools.tuner.store.store import Store
from ttools.tuner.workers.worker_pool import Executor


class TuningRun:
    """While active, autotuned kernels are tuned, and launched in their winning configuration.

    Args:
        options: what is tried, and for how long.
        store: file of trials; None to keep nothing.
        lock: file of winners; written at the end, or read if `locked`.
        locked: take every winner from the lock file and measure nothing.
        device: a GPU by name, to choose for without having it.
        on: what times; the GPU if there is one and `device` names none, else the CPU.
        only: names of the kernels to run and tune; all by default.
        threads: how many threads run the programs of a launch.
        measures: makes the executor that runs configurations, such as `workers.jobs.gpu_workers`
            or `workers.ray_workers.ray_workers`; by default one process of this machine.
        announce: told of each problem before anything of it runs.

    Raises:
        UsageError: a file cannot be used, or an argument makes no sense.
    """

    def __init__(
        self,
        options: TuneOptions | None = None,
        *,
        store: Path | None = None,
        lock: Path | None = None,
        locked: bool = False,
        device: str | None = None,
        only: Sequence[str] | None = None,
        threads: int | None = None,
        on: Literal["cpu", "gpu"] | None = None,
        measures: Callable[[], Executor] | None = None,
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:
        if locked and lock is None:
            raise UsageError("--locked needs the lock file: --lock FILE")
        if on not in (None, "cpu", "gpu"):
            raise UsageError(f"on={on!r}: must be cpu or gpu")
        if on == "gpu" and (device is not None or not gpu_usable()):
            raise UsageError(
                "there is no GPU that could time"
                if device is None
                else "--on gpu times; --target chooses for a GPU that is not here"
            )
        on_gpu = device is None and (on == "gpu" or (on is None and gpu_usable()))
        self._lock_path = None if locked else lock
        known = read_lock(lock) if lock is not None and (locked or lock.exists()) else None
        self._previous = known
        self._store = None if locked or store is None else Store(store)
        self.session = Session(
            options or TuneOptions(),
            read_gpu(device) if device else None,
            threads,
            self._store,
            known if locked else None,
            announce,
            on_gpu,
            measures,
        )
        # What the program allocates is marked, and the marks go where its launches are made again.
        checks = (options or TuneOptions()).checks
        self._unwritten = UninitialisedMemory() if checks.sanitize and not locked else nullcontext()
        self._interpretation: Interpretation | None = None
        self._tuning: AbstractContextManager[Any]
        if on_gpu:
            names = None if only is None else frozenset(only)
            self._tuning = tuning_on_gpu(
                lambda name: names is None or name in names, self.session.tune
            )
        else:
            self._tuning = self._interpretation = interpret(
                only=only, threads=threads, observer=self.session.clock, tune=self.session.tune
            )

    @property
    def warnings(self) -> list[str]:
        """What the user should know of launches that completed."""
        return [] if self._interpretation is None else self._interpretation.warnings

    def __enter__(self) -> TuningRun:
        self._unwritten.__enter__()
        self._tuning.__enter__()
        self.session.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tuning.__exit__(kind, error, traceback)
        self._unwritten.__exit__(kind, error, traceback)
        self.session.close()
        if self._store is not None:
            self._store.close()
        if self._lock_path is not None and self.session.results:
            found = lock_of(result.entry() for result in self.session.results)
            write_lock(merged(self._previous, found), self._lock_path)
