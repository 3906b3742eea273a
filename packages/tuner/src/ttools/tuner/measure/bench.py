"""Verification and timing of one launch in several configurations.

Each configuration runs on the memory contents that the launch started with; these are saved before
the first run and restored before every later run. Everything runs in this process, so a
configuration that crashes terminates the process. Therefore a bench normally runs in a worker
process, see `remote_bench`.
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
from ttools.tuner.measure.comparison import bit_equal, compare, incomparable
from ttools.tuner.measure.finalists import ROUNDS
from ttools.tuner.measure.outputs import CannotTuneError, outputs_of, require_known_writes
from ttools.tuner.measure.pointer_tables import Pointees, pointees_of
from ttools.tuner.measure.references import expected_outputs, load_reference
from ttools.tuner.measure.timing import timing_of
from ttools.tuner.measure.trial import Status, Trial
from ttools.tuner.space.candidate import Candidate

if TYPE_CHECKING:
    from ttools.interpreter.run.kernel_launch import KernelLaunch

#: Limits on the samples of a configuration: minimum number, maximum number, and total time in
#: seconds. Between the two numbers, samples are taken until they add up to `SAMPLING_SECONDS`.
FEWEST_SAMPLES, MOST_SAMPLES, SAMPLING_SECONDS = 3, 25, 0.05
#: Replaces `MOST_SAMPLES` if the decorator sets `rep`.
MOST_SAMPLES_ASKED = 1000
#: After this many seconds, the comparison of finalists starts no round beyond `ROUNDS`.
MORE_ROUNDS_S = 10.0


class Bench:
    """One launch that can be repeated in any configuration.

    Attributes:
        reference: Key of the configuration whose outputs all other configurations must reproduce;
            empty until a configuration has run.
        first_error: Exception of the first configuration that failed to run, or None.
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
        """The reason why launches could not be counted; empty if they were."""
        return self._clock.uncounted

    @cached_property
    def _before(self) -> SavedMemory:
        """The memory contents that the launch started with, saved on first access."""
        reached = self._pointees.tensors.values()
        return SavedMemory([*self._launch.arguments.values(), *reached], UninitialisedMemory())

    @cached_property
    def _pointees(self) -> Pointees:
        """The memory that the launch reaches through tables of addresses among its arguments."""
        return pointees_of(self._launch.arguments)

    def restore(self) -> None:
        self._before.restore()

    def facts(self) -> Mapping[str, StaticFacts | None]:
        """Return an empty mapping, because this bench compiles nothing ahead of time."""
        return {}

    def close(self) -> None:
        """Do nothing; subclasses release their resources here."""

    def make_ready(self) -> None:
        """Prepare the first attempt while another process is still compiling its configuration."""

    def is_device_lost(self) -> bool:
        """Return whether this process can run no further launches because it lost the device."""
        return False

    def compile(self, candidate: Candidate) -> StaticFacts | None:
        """Compile a configuration as the launch needs it, without launching it.

        Pre-hooks run, and the changes that they make to memory remain.

        Returns:
            Static facts for the cost model, or None on the CPU.

        Raises:
            Exception: Any exception that compiling the configuration raises.
        """
        self._clock.expect(self._launch.kernel, compile_only=True)
        try:
            self._launch.run(candidate.config)
        finally:
            self._clock.take()
        return None

    def establish(self, candidate: Candidate) -> None:
        """Verify a configuration and make it the reference, unless there is a reference already."""
        if not self.reference:
            self.verify(candidate)

    def attempts(
        self, candidates: Iterable[Candidate], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Verify and time configurations one after another.

        Args:
            stop: Called before each attempt; returns True to try no more configurations.

        Raises:
            CannotTuneError: The kernel cannot be tuned, whatever the configuration.
        """
        for candidate in candidates:
            if stop():
                return
            yield candidate, self.attempt(candidate)

    def attempt(self, candidate: Candidate) -> Trial:
        """Verify a configuration, and time it if it is correct.

        If an earlier configuration compiled to the same code and makes the same launch, return a
        copy of its trial instead.

        Raises:
            CannotTuneError: The kernel cannot be tuned, whatever the configuration.
        """
        code = self._code_of(candidate)
        earlier = None if code is None else self._by_code.get(code)
        if earlier is not None:
            return replace(earlier, values=candidate.values, same_as=earlier.key)
        trial = self.verify(candidate)
        if trial.status == "ok":
            trial = self.measure(candidate, trial)
        if code is not None:
            self._by_code[code] = trial
        return trial

    def _code_of(self, candidate: Candidate) -> str | None:
        """Return the configuration's `code_identity`, or None if it cannot be determined."""
        if not is_comparable(self._launch, candidate.config):
            return None
        try:
            compiled = self._launch.compiled(candidate.config)
        except Exception:  # noqa: BLE001 - running the configuration raises and reports it, too
            return None
        return code_identity(self._launch, candidate.config, self._code(candidate, compiled))

    def _code(self, candidate: Candidate, compiled: Any) -> Sequence[Any]:
        """Return the parts of a compiled kernel that determine what a launch of it does.

        On the CPU this is the TTIR alone, because launch options such as `num_warps` have no
        effect.
        """
        return [compiled.asm["ttir"]]

    def verify(self, candidate: Candidate) -> Trial:
        """Run a configuration once; the first one that succeeds becomes the reference.

        Raises:
            CannotTuneError: The kernel cannot be tuned, whatever the configuration.
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
        except Exception as error:  # noqa: BLE001 - user code and compilers may raise anything
            self.first_error = self.first_error or error
            return self._trial(candidate, "failed", reason_of(error))
        if not self.reference:
            self._compare_with(candidate.key, outputs)
        if self._checks.reference:  # the user's function need not return every output
            current = {**self._launch.arguments, **self._pointees.tensors}
            outputs = {name: outputs.get(name, current[name]) for name in self._expected}
        has_same_bits = bit_equal(self._expected, outputs)
        wrong = None if has_same_bits else compare(self._expected, outputs, self._checks.rtol)
        trial = self._trial(candidate, "wrong" if wrong else "ok", wrong or self._incomparable)
        return trial if self._checks.reference else replace(trial, bit_equal=has_same_bits)

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
        """Return the trial of a verified configuration with its timings added."""
        samples = self._samples(candidate)
        if math.isinf(max(samples)):
            return replace(trial, status="failed", reason="do_bench did not return a finite time")
        return replace(trial, samples=tuple(samples))

    def _samples(self, candidate: Candidate) -> list[float]:
        """Time a verified configuration in seconds, with the kernel's `do_bench` if it has one."""
        if self._timing.do_bench is None:
            return self._sample(candidate)
        self.restore()
        self._clock.expect(self._launch.kernel, self._pointees)
        try:
            return self._timing.asked(lambda: self._launch.run(candidate.config))
        finally:
            self._clock.take()

    def _sample(self, candidate: Candidate) -> list[float]:
        """Take several timing samples of a verified configuration, in seconds."""
        warmup, rep = self._timing.warmup or 0.0, self._timing.rep
        before: list[float] = []
        while len(before) < MOST_SAMPLES_ASKED and sum(before) < warmup * 1e-3:
            before.append(self.time(candidate))
        # Take as many samples as fit into the requested time; only for short launches is the number
        # limited by `most`.
        most = MOST_SAMPLES if rep is None else MOST_SAMPLES_ASKED
        wanted = SAMPLING_SECONDS if rep is None else rep * 1e-3
        samples: list[float] = []
        while len(samples) < FEWEST_SAMPLES or (len(samples) < most and sum(samples) < wanted):
            samples.append(self.time(candidate))
        return samples

    def time(self, candidate: Candidate) -> float:
        """Time a verified configuration once, in seconds; only the launch itself is timed."""
        return self._observed(candidate)[0]

    def final(self, finalists: Sequence[Candidate], rounds: int = ROUNDS) -> dict[str, list[float]]:
        """Time the finalists alternately, so that drift of the machine's speed affects all of them.

        Args:
            rounds: Number of rounds; rounds beyond `ROUNDS` run only within `MORE_ROUNDS_S`
                seconds.

        Returns:
            Samples in seconds by configuration key. Empty if the kernel has its own `do_bench`,
            because calling that function again would add no information.
        """
        if self._timing.do_bench is not None:
            return {}
        samples: dict[str, list[float]] = {finalist.key: [] for finalist in finalists}
        began = time.monotonic()
        for number in range(rounds):
            if number >= ROUNDS and time.monotonic() - began > MORE_ROUNDS_S:
                break
            for finalist in finalists if number % 2 == 0 else reversed(finalists):
                samples[finalist.key] += self._round(finalist)
        return samples

    def _round(self, candidate: Candidate) -> list[float]:
        """Return the timing samples of a configuration for one round of the comparison."""
        return [self.time(candidate)]

    def _observed(self, candidate: Candidate) -> tuple[float, KernelLaunch | None]:
        """Run a candidate on restored memory; return the seconds and the kernel's last launch."""
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
        """Return the sanitizer's first error and the number of further errors; None if none."""
        self.restore()
        compiled = self._launch.compiled(candidate.config)
        require_known_writes(self._launch.kernel, compiled.asm["ttir"], self._pointees)
        self.restore()  # pre-hooks ran during compilation and may have changed memory
        from ttools.sanitizer import sanitize

        with sanitize(only=[self._launch.kernel]) as checked:
            reached = self._pointees.tensors.values()
            for tensor in reached:
                tensor.data_ptr()  # the sanitizer registers a tensor when its address is read
            checked.session.adopt([*self._launch.arguments.values(), *reached])
            self._launch.run(candidate.config)
        errors = [finding for finding in checked.findings if finding.severity == "error"]
        if not errors:
            return None
        first = errors[0]
        where = f" at {first.location}" if first.location else ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"{first.check}: {first.message}{where}{more}"


def reason_of(error: Exception) -> str:
    """Return an exception as one line, without the source excerpts of Triton and ttools."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    if isinstance(error, TtoolsError):
        return lines[0]
    return f"{type(error).__name__}: {lines[-1]}"
