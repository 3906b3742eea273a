"""Runs one launch in configurations of choice, each on the memory that the first one found.

Owns verification and timing of a single configuration. Must not know which are tried, nor where
results go. Everything runs in this process: a configuration that ends it, ends the process; so this
is normally a worker's, see `remote_bench`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ttools.core.errors import LaunchRefusedError, TtoolsError
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.sanitizer.memory.launch_state import SavedMemory
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.tuner.cost.static_cost import StaticFacts
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.clock import Clock
from ttools.tuner.measure.code_identity import code_identity, is_comparable
from ttools.tuner.measure.comparison import compare, incomparable
from ttools.tuner.measure.finalists import ROUNDS
from ttools.tuner.measure.outputs import CannotTuneError, outputs_of, require_known_writes
from ttools.tuner.measure.pointees import Pointees, pointees_of
from ttools.tuner.measure.references import expected_outputs, load_reference
from ttools.tuner.measure.timing import timing_of
from ttools.tuner.measure.trial import Status, Trial
from ttools.tuner.space.candidate import Candidate

if TYPE_CHECKING:
    from ttools.interpreter.run.kernel_launch import KernelLaunch

#: A configuration is timed at least and at most so often, and in between for so long.
FEWEST_SAMPLES, MOST_SAMPLES, SAMPLING_SECONDS = 3, 25, 0.05
#: And at most so often where its decorator says for how long.
MOST_SAMPLES_ASKED = 1000
#: Of more rounds of the comparison of finalists than usual none is begun after so many seconds.
MORE_ROUNDS_S = 10.0


class Bench:
    """One launch, to be made again and again.

    Args:
        checks: how outputs are verified.

    Attributes:
        reference: key of the configuration that outputs are compared with; empty at first.
        first_error: of the first configuration that did not run.
    """

    def __init__(self, launch: TunedCall, clock: Clock, checks: Checks) -> None:
        self._launch, self._clock, self._checks = launch, clock, checks
        self._timing = timing_of(launch.tuner)
        self._expected: Mapping[str, Any] = {}
        self._incomparable = ""
        self._by_code: dict[str, Trial] = {}
        self.reference = ""
        if checks.reference:
            function = load_reference(checks.reference)
            expected = expected_outputs(
                checks.reference, function, launch.arguments, self._pointees.tensors
            )
            self._compare_with(checks.reference, expected)
        self.first_error: Exception | None = None

    @property
    def uncounted(self) -> str:
        """Why launches could not be counted; empty if they could."""
        return self._clock.uncounted

    @cached_property
    def _before(self) -> SavedMemory:
        """Memory as the launch found it; saved before the first run."""
        reached = self._pointees.tensors.values()
        return SavedMemory([*self._launch.arguments.values(), *reached], UninitialisedMemory())

    @cached_property
    def _pointees(self) -> Pointees:
        """What the tables of addresses among the arguments lead to."""
        return pointees_of(self._launch.arguments)

    def restore(self) -> None:
        self._before.restore()

    def facts(self) -> Mapping[str, StaticFacts | None]:
        """Nothing: nothing is compiled early."""
        return {}

    def close(self) -> None:
        """Does nothing."""

    def make_ready(self) -> None:
        """Does what the first attempt needs, while its configuration is compiled elsewhere."""

    def is_device_lost(self) -> bool:
        """Whether nothing can be run in this process any more."""
        return False

    def compile(self, candidate: Candidate) -> StaticFacts | None:
        """Compiles a configuration as the launch needs it, and launches nothing.

        What hooks do to memory stays done.

        Returns:
            What is known of it then; None on the CPU.

        Raises:
            Exception: whatever the configuration breaks on.
        """
        self._clock.expect(self._launch.kernel, compile_only=True)
        try:
            self._launch.run(candidate.config)
        finally:
            self._clock.take()
        return None

    def establish(self, candidate: Candidate) -> None:
        """Makes a configuration the reference, if there is none yet."""
        if not self.reference:
            self.verify(candidate)

    def attempts(
        self, candidates: Iterable[Candidate], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Verifies and times configurations one after the other.

        Args:
            stop: asked before each is begun.

        Raises:
            CannotTuneError: no configuration can be tried at all.
        """
        for candidate in candidates:
            if stop():
                return
            yield candidate, self.attempt(candidate)

    def attempt(self, candidate: Candidate) -> Trial:
        """Verifies a configuration, and times it if it may win; one of those that are the same.

        Raises:
            CannotTuneError: no configuration can be tried at all.
        """
        code = self._code_of(candidate)
        known = None if code is None else self._by_code.get(code)
        if known is not None:
            return replace(known, values=candidate.values, same_as=known.key)
        trial = self.verify(candidate)
        if trial.status == "ok":
            trial = self.measure(candidate, trial)
        if code is not None:
            self._by_code[code] = trial
        return trial

    def _code_of(self, candidate: Candidate) -> str | None:
        """What a configuration makes of the launch, see `code_identity`."""
        if not is_comparable(self._launch, candidate.config):
            return None
        try:
            compiled = self._launch.compiled(candidate.config)
        except Exception:  # noqa: BLE001 - running it meets it too, and says so
            return None
        return code_identity(self._launch, candidate.config, self._code(candidate, compiled))

    def _code(self, candidate: Candidate, compiled: Any) -> Sequence[Any]:
        """What of a compiled configuration decides what it does; on the CPU no launch options."""
        return [compiled.asm["ttir"]]

    def verify(self, candidate: Candidate) -> Trial:
        """Runs a configuration once; the first one that runs well becomes the reference.

        Raises:
            CannotTuneError: no configuration can be tried at all.
        """
        try:
            defect = self._defect(candidate) if self._checks.sanitize else None
            if defect:
                return self._trial(candidate, "defect", defect)
            outputs = self._outputs(candidate)
        except CannotTuneError:
            raise
        except LaunchRefusedError as error:
            self.first_error = self.first_error or error
            return self._trial(candidate, "over_limit", error.message)
        except Exception as error:  # noqa: BLE001 - whatever a configuration breaks on
            self.first_error = self.first_error or error
            return self._trial(candidate, "failed", reason_of(error))
        if not self.reference:
            self._compare_with(candidate.key, outputs)
        if self._checks.reference:  # it may leave out some of what is written
            now = {**self._launch.arguments, **self._pointees.tensors}
            outputs = {name: outputs.get(name, now[name]) for name in self._expected}
        wrong = compare(self._expected, outputs, self._checks.rtol)
        return self._trial(candidate, "wrong" if wrong else "ok", wrong or self._incomparable)

    def _compare_with(self, reference: str, outputs: Mapping[str, Any]) -> None:
        self.reference, self._expected = reference, outputs
        self._incomparable = incomparable(outputs)

    def _trial(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        return Trial(
            values=candidate.values,
            status=status,
            reason=reason,
            reference=self.reference,
            checks=str(self._checks),
        )

    def measure(self, candidate: Candidate, trial: Trial) -> Trial:
        """Adds to the trial of a verified configuration what it costs."""
        samples = self._samples(candidate)
        if math.isinf(max(samples)):
            return replace(trial, status="failed", reason="do_bench found no time that is finite")
        return replace(trial, samples=tuple(samples))

    def _samples(self, candidate: Candidate) -> list[float]:
        """Seconds of a verified configuration, by the kernel's own function if it has one."""
        if self._timing.do_bench is None:
            return self._sample(candidate)
        self.restore()
        self._clock.expect(self._launch.kernel, self._pointees)
        try:
            return self._timing.asked(lambda: self._launch.run(candidate.config))
        finally:
            self._clock.take()

    def _sample(self, candidate: Candidate) -> list[float]:
        """Times a verified configuration some times, in seconds."""
        warmup, rep = self._timing.warmup or 0.0, self._timing.rep
        before: list[float] = []
        while len(before) < MOST_SAMPLES_ASKED and sum(before) < warmup * 1e-3:
            before.append(self.time(candidate))
        # As many launches as fill the time asked for, up to a limit for short ones.
        most = MOST_SAMPLES if rep is None else MOST_SAMPLES_ASKED
        wanted = SAMPLING_SECONDS if rep is None else rep * 1e-3
        samples: list[float] = []
        while len(samples) < FEWEST_SAMPLES or (len(samples) < most and sum(samples) < wanted):
            samples.append(self.time(candidate))
        return samples

    def time(self, candidate: Candidate) -> float:
        """Times a verified configuration once, in seconds; all but the launch is off the clock."""
        return self._observed(candidate)[0]

    def final(self, finalists: Sequence[Candidate], rounds: int = ROUNDS) -> dict[str, list[float]]:
        """Times configurations interleaved, so that none has the machine's better moments.

        Args:
            finalists: to compare.
            rounds: how often; more than `ROUNDS` only as long as they take little.

        Returns:
            Samples by key; empty where more of them would add nothing, as where the kernel's own
            function has said all that it says.
        """
        if self._timing.do_bench is not None:
            return {}
        samples: dict[str, list[float]] = {each.key: [] for each in finalists}
        began = time.monotonic()
        for number in range(rounds):
            if number >= ROUNDS and time.monotonic() - began > MORE_ROUNDS_S:
                break
            for each in finalists if number % 2 == 0 else reversed(finalists):
                samples[each.key] += self._round(each)
        return samples

    def _round(self, candidate: Candidate) -> list[float]:
        """Samples of a configuration for a round of the comparison."""
        return [self.time(candidate)]

    def _observed(self, candidate: Candidate) -> tuple[float, KernelLaunch | None]:
        """Seconds of a run on the memory that the launch found, and the kernel's last launch."""
        self.restore()
        self._clock.expect(self._launch.kernel, self._pointees)
        try:
            self._launch.run(candidate.config)
        finally:
            observed = self._clock.take()
        return observed

    def _outputs(self, candidate: Candidate) -> dict[str, Any]:
        _, last = self._observed(candidate)
        if last is None:
            raise CannotTuneError(f"`{self._launch.kernel}` launched nothing in a trial")
        return outputs_of(last, self._pointees, self._checks.scratch)

    def _defect(self, candidate: Candidate) -> str | None:
        """The first error that the sanitizer finds, and how many more."""
        self.restore()
        compiled = self._launch.compiled(candidate.config)
        require_known_writes(self._launch.kernel, compiled.asm["ttir"], self._pointees)
        self.restore()  # of what hooks did
        from ttools.sanitizer import sanitize

        with sanitize(only=[self._launch.kernel]) as checked:
            reached = self._pointees.tensors.values()
            for each in reached:
                each.data_ptr()  # so that the sanitizer knows of it
            checked.session.adopt([*self._launch.arguments.values(), *reached])
            self._launch.run(candidate.config)
        errors = [found for found in checked.findings if found.severity == "error"]
        if not errors:
            return None
        first = errors[0]
        where = f" at {first.location}" if first.location else ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"{first.check}: {first.message}{where}{more}"


def reason_of(error: Exception) -> str:
    """An exception in a line: Triton's and ours carry excerpts of source besides."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    if isinstance(error, TtoolsError):
        return lines[0]
    return f"{type(error).__name__}: {lines[-1]}"
