"""A tuning run: what is tuned when an autotuned kernel is launched, and which winner it then has.

Owns the results of the run, and what becomes of launches that cannot be tuned. Must not know how a
problem is tuned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ttools.core import triton_versions
from ttools.core.errors import TtoolsError, UsageError
from ttools.interpreter.tuned_launch import TunedLaunch, run_first
from ttools.profiler.devices import Device
from ttools.tuner.measure.bench import AnyBench
from ttools.tuner.measure.gpu_launch import being_captured
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.measure.outputs import CannotTuneError
from ttools.tuner.measure.references import load_reference
from ttools.tuner.measure.trial import Trial
from ttools.tuner.options import TuneOptions
from ttools.tuner.search.guided import Known
from ttools.tuner.search.surrogate import load_model
from ttools.tuner.space.candidate import Candidate, candidates, config_key, config_text
from ttools.tuner.store.experience import experience
from ttools.tuner.store.lock import Lock
from ttools.tuner.store.problem import (
    Problem,
    gpu_device,
    host_device,
    predicted_device,
    problem_of,
    where,
)
from ttools.tuner.store.store import Entry, Store, StoreError
from ttools.tuner.tuning import Result, Tuning
from ttools.tuner.workers.executors import Workforce
from ttools.tuner.workers.worker_pool import Executor


class Session:
    """Tunes each problem that it meets, once.

    Args:
        options: what is tried, and for how long.
        device: a GPU that winners are predicted for; by default they are timed on the CPU.
        threads: how many threads run the programs of a launch on the CPU.
        store: keeps trials and knows those of earlier runs; None to keep nothing.
        lock: if given, decides every winner; nothing is measured then.
        announce: told of each problem before anything of it runs.
        on_gpu: whether the GPU of this process times.
        measures: makes the executor that runs configurations; by default one process.

    Attributes:
        results: in the order of the launches.
        clock: what observes the run.
        notes: what the user should know of the run as a whole.
        single: names of kernels with one configuration, which need no tuning.
    """

    def __init__(
        self,
        options: TuneOptions,
        device: Device | None = None,
        threads: int | None = None,
        store: Store | None = None,
        lock: Lock | None = None,
        announce: Callable[[str], None] = lambda text: None,
        on_gpu: bool = False,
        measures: Callable[[], Executor] | None = None,
    ) -> None:
        self._options = options
        self._measuring = Measuring(
            checks=options.checks, predicted=device, threads=threads, on_gpu=on_gpu
        )
        wanted = options.workers != 0
        self._workforce = Workforce(options.workers, measures, on_gpu) if wanted else None
        self._store, self._lock, self._announce = store, lock, announce
        self.results: list[Result] = []
        self.clock = self._measuring.clock()
        self.notes: list[str] = []
        self.single: dict[str, None] = {}
        self._winners: dict[Problem, str | None] = {}
        self._parameters: set[str] = set()
        self._one_at_a_time = threading.RLock()
        self._prepared = False

    @cached_property
    def _device(self) -> str:
        """What problems are for; asked for at the first launch, as it imports torch."""
        if self._measuring.on_gpu:
            return gpu_device()
        predicted = self._measuring.predicted
        return predicted_device(predicted) if predicted else host_device(self._measuring.threads)

    @property
    def unknown_scratch(self) -> list[str]:
        """Names of scratch memory that no kernel which was tuned has."""
        return [n for n in self._options.checks.scratch if n not in self._parameters]

    @property
    def locked(self) -> bool:
        """Whether a lock file decides."""
        return self._lock is not None

    def tune(self, launch: TunedLaunch) -> Any:
        """Launches a kernel in its winning configuration, found first if need be.

        Raises:
            UsageError: the lock file has no winner, or one that the kernel no longer has.
            Exception: what the first configuration raises, if none of them runs.
        """
        space = candidates(launch.configs)
        if len(space) == 1:
            self.single[launch.kernel] = None
            return run_first(launch)
        problem = problem_of(launch, self._device)
        with self._one_at_a_time:
            if self._lock is not None:
                return self._run_locked(launch, space, self._lock.find(problem))
            if problem not in self._winners:
                captured = self._measuring.on_gpu and being_captured()
                find = self._recall if captured else self._find
                self._winners[problem] = find(problem, launch, space)
        key = self._winners[problem]
        chosen = next((each for each in space if each.key == key), space[0])
        return _run_chosen(launch, chosen)

    def _run_locked(self, launch: TunedLaunch, space: list[Candidate], values: Any) -> Any:
        wanted = config_key(values)
        chosen = next((each for each in space if each.key == wanted), None)
        if chosen is None:
            raise UsageError(
                f"{launch.kernel}: the lock file's winner {config_text(values)} is not among its "
                "configurations any more; tune without --locked first"
            )
        return _run_chosen(launch, chosen)

    def _recall(self, problem: Problem, launch: TunedLaunch, space: list[Candidate]) -> str:
        """The stored winner, for a launch that cannot be tuned as it becomes part of a graph.

        Raises:
            UsageError: there is none.
        """
        stored = None if self._store is None or self._options.fresh else self._store.entry(problem)
        if stored is None or stored.winner not in {each.key for each in space}:
            raise UsageError(
                f"{problem}: a launch that is captured in a CUDA graph cannot be tuned, as nothing "
                "runs before the graph is replayed; launch the kernel for this key once before "
                "the capture begins, as triton.autotune needs it too"
            )
        assert stored.winner is not None
        return stored.winner

    def _find(self, problem: Problem, launch: TunedLaunch, space: list[Candidate]) -> str | None:
        told = where(launch)
        result = Result(problem=problem, space=len(space), place=(told["file"], told["line"]))
        self.results.append(result)
        self._parameters.update(launch.tuner.arg_names)
        if self._options.checks.reference:
            load_reference(self._options.checks.reference)  # before a worker fails to
        known = self._store.entry(problem) if self._store else Entry(problem=problem)
        self._announce(f"{problem}: {_plan(self._options, len(space))}")
        bench = self._bench(launch, result, [] if _is_done(known) else space)
        save = self._saver(result)
        try:
            others = self._experience(problem)
            hint = self._measuring.hint(bench)
            Tuning(result, space, bench, self._options, known, save, others, hint).run()
        except CannotTuneError as error:
            result.notes.append(f"not tuned: {error}")
        finally:
            bench.close()
            bench.restore()
            if bench.uncounted and not any(t.cost for t in result.trials.values()):
                result.notes.append(f"nothing can be predicted: {bench.uncounted}")
            if result.trials:
                self._decide(result)
        if result.winner is None and bench.first_error is not None:
            raise bench.first_error
        if result.trials and result.winner is None:
            result.notes.append("no configuration can win; the launch is made in the first one")
        return result.winner.key if result.winner else None

    def _experience(self, problem: Problem) -> list[Known]:
        stored = [] if self._store is None else self._store.entries(problem.kernel)
        return experience(problem, [*stored, *(each.entry() for each in self.results)])

    def _bench(
        self, launch: TunedLaunch, result: Result, expected: Sequence[Candidate]
    ) -> AnyBench:
        if self._workforce is not None:
            self._prepare()
            timeout = self._options.timeout
            try:
                return self._workforce.bench(launch, self._measuring, timeout, expected)
            except TtoolsError as error:
                result.notes.append(
                    f"{error}; its configurations run in this process, which one of them may end"
                )
        return self._measuring.bench(launch, self.clock)

    def start(self) -> None:
        """Begins what takes seconds before the first launch needs it."""
        if self._workforce is not None and self._lock is None and self._measuring.on_gpu:
            self._workforce.start()

    def _prepare(self) -> None:
        """Does what this process needs later, while workers make the launch."""
        if self._measuring.on_gpu and not self._prepared:
            self._prepared = True
            for work in (load_model, triton_versions.hash_triton):
                threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """Ends all processes."""
        if self._workforce is not None:
            self._workforce.close()

    # ---- the store, as long as it can be written
    def _saver(self, result: Result) -> Callable[[Trial], None]:
        def save(trial: Trial) -> None:
            if self._store is not None:
                self._keep(lambda store: store.add(result.problem, trial, result.place))

        return save

    def _decide(self, result: Result) -> None:
        winner = result.winner.key if result.winner else None
        self._keep(
            lambda store: store.decide(
                result.problem, winner, result.final, result.complete, result.place
            )
        )

    def _keep(self, write: Callable[[Store], None]) -> None:
        if self._store is None:
            return
        try:
            write(self._store)
        except StoreError as error:
            self.notes.append(str(error))
            self._store = None


def _is_done(known: Entry) -> bool:
    """Whether an earlier run has found the winner, so that hardly anything is left to try."""
    return known.complete and known.winner is not None


def _plan(options: TuneOptions, size: int) -> str:
    most = options.budget(size)
    limits = [f"at most {most} of them"] if most < size else []
    limits += [] if options.seconds is None else [f"none begun after {options.seconds:g} s"]
    limits += [] if options.within is None else [f"until within {options.within:g}%"]
    return ", ".join([f"{size} configurations, search {options.search}", *limits])


def _run_chosen(launch: TunedLaunch, chosen: Candidate) -> Any:
    launch.choose(chosen.config)
    return launch.run(chosen.config)
