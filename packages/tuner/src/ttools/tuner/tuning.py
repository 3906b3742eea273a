"""Tunes one problem: which candidates are tried, what is known of them, which one wins.

Owns the way from a space to a winner. Must not know how a launch is captured nor how a run or a
store work inside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ttools.core.reports.notebook import Part, ShowsItself
from ttools.tuner.measure.bench import Bench
from ttools.tuner.measure.finalists import finalists, winner
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
#: Of launches as long as this and shorter, all configurations are timed that are compiled anyway:
#: that takes no longer than to wait for all of it and to choose.
_SHORT_S = 5e-3
#: What runs configurations, here or elsewhere.
AnyBench = Bench | RemoteBench


@dataclass(kw_only=True)
class TuningResult(ShowsItself):
    """What came of a problem; filled while it is tuned.

    Attributes:
        problem: the kernel, key and device.
        space: how many candidates there are.
        location: file and line of the kernel.
        trials: by key of the configuration, known ones included, in the order of the search.
        new: keys of those that were tried in this run.
        final: samples of the last interleaved comparison, by key.
        reference: key of the configuration that outputs were compared with.
        complete: whether the search ended by itself.
        notes: what the user should know.
        bound: by so many percent may the best one found be slower than the best of all, with
            confidence; None if that was not asked.
        present: key of the configuration that was in use before; None if that is unknown.
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

    def _shown(self) -> Iterator[Part]:
        from ttools.tuner.report.shown import shown_tuning

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
        )


class Tuning:
    """The tuning of one problem.

    Args:
        result: filled as it goes on, so that nothing is lost when it is interrupted.
        options: what is tried, and for how long.
        known: what the store has of the problem.
        save: takes each new trial.
        others: what is known of the candidates for other keys, the nearest first.
        hint: what compiling them lets expect.
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
        self._by_key = {each.key: each for each in space}
        references = (each.reference for each in self._known.values())
        result.reference = next((key for key in references if key in self._by_key), "")
        self._began = time.monotonic()
        self._sweeps = False
        self._run = 0
        #: What came before the first that ran, of trials and of those that share none: a level of
        #: effort does not count it.
        self._vain = self._vain_run = 0

    def recall(self) -> bool:
        """Takes all from the store, without asking the bench; whether that has all."""
        known, result = self._known, self._result
        if not (self._options.by_effort and self._stored.complete):
            return False
        stored = [known[each.key] for each in self._space if each.key in known]
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
        """Tries candidates as long as the budget lasts, then compares the best, interleaved."""
        try:
            self._search()
            self._result.complete = True
        finally:
            self._keep_winner()
            # Also of an interrupted run: it has the best of what was found.
            self._result.winner = self._best()
        if self._result.new or not self._settled():
            self._compare_finalists()
        self._warn()

    # ---- which
    def _search(self) -> None:
        for candidate in self._space:  # the first that runs is the reference
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
                if any(each.key not in self._result.trials for each in batch):
                    return  # the budget is spent
                if self._is_near_enough():
                    return
                batch = search.send(costs)
        except StopIteration:
            return

    def _may_sweep(self) -> bool:
        """Whether all are tried: launches are short, and all is being compiled."""
        costs = [trial.cost for trial in self._result.trials.values() if trial.cost is not None]
        if not (self._options.may_sweep and costs and isinstance(self._bench, RemoteBench)):
            return False
        known = {*self._known, *self._result.trials}
        untried = [each for each in self._space if each.key not in known]
        return costs[0] <= _SHORT_S and (self._stored.complete or self._bench.can_sweep(untried))

    def _exhausted(self) -> bool:
        return self._out_of_time() or self._left() <= 0

    def _left(self) -> int:
        """How many configurations may still be run; those that share a trial cost none."""
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
        costs = {each.key: cost for each, cost in self._timed()}
        bound = 100 * regret_bound(self._space, costs, len(self._result.trials))
        self._result.bound = bound if math.isfinite(bound) else None
        return bound <= self._options.within

    # ---- some of them
    def _costs(self, batch: Sequence[Candidate]) -> list[float | None]:
        """What each of them costs; those that the budget leaves out are not among the trials."""
        trials = self._result.trials
        new: list[Candidate] = []
        for candidate in batch:
            known = self._known.get(candidate.key)
            if candidate.key in trials:
                continue
            if known is None:
                new.append(candidate)
            elif not self._exhausted():
                self._add(known)
        while new and not self._exhausted():
            left = self._left()
            self._attempt(new[:left])
            new = new[left:]
        return [trials[each.key].cost if each.key in trials else None for each in batch]

    def _attempt(self, candidates: Sequence[Candidate]) -> None:
        reference = self._by_key.get(self._result.reference)
        if reference is not None:  # that known trials were compared with
            self._bench.establish(reference)
        for _, trial in self._measured(candidates):
            self._result.new.add(trial.key)
            self._add(trial)
            if trial.status != "killed":  # the configuration may be as good as any
                self._save(trial)

    def _measured(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Trial]]:
        bench = self._bench
        if self._sweeps and isinstance(bench, RemoteBench) and bench.can_sweep(candidates):
            return bench.sweep(candidates, self._out_of_time)
        return self._bench.attempts(candidates, self._out_of_time)

    def _keep_winner(self) -> None:
        """Adds the store's winner if the search left it out, as one with a smaller budget may."""
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
        """Stored trials that were checked as they would be now, or more strictly.

        None of them where nothing could win: the fault may have been the launch's, which is not
        part of the problem, as a grid that raised.
        """
        checks = self._options.checks
        accepted = {str(checks), str(replace(checks, sanitize=True))}
        found = {each.key: each for each in known.trials if each.checks in accepted}
        return found if any(each.status == "ok" for each in found.values()) else {}

    # ---- the best of them
    def _timed(self) -> list[tuple[Candidate, float]]:
        return [
            (self._by_key[key], trial.cost)
            for key, trial in self._result.trials.items()
            if trial.cost is not None
        ]

    def _distinct(self) -> list[tuple[Candidate, float]]:
        """One of each launch: that of the least resource use."""
        found: dict[str, tuple[Candidate, float]] = {}
        for each, cost in sorted(self._timed(), key=lambda pair: pair[0].resource_use):
            found.setdefault(self._result.trials[each.key].same_as or each.key, (each, cost))
        return list(found.values())

    def _best(self) -> Candidate | None:
        timed = self._timed()
        return min(timed, key=lambda pair: (pair[1], pair[0].index))[0] if timed else None

    def _settled(self) -> bool:
        """Whether the store's winner still is one; then nothing is measured."""
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
            costs = {each.key: [cost] for each, cost in timed} | self._result.final
            self._result.winner = winner([(each, costs[each.key]) for each in chosen])
        else:
            self._result.winner = chosen[0]
            self._result.final = {chosen[0].key: list(self._result.trials[chosen[0].key].samples)}

    def _warn(self) -> None:
        doubts = (t.reason for t in self._result.trials.values() if t.status == "ok" and t.reason)
        doubt = next(doubts, None)
        if doubt is not None:
            self._result.notes.append(
                f"{doubt}, whatever the configuration, so comparing them shows nothing: see "
                "whether the launch has the inputs it should"
            )
        others = [t for key, t in self._result.trials.items() if key != self._result.reference]
        if len(others) > 1 and all(trial.status == "wrong" for trial in others):
            self._result.notes.append(
                "every other configuration differs from the reference, which is the first that "
                "ran: see whether that one is right"
            )
