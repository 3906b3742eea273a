"""A bench whose configurations run in workers: one that crashes or hangs costs only itself.

Owns which jobs an attempt becomes: configurations are compiled ahead, many at a time, then each is
verified and timed in a slot of the pool that measures. Must not know how a worker does it.
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

#: So many configurations for each process that compiles are compiled before anybody wants them.
_EARLY = 8
#: For these a search waits so long at most before it begins.
_MOST_WAITING_S = 30.0
#: Once so many of them are compiled, it waits as long again for the rest, and no longer: a kernel
#: that takes several times as long as others to compile has too many instructions to be fast.
_MOST_OF_THEM, _AS_LONG = 0.75, 2.0
#: Before it rejects what takes longer it waits for so long in any case: most may be in a cache.
_LEAST_WAITING_S = 3.0


def most_early(compiling: int) -> int:
    """How many configurations are compiled before anybody wants them.

    Args:
        compiling: processes that compile ahead.
    """
    return _EARLY * compiling


class RemoteBench:
    """One launch, made again and again in other processes.

    Args:
        opening: of the launch.
        timeout: seconds that a configuration may take, compilation included.
        pools: of the run.
        sent: keys of the configurations that the launch in `opening` has; all by default.
        ends_pools: If True, the pools are this launch's alone, and end with it.

    Attributes:
        reference: key of the configuration that outputs are compared with; empty at first.
        first_error: of the first configuration that did not run.
        uncounted: why launches could not be counted; empty if they could.
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
        #: Those that it lacks, as far as they were asked for.
        self._others: dict[str, Candidate] = {}
        self._checks = opening.measuring.checks
        empty = opening.launch.without_contents()
        target = current_target() if opening.measuring.on_gpu else None
        # What compiles asks no GPU, so it may see any.
        self._empty = replace(
            opening, launch=empty, compiles_only=True, target=target, variables={}
        )
        self._pools, self._measures, self._compiles = pools, pools.measures, pools.compiles
        self._most_early = most_early(pools.compiles.slots if pools.compiles else 0)
        self._compiling: dict[str, Future[Answer]] = {}
        self._begun: dict[str, Future[Answer]] = {}
        self._start = time.monotonic()
        #: When each compilation had ended, counted from `_start`.
        self._ended: list[float] = []
        self.reference = ""
        self.first_error: Exception | None = None
        self.uncounted = ""

    def open(self, expected: Sequence[Candidate] = ()) -> None:
        """Has workers make the launch, one in each slot; waits for the first of them.

        Args:
            expected: see `expect`; compiled meanwhile.

        Raises:
            CannotSendError: it cannot.
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
        """Compiles early what may be attempted, where that does not disturb what is timed.

        The first one, which is tried before all others, then what should take longest, so that
        all of them are done soonest.
        """
        if self._compiles is None or not self._opening.measuring.on_gpu:
            return
        early = candidates[: self._most_early]
        for each in [*early[:1], *sorted(early[1:], key=lambda one: -one.work)]:
            leads = each is early[0]
            self._compiling[each.key] = self._submit_compilation(each, later=True, leads=leads)

    def facts(self) -> Mapping[str, StaticFacts | None]:
        """What is known of the compiled ones of what was expected, by key.

        Waits until nearly all of it is compiled, so that equal runs know alike.

        Returns:
            None for what does not compile, or takes far longer than the rest.
        """
        left = set(self._begun.values())
        while left and (patience := self._patience(_MOST_WAITING_S)) > 0:
            _, left = wait(left, timeout=patience, return_when="FIRST_COMPLETED")
        return {key: _facts(key, future) for key, future in self._begun.items()}

    def _patience(self, most: float = math.inf) -> float:
        """For how many more seconds compilation is waited for, `most` being all that may pass."""
        until = min(waited_until(self._ended, len(self._begun)), most)
        return self._start + until - time.monotonic()

    def can_sweep(self, candidates: Sequence[Candidate]) -> bool:
        """Whether all of them are compiled early."""
        return all(each.key in self._begun for each in candidates)

    def sweep(
        self, candidates: Sequence[Candidate], stop: Callable[[], bool]
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Measures all that are compiled early, each when it is compiled.

        What takes far longer to compile than the rest is rejected, see `_AS_LONG`.

        Args:
            candidates: of which none was attempted.
            stop: asked before each is begun.
        """
        compiling = {self._begun[each.key]: each for each in candidates}
        for each in candidates:
            self._compiling.pop(each.key, None)
        least = self._start + _LEAST_WAITING_S

        def patience() -> float:
            return max(self._patience(), least - time.monotonic())

        yield from self._measure((), compiling, stop, patience)
        for future, each in compiling.items():
            future.cancel()
            if not stop():
                yield each, self._rejected(each, WorkerSlowError(_TOO_LONG), "")

    def close(self) -> None:
        """Cancels what is not wanted any more."""
        for future in self._compiling.values():
            future.cancel()
        if self._ends_pools:
            self._pools.close()

    def restore(self) -> None:
        """Does nothing: the memory of this process was never touched."""

    def establish(self, candidate: Candidate) -> None:
        """Makes a configuration the reference; workers run it before anything else."""
        self._note([candidate])
        self.reference = self.reference or candidate.key

    def attempts(
        self, candidates: Iterable[Candidate], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Compiles, verifies and times configurations; in the order in which they are done.

        Args:
            stop: asked before each is begun.

        Raises:
            CannotSendError: a worker cannot make the launch.
            CannotTuneError: no configuration can be tried at all.
        """
        waiting = iter(candidates)
        ahead = self._compiles.slots if self._compiles is not None else 1
        size = max(self._measures.slots, ahead)
        while not stop() and (chunk := list(islice(waiting, size))):
            yield from self._measure(chunk, self._compile(chunk), stop)

    def final(self, finalists: Sequence[Candidate], rounds: int = ROUNDS) -> dict[str, list[float]]:
        """Times configurations interleaved, in one worker; empty if that fails."""
        request = replace(self._request("final", finalists), rounds=rounds)
        answer = result(self._submit(self._measures, request, self._timeout * len(finalists)))
        return {} if answer.error is not None else dict(answer.value)

    # ---- jobs
    def _request(self, name: str, chosen: Sequence[Candidate]) -> Request:
        """A request, with the configurations that workers lack and may need for it."""
        keys = tuple(each.key for each in chosen)
        self._note(chosen)
        lacked = [self._others[key].config for key in {*keys, self.reference} & {*self._others}]
        return Request(name, keys, serialize_configs(lacked) if lacked else b"")

    def _note(self, chosen: Sequence[Candidate]) -> None:
        if self._sent is not None:
            self._others |= {each.key: each for each in chosen if each.key not in self._sent}

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
        """The compilations of configurations, as far as other processes do them."""
        known = {each.key: self._compiling.pop(each.key, None) for each in chunk}
        if self._compiles is None or (len(chunk) == 1 and not any(known.values())):
            return {}
        found = {}
        for each in chunk:
            early = known[each.key]
            if early is None or early.cancel():  # not begun yet
                early = self._submit_compilation(each, later=False)
            found[early] = each
        if not self._opening.measuring.on_gpu:  # the CPU must be quiet when it is timed
            wait(found)
        return found

    def _measure(
        self,
        chunk: Sequence[Candidate],
        compiling: dict[Future[Answer], Candidate],
        stop: Callable[[], bool],
        patience: Callable[[], float] = lambda: math.inf,
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Measures configurations as they are compiled, those that are within so many seconds.

        Those whose compilation crashed or hung are rejected. An exception is no reason: the attempt
        will meet it, and report it.
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
            awaited = [each for each in compiling if left > 0 or each.done()]
            if not running and (stop() or not awaited):
                return
            timeout = left if 0 < left < math.inf else None
            awaited += running
            done, _ = wait(awaited, timeout=timeout, return_when="FIRST_COMPLETED")
            for future in [each for each in running if each in done]:
                candidate = running.pop(future)
                trial = self._trial(candidate, future.result())
                begin()  # handling the trial may take long
                yield candidate, trial
            for future in [each for each in compiling if each in done]:
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

    def _rejected(self, candidate: Candidate, error: WorkerEndedError, what: str) -> Trial:
        self.first_error = self.first_error or TtoolsError(f"{candidate}: {error.message}")
        return Trial(
            values=candidate.values,
            status=error.how,
            reason=what + error.message + (_TWICE if error.how == "killed" else ""),
            reference=self.reference,
            checks=str(self._checks),
        )


def waited_until(ended: Iterable[float], begun: int) -> float:
    """When it is known what takes far longer to compile than the rest; infinite before that.

    Args:
        ended: when each compilation had ended, in seconds.
    """
    enough = math.ceil(_MOST_OF_THEM * begun)
    first = sorted(ended)[:enough]
    return _AS_LONG * first[-1] if first and len(first) == enough else math.inf


_TOO_LONG = "takes far longer to compile than the others"
_TWICE = ", twice: not by itself, perhaps for want of memory; it is not stored"


def _facts(key: str, compiled: Future[Answer]) -> StaticFacts | None:
    if not compiled.done() or compiled.cancelled() or compiled.exception() is not None:
        return None
    facts: Mapping[str, StaticFacts] = compiled.result().value or {}
    return facts.get(key)
