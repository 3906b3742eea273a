"""A bench that runs configurations in worker processes, so that crashes and hangs affect only them.

Many configurations are compiled ahead at the same time. Each configuration is then verified and
timed in a slot of the pool that measures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice

from ttools.core.errors import TtoolsError
from ttools.core.process.channel import WorkerEndedError, WorkerSlowError
from ttools.core.process.interruptible import result, wait
from ttools.tuner.cost.static_cost import StaticFacts
from ttools.tuner.measure.finalists import ROUNDS
from ttools.tuner.measure.outputs import CannotTuneError
from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import Candidate
from ttools.tuner.workers.references import UnavailableObjectError
from ttools.tuner.workers.serialized_launch import serialize_configs
from ttools.tuner.workers.serving import LEAD, Answer, Opening, Request
from ttools.tuner.workers.target_driver import current_target
from ttools.tuner.workers.worker_pool import Pools, WorkerPool
from ttools.tuner.workers.worker_slot import Job

#: Number of configurations per compiling process that are compiled before the search requests them.
_EARLY = 8
#: Maximum number of seconds for which a search waits for these compilations before it begins.
_MOST_WAITING_S = 30.0
#: Once this share of the compilations has finished, the search waits until the elapsed time has
#: grown by this factor, and rejects configurations whose compilation is still running. A kernel
#: that takes several times as long to compile as others has too many instructions to be fast.
_MOST_OF_THEM, _AS_LONG = 0.75, 2.0
#: Minimum number of seconds to wait before slow compilations are rejected, because most of the
#: finished compilations may come from a cache.
_LEAST_WAITING_S = 3.0


def most_early(compiling: int) -> int:
    """Return how many configurations are compiled before the search requests them.

    Args:
        compiling: Number of processes that compile ahead.
    """
    return _EARLY * compiling


class RemoteBench:
    """One launch that is repeated in other processes.

    Args:
        opening: Description of the launch for the workers.
        timeout: Time limit for a configuration in seconds, including compilation.
        pools: Worker pools of the run.
        sent: Keys of the configurations that `opening` contains; None if it contains all.
        ends_pools: If True, the pools serve only this launch, and are closed with it.

    Attributes:
        reference: Key of the configuration with whose outputs others are compared; empty until a
            configuration has run.
        first_error: Exception of the first configuration that failed to run, or None.
        uncounted: The reason why launches could not be counted; empty if they were.
    """

    def __init__(
        self,
        opening: Opening,
        timeout: float,
        pools: Pools,
        sent: Collection[str] | None = None,
        *,
        ends_pools: bool = False,
    ) -> None:
        self._opening, self._timeout = opening, timeout
        self._sent, self._ends_pools = sent, ends_pools
        #: Requested configurations that `opening` does not contain.
        self._others: dict[str, Candidate] = {}
        self._checks = opening.measuring.checks
        empty = opening.launch.without_contents()
        target = current_target() if opening.measuring.on_gpu else None
        # Compilation does not use a GPU, so the choice of the visible GPU does not matter.
        self._empty = replace(
            opening, launch=empty, compiles_only=True, target=target, variables={}
        )
        self._pools, self._measures, self._compiles = pools, pools.measures, pools.compiles
        self._most_early = most_early(pools.compiles.slots if pools.compiles else 0)
        self._compiling: dict[str, Future[Answer]] = {}
        self._begun: dict[str, Future[Answer]] = {}
        self._start = time.monotonic()
        #: Time at which each compilation ended, in seconds since `_start`.
        self._ended: list[float] = []
        self.reference = ""
        self.first_error: Exception | None = None
        self.uncounted = ""

    def open(self, expected: Sequence[Candidate] = ()) -> None:
        """Have one worker per slot recreate the launch, and wait for the first of these workers.

        Args:
            expected: Configurations to compile meanwhile, see `expect`.

        Raises:
            CannotSendError: A worker cannot recreate the launch.
        """
        nothing = Request("establish", ())
        opening = [
            self._submit(self._measures, nothing, self._timeout)
            for _ in range(self._measures.slots)
        ]
        self.expect(expected)
        for first in wait(opening, return_when="FIRST_COMPLETED")[0]:
            error = first.result().error
            if error is not None:
                raise error

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """Compile configurations ahead, unless that would disturb measurements on the CPU.

        The first configuration is compiled first, because it is tried first. The others follow in
        the order of decreasing work, so that the last compilation ends soonest.
        """
        if self._compiles is None or not self._opening.measuring.on_gpu:
            return
        early = candidates[: self._most_early]
        for candidate in [*early[:1], *sorted(early[1:], key=lambda one: -one.work)]:
            leads = candidate is early[0]
            self._compiling[candidate.key] = self._submit_compilation(
                candidate, later=True, leads=leads
            )

    def facts(self) -> Mapping[str, StaticFacts | None]:
        """Return the static facts of the configurations compiled ahead, by key.

        This waits until nearly all of them are compiled, so that repeated runs have the same facts.

        Returns:
            The facts by key; None for configurations that fail to compile, or take much longer than
            the others.
        """
        left = set(self._begun.values())
        while left and (patience := self._patience(_MOST_WAITING_S)) > 0:
            _, left = wait(left, timeout=patience, return_when="FIRST_COMPLETED")
        return {key: _facts(key, future) for key, future in self._begun.items()}

    def _patience(self, most: float = math.inf) -> float:
        """Return how many more seconds to wait for compilations; the total is at most `most`."""
        until = min(waited_until(self._ended, len(self._begun)), most)
        return self._start + until - time.monotonic()

    def can_sweep(self, candidates: Sequence[Candidate]) -> bool:
        """Return whether all of these configurations are being compiled ahead."""
        return all(candidate.key in self._begun for candidate in candidates)

    def sweep(
        self, candidates: Sequence[Candidate], stop: Callable[[], bool]
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Measure configurations that are compiled ahead, each as soon as it is compiled.

        Configurations that take much longer to compile than the others are rejected, see
        `_AS_LONG`.

        Args:
            candidates: Configurations that were not attempted before.
            stop: Called before each attempt; returns True to try no more configurations.
        """
        compiling = {self._begun[candidate.key]: candidate for candidate in candidates}
        for candidate in candidates:
            self._compiling.pop(candidate.key, None)
        least = self._start + _LEAST_WAITING_S

        def patience() -> float:
            return max(self._patience(), least - time.monotonic())

        yield from self._measure((), compiling, stop, patience)
        for future, candidate in compiling.items():
            future.cancel()
            if not stop():
                yield candidate, self._rejected(candidate, WorkerSlowError(_TOO_LONG), "")

    def close(self) -> None:
        """Cancel compilations that are no longer needed."""
        for future in self._compiling.values():
            future.cancel()
        if self._ends_pools:
            self._pools.close()

    def restore(self) -> None:
        """Do nothing, because the memory of this process was not changed."""

    def establish(self, candidate: Candidate) -> None:
        """Make a configuration the reference, which workers run before any other configuration."""
        self._add_unsent([candidate])
        self.reference = self.reference or candidate.key

    def attempts(
        self, candidates: Iterable[Candidate], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Compile, verify and time configurations; yield each trial as soon as it is finished.

        Args:
            stop: Called before each attempt; returns True to try no more configurations.

        Raises:
            CannotSendError: A worker cannot recreate the launch.
            CannotTuneError: The kernel cannot be tuned, whatever the configuration.
        """
        waiting = iter(candidates)
        ahead = self._compiles.slots if self._compiles is not None else 1
        size = max(self._measures.slots, ahead)
        while not stop() and (chunk := list(islice(waiting, size))):
            yield from self._measure(chunk, self._compile(chunk), stop)

    def final(self, finalists: Sequence[Candidate], rounds: int = ROUNDS) -> dict[str, list[float]]:
        """Time the finalists alternately in one worker; return nothing if that fails."""
        request = replace(self._request("final", finalists), rounds=rounds)
        answer = result(self._submit(self._measures, request, self._timeout * len(finalists)))
        return {} if answer.error is not None else dict(answer.value)

    # ---- jobs
    def _request(self, name: str, chosen: Sequence[Candidate]) -> Request:
        """Return a request, including the requested configurations that workers may not have."""
        keys = tuple(candidate.key for candidate in chosen)
        self._add_unsent(chosen)
        lacked = [self._others[key].config for key in {*keys, self.reference} & {*self._others}]
        return Request(name, keys, serialize_configs(lacked) if lacked else b"")

    def _add_unsent(self, chosen: Sequence[Candidate]) -> None:
        if self._sent is not None:
            unsent = (candidate for candidate in chosen if candidate.key not in self._sent)
            self._others |= {candidate.key: candidate for candidate in unsent}

    def _submit(self, pool: WorkerPool, request: Request, timeout: float) -> Future[Answer]:
        reference = "" if self._checks.reference else self.reference
        job = Job(opening=self._opening, request=request, timeout=timeout, reference=reference)
        return pool.submit(job)

    def _submit_compilation(
        self, candidate: Candidate, *, later: bool, leads: bool = False
    ) -> Future[Answer]:
        assert self._compiles is not None
        request = self._request(LEAD if leads else "compile", [candidate])
        future = self._begun[candidate.key] = self._compiles.submit(
            Job(opening=self._empty, request=request, timeout=self._timeout, later=later)
        )
        future.add_done_callback(lambda _: self._ended.append(time.monotonic() - self._start))
        return future

    def _compile(self, chunk: Sequence[Candidate]) -> dict[Future[Answer], Candidate]:
        """Start compilations in other processes; return an empty mapping if none are started."""
        early_compilations = {
            candidate.key: self._compiling.pop(candidate.key, None) for candidate in chunk
        }
        if self._compiles is None or (len(chunk) == 1 and not any(early_compilations.values())):
            return {}
        compilations = {}
        for candidate in chunk:
            early = early_compilations[candidate.key]
            if early is None or early.cancel():  # if it has not begun, it is resubmitted first
                early = self._submit_compilation(candidate, later=False)
            compilations[early] = candidate
        if not self._opening.measuring.on_gpu:  # the CPU must be quiet when it is timed
            wait(compilations)
        return compilations

    def _measure(
        self,
        chunk: Sequence[Candidate],
        compiling: dict[Future[Answer], Candidate],
        stop: Callable[[], bool],
        patience: Callable[[], float] = lambda: math.inf,
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Measure configurations as soon as they are compiled.

        Compilations are no longer awaited once `patience` returns 0 seconds or less. Configurations
        whose compilation crashed or hung are rejected. If a compilation raised an exception, its
        configuration is still attempted: the attempt raises the exception again, and reports it.
        """
        ready = [] if compiling else list(chunk)
        running: dict[Future[Answer], Candidate] = {}

        def begin() -> None:
            while ready and len(running) < self._measures.slots and not stop():
                candidate = ready.pop(0)
                request = self._request("attempt", [candidate])
                running[self._submit(self._measures, request, self._timeout)] = candidate

        while True:
            begin()
            left = patience()
            awaited = [future for future in compiling if left > 0 or future.done()]
            if not running and (stop() or not awaited):
                return
            timeout = left if 0 < left < math.inf else None
            awaited += running
            done, _ = wait(awaited, timeout=timeout, return_when="FIRST_COMPLETED")
            for future in [future for future in running if future in done]:
                candidate = running.pop(future)
                trial = self._trial(candidate, future.result())
                begin()  # handling the trial may be slow
                yield candidate, trial
            for future in [future for future in compiling if future in done]:
                candidate = compiling.pop(future)
                error = future.result().error
                if isinstance(error, WorkerEndedError):
                    yield candidate, self._rejected(candidate, error, "its compilation ")
                else:
                    ready.append(candidate)

    def _trial(self, candidate: Candidate, answer: Answer) -> Trial:
        if isinstance(answer.error, WorkerEndedError):
            return self._rejected(candidate, answer.error, "")
        if answer.error is not None:
            raise answer.error
        if isinstance(answer.first_error, UnavailableObjectError):
            raise CannotTuneError(answer.first_error.message)
        self.first_error = self.first_error or answer.first_error
        self.uncounted = answer.uncounted
        trial: Trial = answer.value
        if answer.device_lost and trial.status == "failed":
            trial = replace(trial, status="crashed")
        self.reference = self.reference or trial.reference
        return trial

    def _rejected(self, candidate: Candidate, error: WorkerEndedError, prefix: str) -> Trial:
        self.first_error = self.first_error or TtoolsError(f"{candidate}: {error.message}")
        return Trial(
            values=candidate.values,
            status=error.how,
            reason=prefix + error.message + (_TWICE if error.how == "killed" else ""),
            reference=self.reference,
            checks=str(self._checks),
        )


def waited_until(ended: Iterable[float], begun: int) -> float:
    """Return the time after which unfinished compilations count as too slow.

    For example, if 4 compilations were begun and the first 3 of them (75%) ended after 1, 2 and 3
    seconds, the result is 6 seconds. It is infinite until enough compilations have ended.

    Args:
        ended: Time at which each compilation ended, in seconds.
        begun: Number of compilations begun.
    """
    enough = math.ceil(_MOST_OF_THEM * begun)
    first = sorted(ended)[:enough]
    return _AS_LONG * first[-1] if first and len(first) == enough else math.inf


_TOO_LONG = "takes far longer to compile than the others"
_TWICE = (
    ", twice; it was probably killed from outside, perhaps because memory ran out, so this result "
    "is not stored"
)


def _facts(key: str, compiled: Future[Answer]) -> StaticFacts | None:
    if not compiled.done() or compiled.cancelled() or compiled.exception() is not None:
        return None
    facts: Mapping[str, StaticFacts] = compiled.result().value or {}
    return facts.get(key)
