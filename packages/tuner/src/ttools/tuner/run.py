"""A tuning run: a context in which each launched problem is tuned once."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from ttools.core import triton_versions
from ttools.core.device_map.graphs.capture import capturing
from ttools.core.environment import gpu_usable
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.gpus.devices import Device, one_gpu, read_device
from ttools.core.gpus.targets import Target, read_target
from ttools.core.kernel_selector import kernel_selector
from ttools.core.reports.notebook import Part, Text
from ttools.core.reports.report import config_text
from ttools.core.reports.result import Result
from ttools.interpreter.run.tuned_launch import TunedCall, run_first
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.tuner.measure.gpu_launch import being_captured, tuning_on_gpu
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.measure.outputs import CannotTuneError
from ttools.tuner.measure.references import load_reference
from ttools.tuner.measure.trial import Trial
from ttools.tuner.options import TuneOptions
from ttools.tuner.search.surrogate import load_model
from ttools.tuner.space.candidate import Candidate, candidates, config_key
from ttools.tuner.store.experience import experience
from ttools.tuner.store.lock import lock_of, merged, read_lock, write_lock
from ttools.tuner.store.problem import (
    Problem,
    gpu_architecture,
    gpu_device,
    host_device,
    predicted_device,
    problem_of,
    where,
)
from ttools.tuner.store.store import StoreError, TuningEntry, TuningStore
from ttools.tuner.tuning import AnyBench, Tuning, TuningResult
from ttools.tuner.workers.fork_server import ForkServer
from ttools.tuner.workers.references import IN_THIS_PROCESS
from ttools.tuner.workers.remote_bench import RemoteBench, most_early
from ttools.tuner.workers.script_forks import bench_in_forks
from ttools.tuner.workers.serialized_launch import CannotSendError
from ttools.tuner.workers.serving import opening_of
from ttools.tuner.workers.shared_gpu_storage import CannotShareError
from ttools.tuner.workers.visible_gpu import chosen_gpu, visible_gpus
from ttools.tuner.workers.worker_pool import Pools, WorkerPool, compiling_slots, start_pools

if TYPE_CHECKING:
    from ttools.interpreter.api import Interpretation


#: A tuning counts as mostly done once this share of its budget has been tried.
_MOSTLY = 0.75
#: The GPU whose orders of evaluation are compared if launches are timed on the CPU.
DEFAULT_GPU = "sm_90"
#: Up to this many configurations are sent together with the launch; further ones are sent with
#: requests.
_SENT = 10_000


class TuningRun(Result):
    """Tunes autotuned kernels while active, and launches them in their winning configuration.

    Args:
        options: Options of the search, and limits of its duration.
        store: File of trials; None stores nothing.
        lock: File of winners, which is written at the end, or only read if `locked` is True.
        locked: If True, every winner is taken from the lock file, and nothing is measured.
        gpu: A GPU for which times are predicted, by name, architecture or description; it need not
            be present.
        device: Former name of `gpu`.
        on: Kind of device on which times are measured. `auto` or None is the GPU if there is one
            and `gpu` is not given, otherwise the CPU.
        only: Names of the kernels to run and tune, or a predicate on names; None for all.
        threads: Number of threads that run the programs of a launch.
        measures: Function that makes the pool that runs configurations, for example
            `workers.worker_pool.gpu_workers` or `workers.ray_workers.ray_workers`. None uses one
            process on this machine.
        announce: Called with a description of each problem before the problem is tuned.
        servers: Fork servers for workers on a GPU that are already started, see
            `workers.fork_server`.
        starts_early: If True, worker processes on a GPU start with the run instead of with the
            first launch.
        program: Name of the program for the store, which records that all tunings of the program
            were complete.
        configs: Called with each launch; returns the configurations to try instead of those of its
            autotuner. A launch for which it returns a single configuration is not tuned.

    Attributes:
        results: Results in the order of the launches.
        clock: Observer of the run's launches.
        notes: Notes for the user on the run as a whole.
        single: Names of kernels with a single configuration, which need no tuning.
        locked: True if winners are taken from a lock file.

    Raises:
        UsageError: A file cannot be used, or arguments contradict each other.
    """

    def __init__(
        self,
        options: TuneOptions | None = None,
        *,
        store: Path | None = None,
        lock: Path | None = None,
        locked: bool = False,
        gpu: str | Device | None = None,
        device: str | Device | None = None,
        only: Sequence[str] | Callable[[str], bool] | None = None,
        threads: int | None = None,
        on: Literal["auto", "cpu", "gpu"] | None = None,
        measures: Callable[[], WorkerPool] | None = None,
        announce: Callable[[str], None] = lambda text: None,
        servers: Mapping[str, ForkServer] = MappingProxyType({}),
        starts_early: bool = True,
        program: str = "",
        configs: Callable[[TunedCall], Sequence[Any]] | None = None,
    ) -> None:
        if locked and lock is None:
            raise UsageError("--locked needs the lock file: --lock FILE")
        selects = kernel_selector(only)
        self._options = options = options or TuneOptions()
        predicted = one_gpu(gpu, device)
        self._measuring = Measuring(
            checks=options.checks,
            on_gpu=_is_on_gpu(on, predicted),
            predicted=None if predicted is None else read_device(predicted),
            threads=threads,
        )
        self.locked, self._lock_path = locked, lock
        self._lock = read_lock(lock) if lock is not None and (locked or lock.exists()) else None
        self._store = None if locked or store is None else TuningStore(store)
        self._make_measuring, self._announce, self._servers = measures, announce, servers
        self._pools: Pools | None = None
        self._visible = visible_gpus()
        self._starts_early = starts_early and not locked and options.workers != 0
        self._program, self._configs = program, configs
        self.results: list[TuningResult] = []
        self.clock = self._measuring.clock()
        self.notes: list[str] = []
        self.single: dict[str, None] = {}
        self._winners: dict[Problem, str | None] = {}
        self._parameters: set[str] = set()
        self._spaces: dict[str, tuple[Sequence[Any], list[Candidate]]] = {}
        self._one_at_a_time = threading.RLock()
        self._prepared = self._searching = False
        self._shares = True
        # Memory that the program allocates is marked as uninitialised; workers receive the marks.
        marks = options.checks.sanitize and not locked
        self._unwritten = UninitialisedMemory() if marks else nullcontext()
        self._interpretation: Interpretation | None = None
        self._tuning: AbstractContextManager[Any]
        if self._measuring.on_gpu:
            self._tuning = tuning_on_gpu(selects, self.tune)
        else:
            from ttools.interpreter import interpret

            self._tuning = self._interpretation = interpret(
                only=only, threads=threads, observer=self.clock, tune=self.tune
            )

    @property
    def is_searching(self) -> bool:
        """True while a launch waits for its kernel to be tuned."""
        return self._searching

    @property
    def effort(self) -> str | None:
        """The level of effort; None if other options limit the trials."""
        return self._options.effort if self._options.by_effort else None

    def planned(self, result: TuningResult) -> int:
        """Return the maximum number of configurations that are tried for a problem."""
        return self._most(result.space)

    def _most(self, space: int) -> int:
        """Return the maximum number of trials: all configurations if trying them costs little."""
        return space if self._may_sweep(space) else self._options.budget(space)

    def _may_sweep(self, space: int) -> bool:
        """Return whether all configurations are timed, provided that their launches are short."""
        sweeps = self.on_gpu and self._options.workers != 0 and self._options.may_sweep
        return sweeps and space <= most_early(compiling_slots(self._options.workers))

    @property
    def warnings(self) -> list[str]:
        """Warnings about launches that completed."""
        return [] if self._interpretation is None else self._interpretation.warnings

    @property
    def on_gpu(self) -> bool:
        """True if launches run and are timed on a GPU."""
        return self._measuring.on_gpu

    @property
    def unknown_scratch(self) -> list[str]:
        """The names of scratch arguments that are not parameters of any tuned kernel."""
        return [n for n in self._options.checks.scratch if n not in self._parameters]

    @property
    def failures(self) -> list[TuningResult]:
        """The results without a winner, because none of their configurations can win."""
        return [result for result in self.results if result.failures]

    @property
    def passed(self) -> bool:
        """True if every problem has a winner, or if no autotuned kernel was launched."""
        return all(result.passed for result in self.results)

    def _formats(self) -> Mapping[str, Callable[[], str]]:
        from ttools.tuner.report.formats import formats_of

        notes = [note for result in self.results for note in result.notes] + self.notes
        entries = [result.entry() for result in self.results]
        return {**super()._formats(), **formats_of(entries, notes)}

    def _shown(self) -> Iterator[Part]:
        for result in self.results:
            yield from result._shown()
        if not self.results:
            yield Text("no autotuned kernel was launched")
        yield from (Text(f"`{name}` has a single configuration") for name in self.single)
        yield from map(Text, (*self.warnings, *self.notes))

    def __enter__(self) -> TuningRun:
        self._unwritten.__enter__()
        self._tuning.__enter__()
        if self._measuring.on_gpu and self._starts_early:
            self._start_workers()  # they start while the program prepares its launches
        return self

    def __exit__(self, *error: Any) -> None:
        self._tuning.__exit__(*error)
        self._unwritten.__exit__(*error)
        if self._pools is not None:
            self._pools.close()
            self._pools = None
        if self._program and self.results and all(r.complete and r.winner for r in self.results):
            self._keep(lambda store: store.end(self._program))
        if self._store is not None:
            self._store.close()
        if self._lock_path is not None and not self.locked and self.results:
            winners = lock_of(result.entry() for result in self.results)
            write_lock(merged(self._lock, winners), self._lock_path)

    # ---- a launch
    def tune(self, launch: TunedCall) -> Any:
        """Launch a kernel in its winning configuration; tune it first if necessary.

        Raises:
            UsageError: The lock file has no winner, or its winner is no longer among the
                configurations.
            Exception: The exception of the first configuration, if none of the configurations runs.
        """
        if self._configs is not None:
            launch = replace(launch, configs=self._configs(launch))
        space = self._candidates(launch)
        if len(space) == 1:
            self.single[launch.kernel] = None
            return run_first(launch)
        problem = problem_of(launch, self._device)
        with self._one_at_a_time:
            if problem not in self._winners:
                self._searching = True
                try:
                    self._winners[problem] = self._winner(problem, launch, space)
                finally:
                    self._searching = False
        key = self._winners[problem]
        chosen = next((candidate for candidate in space if candidate.key == key), space[0])
        launch.choose(chosen.config)
        return launch.run(chosen.config)

    def _candidates(self, launch: TunedCall) -> list[Candidate]:
        """Return the space of a launch, cached as long as the configurations do not change."""
        configs, cached = launch.configs, self._spaces.get(launch.kernel)
        same = cached is not None and len(cached[0]) == len(configs)
        if cached is None or not same or not all(map(operator.is_, cached[0], configs)):
            cached = self._spaces[launch.kernel] = list(configs), candidates(configs)
        return cached[1]

    @cached_property
    def _device(self) -> str:
        """The device of the problems; determined at the first launch, because it imports torch."""
        if self._measuring.on_gpu:
            return gpu_device()
        predicted = self._measuring.predicted
        return predicted_device(predicted) if predicted else host_device(self._measuring.threads)

    def _winner(self, problem: Problem, launch: TunedCall, space: list[Candidate]) -> str | None:
        if self.locked:
            return self._locked_winner(problem, space)
        if being_captured() if self._measuring.on_gpu else capturing() is not None:
            return self._stored_winner(problem, space)
        return self._find(problem, launch, space)

    def _locked_winner(self, problem: Problem, space: list[Candidate]) -> str:
        assert self._lock is not None
        values = self._lock.find(problem)
        wanted = config_key(values)
        if wanted not in {candidate.key for candidate in space}:
            raise UsageError(
                f"{problem.kernel}: the lock file's winner {config_text(values)} is no longer "
                "among its configurations; tune without --locked first"
            )
        return wanted

    def _stored_winner(self, problem: Problem, space: list[Candidate]) -> str:
        """Return the stored winner for a launch that is captured in a graph and cannot be tuned.

        Raises:
            UsageError: There is no stored winner.
        """
        stored = None if self._store is None or self._options.fresh else self._store.entry(problem)
        if stored is None or stored.winner not in {candidate.key for candidate in space}:
            raise UsageError(
                f"{problem}: a launch that is captured in a CUDA graph cannot be tuned, because "
                "nothing runs until the graph is replayed; launch the kernel with this key once "
                "before the capture begins, as triton.autotune also requires"
            )
        assert stored.winner is not None
        return stored.winner

    # ---- a problem
    def _find(self, problem: Problem, launch: TunedCall, space: list[Candidate]) -> str | None:
        integers = {n: v for n, v in launch.arguments.items() if type(v) is int}
        result = TuningResult(
            problem=problem, space=len(space), location=where(launch), constants=integers
        )
        self.results.append(result)
        self._parameters.update(launch.tuner.arg_names)
        if self._options.checks.reference:
            load_reference(self._options.checks.reference)  # fail here instead of in a worker
        entry = self._store.entry(problem) if self._store else TuningEntry(problem=problem)
        stored = [] if self._store is None else self._store.entries(problem.kernel)
        result.present = self._present(problem, stored)
        self._announce(f"{problem}: {self._options.plan(len(space), self._most(len(space)))}")
        if self._options.reproducible:
            space = self._competing(result, launch, space, entry)
            launch = replace(launch, configs=[candidate.config for candidate in space])
            result.space = len(space)
        if self._recalls(result, space, entry):
            return result.winner.key if result.winner else None
        try:
            bench = self._bench(launch, result, [] if self._is_done(entry, space) else space)
        except CannotTuneError as error:
            result.notes.append(f"not tuned: {error}; the launch uses the first configuration")
            return None
        try:
            Tuning(
                result,
                space,
                bench,
                self._options,
                entry,
                save=lambda trial: self._save(result, trial),
                others=experience(problem, [*stored, *(result.entry() for result in self.results)]),
                hint=self._measuring.hint(bench.facts),
            ).run()
        except CannotTuneError as error:
            result.notes.append(f"not tuned: {error}")
        finally:
            bench.close()
            bench.restore()
            if bench.uncounted and not any(t.cost for t in result.trials.values()):
                result.notes.append(f"no times can be predicted: {bench.uncounted}")
            if result.trials:
                self._decide(result)
        if result.winner is None and bench.first_error is not None:
            raise bench.first_error
        if result.trials and result.winner is None:
            result.notes.append("no configuration can win; the launch uses the first one")
        return result.winner.key if result.winner else None

    def _competing(
        self,
        result: TuningResult,
        launch: TunedCall,
        space: list[Candidate],
        entry: TuningEntry,
    ) -> list[Candidate]:
        """Return the candidates that the option `reproducible` lets compete; record the classes."""
        from ttools.tuner.measure.bit_classes import bit_classes, competing

        target, stored = self._target(), entry.bit_classes
        keys = [candidate.key for candidate in space]
        is_known = stored is not None and stored.target == target.name and stored.covers(keys)
        if stored is None or not is_known or self._options.fresh:
            self._announce(f"{result.problem}: comparing orders of evaluation on {target.name}")
            stored = bit_classes(launch, space, target)
            classes, location = stored, result.location
            self._keep(lambda store: store.classify(result.problem, classes, location))
        result.bit_classes = stored
        chosen = competing(stored, space, self._options.reproducible)
        reason = stored.unknown.get(chosen[0].key, "") if len(chosen) == 1 else ""
        if reason:
            text = config_text(dict(chosen[0].values))
            result.notes.append(f"no configuration is proved bit-equal to {text}: {reason}")
        return chosen

    def _target(self) -> Target:
        """Return the GPU whose orders of evaluation are compared.

        Raises:
            UsageError: The orders of this GPU are not known.
        """
        predicted = self._measuring.predicted
        if predicted is not None:
            target = predicted.target
        elif self._measuring.on_gpu:
            target = read_target(gpu_architecture())
        else:
            target = read_target(DEFAULT_GPU)
        if target.backend != "cuda":
            raise UsageError(
                f"orders of evaluation are known for NVIDIA GPUs, not for {target.name}"
            )
        return target

    def _is_done(self, entry: TuningEntry, space: Sequence[Candidate]) -> bool:
        """Return whether so few trials remain that compiling ahead is not worthwhile."""
        if not entry.complete or entry.winner is None:
            return False
        if (self._options.seconds, self._options.within) != (None, None):
            return True  # the number of trials within these limits is unknown
        keys = {trial.key for trial in entry.trials if not trial.same_as}
        tried = sum(candidate.key in keys for candidate in space)
        return tried >= _MOSTLY * self._most(len(space))

    def _recalls(
        self, result: TuningResult, space: Sequence[Candidate], entry: TuningEntry
    ) -> bool:
        """Take all results from the store if it has all of them; return whether it does."""
        bench = cast("AnyBench", None)  # `recall` does not use the bench
        complete = Tuning(result, space, bench, self._options, entry, lambda _: None).recall()
        if complete:
            self._decide(result)
        return complete

    def _present(self, problem: Problem, stored: Sequence[TuningEntry]) -> str | None:
        """Return the configuration in use: the lock file's winner, or else the store's latest one.

        Winners for other sources of the kernel and for other versions are included, because the
        program may still use them.
        """
        wanted = problem.kernel, problem.key, problem.device
        winners = [(e.problem, e.winner) for e in stored if e.winner is not None]
        if self._lock is not None:
            winners += [
                (stored_problem, config_key(v)) for stored_problem, v in self._lock.winners.items()
            ]
        alike = [(p, key) for p, key in winners if (p.kernel, p.key, p.device) == wanted]
        return alike[-1][1] if alike else None

    def _bench(
        self, launch: TunedCall, result: TuningResult, expected: Sequence[Candidate]
    ) -> AnyBench:
        """Return a bench in worker processes, or in this process if no worker can be started.

        Raises:
            CannotTuneError: Only this process can make the launch, but it cannot be forked because
                it has a context on a GPU.
        """
        if self._options.workers != 0:
            self._prepare(result.space)
            try:
                try:
                    return self._opened(launch, expected)
                except CannotSendError as error:
                    return self._bench_of_this_process(launch, result, expected, error)
            except TtoolsError as error:
                if isinstance(error, CannotTuneError):
                    raise
                result.notes.append(
                    f"{error}; its configurations run in this process, so a crash of one of them "
                    "terminates the script"
                )
        return self._measuring.bench(launch, self.clock)

    def _bench_of_this_process(
        self,
        launch: TunedCall,
        result: TuningResult,
        expected: Sequence[Candidate],
        why: CannotSendError,
    ) -> RemoteBench:
        """Return a bench in expendable processes for a launch that cannot be sent.

        On the CPU, these processes are forks of this process. On a GPU, a worker receives
        placeholders for objects that cannot be sent, which is sufficient if the launch does not use
        these objects.
        """
        if self._measuring.on_gpu:
            try:
                return self._opened(launch, expected, replaces=True)
            except CannotSendError as error:
                raise CannotTuneError(f"{error}; {IN_THIS_PROCESS}") from error
        result.notes.append(f"{why}; its configurations run in forks of this process")
        make = partial(self._measuring.bench, launch, self.clock)
        return bench_in_forks(make, launch.configs, self._measuring, self._options.timeout)

    def _opened(
        self, launch: TunedCall, expected: Sequence[Candidate], replaces: bool = False
    ) -> RemoteBench:
        """Return a bench whose workers have remade the launch, on shared memory where possible."""
        own = self._measuring.on_gpu and self._make_measuring is None
        shares, variables = self._shares and own, chosen_gpu(self._visible) if own else {}
        part, sent = launch, None
        if len(launch.configs) > _SENT:
            part = replace(launch, configs=launch.configs[:_SENT])
            sent = {candidate.key for candidate in candidates(part.configs)}
        opening = opening_of(
            part, self._measuring, self._triton, shares, variables, replaces=replaces
        )
        bench = RemoteBench(opening, self._options.timeout, self._start_workers(), sent)
        try:
            bench.open(expected)
        except CannotSendError as error:
            if not shares or not isinstance(error.__cause__, CannotShareError):
                raise
            bench.close()
            self._shares = False
            return self._opened(launch, expected, replaces)
        return bench

    def _start_workers(self) -> Pools:
        """Return the worker processes of the run, which are started once."""
        if self._pools is None:
            self._pools = start_pools(
                self._options.workers, self._make_measuring, self._measuring.on_gpu, self._servers
            )
        return self._pools

    def _prepare(self, space: int) -> None:
        """Do the preparations of this process in threads, while workers recreate the launch.

        If all configurations are timed, the search model is not loaded, because it is not needed
        and loading it would delay the timing.
        """
        if self._measuring.on_gpu and not self._prepared:
            self._prepared = True
            preparations = [_make_launching_ready]
            if not self._may_sweep(space):
                preparations.append(load_model)
            for preparation in preparations:
                threading.Thread(target=preparation, daemon=True).start()

    @cached_property
    def _triton(self) -> tuple[str, str]:
        """The hash of Triton's files, and the path of the Triton installation with these files.

        They are passed to workers. Both are empty if workers compute the hash themselves, or may
        have a different Triton.
        """
        if not self._measuring.on_gpu:
            return "", ""
        if self._make_measuring is not None or self._start_workers().compiles is None:
            threading.Thread(target=triton_versions.hash_triton, daemon=True).start()
            return "", ""
        with suppress(TtoolsError):  # the next request to the server raises and reports it, too
            identification = self._start_workers().triton_hash(), triton_versions.triton_file()
            triton_versions.use_hash(*identification)
            return identification
        return "", ""

    # ---- the store, as long as it can be written
    def _save(self, result: TuningResult, trial: Trial) -> None:
        self._keep(lambda store: store.add(result.problem, trial, result.location))

    def _decide(self, result: TuningResult) -> None:
        winner = result.winner.key if result.winner else None
        self._keep(
            lambda store: store.decide(
                result.problem, winner, result.final, result.complete, result.location
            )
        )

    def _keep(self, write: Callable[[TuningStore], None]) -> None:
        if self._store is None:
            return
        try:
            write(self._store)
        except StoreError as error:
            self.notes.append(str(error))
            self._store.close()
            self._store = None


def _make_launching_ready() -> None:
    """Make Triton load what the first launch of a process needs."""
    triton_versions.import_argument_types()
    with suppress(Exception):  # the launch raises and reports it, too
        triton_versions.load_compiler()


def _is_on_gpu(on: Literal["auto", "cpu", "gpu"] | None, device: str | Device | None) -> bool:
    if on not in (None, "auto", "cpu", "gpu"):
        raise UsageError(f"on={on!r}: must be auto, cpu or gpu")
    if on == "gpu" and device is not None:
        raise UsageError(
            "--on gpu measures times on this machine, --gpu predicts them for another GPU: omit one"
        )
    if on == "gpu" and not gpu_usable():
        raise UsageError("there is no GPU here that torch can use for timing")
    return device is None and (on == "gpu" or (on != "cpu" and gpu_usable()))
