"""The tuning of one problem: from a space and stored trials to a winner."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ttools.core.reports.notebook import Part
from ttools.core.reports.result import Result
from ttools.tuner.measure.bench import Bench
from ttools.tuner.measure.finalists import finalists, winner
from ttools.tuner.measure.reproducible import BitClasses
from ttools.tuner.measure.trial import Trial
from ttools.tuner.options import MOST, TuneOptions
from ttools.tuner.search.guided import Hint, Known, no_hint
from ttools.tuner.search.regret import regret_bound
from ttools.tuner.search.strategies import read_strategy
from ttools.tuner.space.candidate import Candidate
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry
from ttools.tuner.workers.remote_bench import RemoteBench

Save = Callable[[Trial], None]
#: If a launch takes at most this many seconds, all configurations that are compiled ahead are
#: timed, because waiting for all compilations and then choosing would take as long.
_SHORT_S = 5e-3
#: A bench that runs configurations in this process, or one that runs them in workers.
AnyBench = Bench | RemoteBench


@dataclass(kw_only=True)
class TuningResult(Result):
    """The results of a problem, filled in while it is tuned; passed if there is a winner.

    Attributes:
        problem: The kernel, key and device.
        space: Number of candidates in the space.
        location: File and line of the kernel.
        trials: Trials by configuration key, including stored trials, in the order of the search.
        new: Keys of the configurations that were tried in this run.
        winner: The winning configuration, or None.
        final: Samples in seconds of the last comparison of finalists, by key.
        reference: Key of the configuration with whose outputs the others were compared.
        complete: True if the search was not interrupted.
        notes: Notes for the user.
        bound: Percentage by which, with confidence, the best configuration found may be slower than
            the best of the space; None if `within` was not requested.
        present: Key of the configuration that was in use before; None if unknown.
        constants: Integer arguments of the launch by name.
        bit_classes: Which configurations give equal bits; None if this was not requested.
    """

    problem: Problem
    space: int
    location: tuple[str, int]
    trials: dict[str, Trial] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    winner: Candidate | None = None
    final: dict[str, list[float]] = field(default_factory=dict)
    reference: str = ""
    complete: bool = False
    notes: list[str] = field(default_factory=list)
    bound: float | None = None
    present: str | None = None
    constants: Mapping[str, int] = field(default_factory=dict)
    bit_classes: BitClasses | None = None

    @property
    def failures(self) -> list[Trial]:
        """All trials, with reasons, if none of them can win; otherwise empty."""
        return [] if self.winner else list(self.trials.values())

    @property
    def passed(self) -> bool:
        """True if there is a winner."""
        return self.winner is not None

    def _formats(self) -> Mapping[str, Callable[[], str]]:
        from ttools.tuner.report.formats import formats_of

        return {**super()._formats(), **formats_of([self.entry()], self.notes)}

    def _shown(self) -> Iterator[Part]:
        from ttools.tuner.report.notebook import shown_tuning

        return shown_tuning(self.entry(), self.space, self.notes)

    def entry(self) -> TuningEntry:
        return TuningEntry(
            problem=self.problem,
            trials=list(self.trials.values()),
            winner=self.winner.key if self.winner else None,
            final=self.final,
            complete=self.complete,
            location=self.location,
            present=self.present,
            constants=self.constants,
            bit_classes=self.bit_classes,
        )


class Tuning:
    """Tunes one problem.

    Args:
        result: Receives results as tuning proceeds, so that an interruption loses nothing.
        space: All candidates of the space.
        bench: Runs the configurations, in this process or in workers.
        options: Options of the search, and limits of its duration.
        known: Stored results of the problem.
        save: Called with each new trial.
        others: Costs of the candidates for other keys, nearest key first.
        hint: Function that returns cost estimates from compiled code.
    """

    def __init__(
        self,
        result: TuningResult,
        space: Sequence[Candidate],
        bench: AnyBench,
        options: TuneOptions,
        known: TuningEntry,
        save: Save,
        others: Sequence[Known] = (),
        hint: Hint = no_hint,
    ) -> None:
        self._result, self._space, self._bench = result, space, bench
        self._options, self._save = options, save
        self._stored, self._others, self._hint = known, others, hint
        self._known: Mapping[str, Trial] = {} if options.fresh else self._usable(known)
        self._by_key = {candidate.key: candidate for candidate in space}
        references = (trial.reference for trial in self._known.values())
        result.reference = next((key for key in references if key in self._by_key), "")
        self._began = time.monotonic()
        self._sweeps = False
        self._run = 0
        #: Number of trials before the first configuration that ran, and how many of these trials
        #: were not shared. These trials do not count towards the budget of a level of effort.
        self._vain = self._vain_run = 0

    def recall(self) -> bool:
        """Take all results from the store, without the bench; return whether the store has them."""
        usable, result = self._known, self._result
        if not (self._options.by_effort and self._stored.complete):
            return False
        stored = [usable[candidate.key] for candidate in self._space if candidate.key in usable]
        own = sum(not trial.same_as for trial in stored)
        size = len(self._space)
        if len(stored) < size and not self._options.is_enough(size, own):
            return False
        for trial in stored:
            self._add(trial)
        result.winner = self._best()
        if result.winner is None or not self._settled():
            result.trials.clear()
            result.winner = None
            return False
        result.complete = True
        self._warn()
        return True

    def run(self) -> None:
        """Try candidates until the budget is spent, then compare the best ones alternately."""
        try:
            self._search()
            self._result.complete = True
        finally:
            self._keep_winner()
            # An interrupted run also reports the best configuration so far.
            self._result.winner = self._best()
        if self._result.new or not self._settled():
            self._compare_finalists()
        self._warn()

    # ---- the search
    def _search(self) -> None:
        for candidate in self._space:  # the first candidate that runs becomes the reference
            if self._exhausted() or self._costs([candidate])[0] is not None:
                break
        self._sweeps = self._may_sweep()
        if self._sweeps:
            self._costs(self._space)
            return
        if self._options.tries_all(len(self._space)):
            self._costs(self._space)
            return
        strategy = read_strategy(self._options.search)
        search = strategy(self._space, self._options.seed, self._others, self._hint)
        try:
            batch = next(search)
            while True:
                costs = self._costs(batch)
                if any(candidate.key not in self._result.trials for candidate in batch):
                    return  # the budget is spent
                if self._is_near_enough():
                    return
                batch = search.send(costs)
        except StopIteration:
            return

    def _may_sweep(self) -> bool:
        """Return whether to try all configurations: launches are short, and all are precompiled."""
        costs = [trial.cost for trial in self._result.trials.values() if trial.cost is not None]
        if not (self._options.may_sweep and costs and isinstance(self._bench, RemoteBench)):
            return False
        tried = {*self._known, *self._result.trials}
        untried = [candidate for candidate in self._space if candidate.key not in tried]
        return costs[0] <= _SHORT_S and (self._stored.complete or self._bench.can_sweep(untried))

    def _exhausted(self) -> bool:
        return self._out_of_time() or self._left() <= 0

    def _left(self) -> int:
        """Return how many configurations may still be run; shared trials cost nothing."""
        size = len(self._space)
        if self._sweeps:
            return size - self._run
        shared = self._options.most_shared(size) - len(self._result.trials) + self._vain
        return min(self._options.budget(size) - self._run + self._vain_run, shared)

    def _out_of_time(self) -> bool:
        seconds = self._options.seconds
        begun = bool(self._result.trials)
        return begun and seconds is not None and time.monotonic() - self._began >= seconds

    def _is_near_enough(self) -> bool:
        if self._options.within is None:
            return False
        costs = {candidate.key: cost for candidate, cost in self._timed()}
        bound = 100 * regret_bound(self._space, costs, len(self._result.trials))
        self._result.bound = bound if math.isfinite(bound) else None
        return bound <= self._options.within

    # ---- trials
    def _costs(self, batch: Sequence[Candidate]) -> list[float | None]:
        """Try candidates, and return their costs; candidates beyond the budget get no trial."""
        trials = self._result.trials
        new: list[Candidate] = []
        for candidate in batch:
            stored = self._known.get(candidate.key)
            if candidate.key in trials:
                continue
            if stored is None:
                new.append(candidate)
            elif not self._exhausted():
                self._add(stored)
        while new and not self._exhausted():
            left = self._left()
            self._attempt(new[:left])
            new = new[left:]
        return [trials[c.key].cost if c.key in trials else None for c in batch]

    def _attempt(self, candidates: Sequence[Candidate]) -> None:
        reference = self._by_key.get(self._result.reference)
        if reference is not None:  # stored trials were compared with it
            self._bench.establish(reference)
        for _, measured in self._measured(candidates):
            trial = self._with_predicted_bits(measured)
            self._result.new.add(trial.key)
            self._add(trial)
            if trial.status != "killed":  # the configuration may not be the cause
                self._save(trial)

    def _with_predicted_bits(self, trial: Trial) -> Trial:
        """Return a trial, which cannot win if its outputs on a GPU contradict predicted bits."""
        classes = self._result.bit_classes
        on_gpu = self._result.problem.device.startswith("cuda:")
        if classes is None or not on_gpu or trial.bit_equal is not False or not trial.reference:
            return trial
        if trial.reference not in classes.equal_to(trial.key):
            return trial
        reason = "its bits differ from those of the first configuration, against the prediction"
        return replace(trial, status="wrong", reason=reason)

    def _measured(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Trial]]:
        bench = self._bench
        if self._sweeps and isinstance(bench, RemoteBench) and bench.can_sweep(candidates):
            return bench.sweep(candidates, self._out_of_time)
        return self._bench.attempts(candidates, self._out_of_time)

    def _keep_winner(self) -> None:
        """Add the stored winner if the search left it out, which a smaller budget may cause."""
        stored = self._known.get(self._stored.winner or "")
        left_out = stored is not None and stored.key not in self._result.trials
        if stored is not None and left_out and stored.key in self._by_key:
            self._add(stored)

    def _add(self, trial: Trial) -> None:
        self._run += not trial.same_as
        self._result.trials[trial.key] = trial
        if self._options.by_effort and self._vain < MOST and not self._timed():
            self._vain += 1
            self._vain_run += not trial.same_as
        self._result.reference = self._result.reference or trial.reference

    def _usable(self, known: TuningEntry) -> dict[str, Trial]:
        """Return stored trials that were verified at least as strictly as is now required.

        The result is empty if no configuration could win: this may be due to a fault of the launch,
        such as a grid that raised an exception, and the launch is not part of the problem's
        identity.
        """
        checks = self._options.checks
        accepted = {str(checks), str(replace(checks, sanitize=True))}
        usable = {trial.key: trial for trial in known.trials if trial.checks in accepted}
        return usable if any(trial.status == "ok" for trial in usable.values()) else {}

    # ---- the winner
    def _timed(self) -> list[tuple[Candidate, float]]:
        return [
            (self._by_key[key], trial.cost)
            for key, trial in self._result.trials.items()
            if trial.cost is not None
        ]

    def _distinct(self) -> list[tuple[Candidate, float]]:
        """Return one configuration per distinct launch: the one with the lowest resource use."""
        by_launch: dict[str, tuple[Candidate, float]] = {}
        for candidate, cost in sorted(self._timed(), key=lambda pair: pair[0].resource_use):
            key = self._result.trials[candidate.key].same_as or candidate.key
            by_launch.setdefault(key, (candidate, cost))
        return list(by_launch.values())

    def _best(self) -> Candidate | None:
        timed = self._timed()
        return min(timed, key=lambda pair: (pair[1], pair[0].index))[0] if timed else None

    def _settled(self) -> bool:
        """Return whether the stored winner still wins, in which case nothing is measured."""
        stored = self._by_key.get(self._stored.winner or "")
        if stored is None or not self._stored.final or stored.key not in self._result.trials:
            return False
        if self._result.trials[stored.key].status != "ok":
            return False
        self._result.winner, self._result.final = stored, self._stored.final
        return True

    def _compare_finalists(self) -> None:
        timed = self._distinct()
        if not timed:
            return
        chosen = finalists(timed)
        if len(chosen) > 1:
            self._result.final = self._bench.final(chosen, self._options.rounds)
            costs = {candidate.key: [cost] for candidate, cost in timed} | self._result.final
            rows = [(candidate, costs[candidate.key]) for candidate in chosen]
            self._result.winner = winner(rows)
        else:
            self._result.winner = chosen[0]
            self._result.final = {chosen[0].key: list(self._result.trials[chosen[0].key].samples)}

    def _warn(self) -> None:
        doubts = (t.reason for t in self._result.trials.values() if t.status == "ok" and t.reason)
        doubt = next(doubts, None)
        if doubt is not None:
            self._result.notes.append(
                f"{doubt}, for every configuration, so comparing outputs shows nothing; check "
                "whether the launch receives the intended inputs"
            )
        others = [t for key, t in self._result.trials.items() if key != self._result.reference]
        if len(others) > 1 and all(trial.status == "wrong" for trial in others):
            self._result.notes.append(
                "the outputs of every other configuration differ from those of the reference, "
                "which is the first configuration that ran; check whether the reference is correct"
            )
