"""The result of a verification, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from ttools.core.reports.result import Result

SCHEMA = "ttools.verification/1"
Verdict = Literal["pass", "fail", "inconclusive"]
Outcome = Literal["passed", "failed", "unknown"]
#: For each verdict, the term for it that all commands of ttools use.
OUTCOMES: Mapping[Verdict, Outcome] = MappingProxyType(
    {"fail": "failed", "inconclusive": "unknown", "pass": "passed"}
)
#: The classes of failures; classes that are likely to cause other failures come first.
CLASSES = (
    "not_computed_by_kernel",
    "stale_state",
    "memory",
    "race",
    "unwritten",
    "nondeterministic",
    "input_modified",
    "layout",
    "exception",
    "wrong_values",
)
#: For each class of failures, the classes of failures that it can cause. If a kernel reads memory
#: that it should not read, this memory contains what other programs or earlier calls left there, so
#: results vary with both.
CONSEQUENCES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "memory": frozenset(
            ["stale_state", "unwritten", "nondeterministic", "input_modified", "wrong_values"]
        ),
        "race": frozenset(["stale_state", "nondeterministic", "wrong_values"]),
        "unwritten": frozenset(["stale_state", "nondeterministic", "wrong_values"]),
    }
)
#: Verdict for accesses at all sizes that were proved in a process of the candidate, which can
#: falsify this verdict.
CLAIMED = "claimed"
#: Aspects that a verification does not check; the report lists them.
NOT_JUDGED = (
    "speed: nothing was timed",
    "without --on gpu: the GPU's compiler and memory model, and the rounding of tf32 products",
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failure of the candidate, with the simplest inputs that show it.

    Attributes:
        failure: Class of the failure, one of `CLASSES`.
        detail: Description of the failure, as a clause.
        sizes: Sizes that were passed to `inputs`.
        dtype: Label of the parameter `dtype` of `inputs`; empty if there is none.
        choices: Labels of the other parameters of `inputs`.
        seed: Seed that was passed to `inputs`.
        values: Kind of special values; `drawn` for none.
        values_of: Kinds of values for single arguments that differ from `values`, by name.
        views: Memory layouts by argument.
        shared: Two arguments that were one tensor.
        only_grad: The only argument whose gradient was computed; empty if all gradients were
            computed.
        only_output: The only result from which gradients were computed; empty if they were computed
            from all results.
        passes: How often gradients were computed from one graph of operators: `once` or `twice`.
        config: Number of the autotuner's configuration.
        after: Sizes, choices, seed and values of each earlier call in the same process.
        where: Line of the user's code, as `file:line` or `file:line:column`.
        excerpt: Source of this line, with carets under the expression; empty if unknown.
        witness: Program and lane of a finding, and the values of variables there.
        condition: A clause that says for which sizes and parameters the failure occurs, found by
            changing those of the reduced inputs; empty if no simple condition is known.
        help: Advice that a finding gives.
        rounding: Sentence on whether rounding errors explain the failure; empty if unknown.
        consequence_of: Class of another failure that explains this one and, unlike this one, has a
            source line; empty if there is none.
        issue: Text for an issue if the compiler or the hardware is suspected.
        test: Path of the test file that shows the failure, if one was written.
    """

    failure: str
    detail: str
    sizes: dict[str, int]
    dtype: str = ""
    choices: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    values: str = "drawn"
    values_of: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    shared: tuple[str, str] | None = None
    only_grad: str = ""
    only_output: str = ""
    passes: str = "once"
    config: int | None = None
    after: tuple[dict[str, Any], ...] = ()
    where: str = ""
    excerpt: str = ""
    witness: str = ""
    condition: str = ""
    help: str = ""
    rounding: str = ""
    consequence_of: str = ""
    issue: str = ""
    test: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the failure as data for JSON."""
        fields = asdict(self)
        return {"class": fields.pop("failure"), **fields, "after": list(self.after)}


def ranked(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """Return failures in the order of `CLASSES`; failures that others explain come last.

    A failure with a source line explains every failure without a source line that it can cause.
    """
    ordered = sorted(failures, key=lambda failure: CLASSES.index(failure.failure))
    located = [failure.failure for failure in ordered if failure.where]

    def cause_of(failure: Failure) -> str:
        causes = (name for name in located if failure.failure in CONSEQUENCES.get(name, ()))
        return "" if failure.where else next(causes, "")

    marked = [replace(failure, consequence_of=cause_of(failure)) for failure in ordered]
    return tuple(sorted(marked, key=lambda failure: bool(failure.consequence_of)))


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Summary of the calls that were repeated in a process without the candidate.

    Attributes:
        verified: If True, the plan of each case gave correct results in a process without the
            candidate, and all plans could be executed on inputs that the candidate never saw.
        cases: Number of cases that were repeated.
        unseen: Number of cases that were repeated on inputs that the candidate never saw.
        reasons: Reasons why cases were not repeated, or were repeated only on inputs that the
            candidate saw.
        separate: False if the process that evaluates the reference has loaded the candidate's file,
            so that the candidate could have changed the reference.
        seed: The hidden seed, which determines random sizes and the inputs that the candidate never
            saw, even if replay is off; None if it is unknown.
    """

    verified: bool = False
    cases: int = 0
    unseen: int = 0
    reasons: tuple[str, ...] = ()
    separate: bool = True
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Verification(Result):
    """The result of a run; it passes if the verdict is `pass`.

    Attributes:
        verdict: `pass` if every case was correct, `fail` if there are failures, and `inconclusive`
            otherwise.
        reason: Reason of an inconclusive verdict, or what weakens a pass; empty if there is none.
        failures: Failures, at most one of each class; failures that others explain come last.
        warnings: Findings that are not failures, in the form of failures.
        covered: Number of cases by kind, and other data about the cases.
        notes: Notes for the user, such as reasons of an inconclusive verdict.
        replay: Summary of the verification by replay; a pass that was not verified by replay is
            weaker.
        seconds: Duration of the run in seconds.
        candidate: The candidate as `FILE.py:NAME`, for reports.
    """

    verdict: Verdict
    failures: tuple[Failure, ...]
    covered: dict[str, Any]
    reason: str = ""
    warnings: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    replay: Replay = Replay()
    seconds: float = 0.0
    candidate: str = "the candidate"

    @property
    def passed(self) -> bool:
        """True if every case was correct; False if there are failures or there is no verdict."""
        return self.verdict == "pass"

    @property
    def outcome(self) -> Outcome:
        """The verdict in the terms that all commands of ttools use, such as `passed`."""
        return OUTCOMES[self.verdict]

    @property
    def is_weaker(self) -> bool:
        """True for a pass that the candidate could have falsified, as it is not based on replay."""
        return self.passed and not self.replay.verified

    @property
    def not_judged(self) -> tuple[str, ...]:
        """Limits of the run: aspects of the candidate that the run does not check."""
        return NOT_JUDGED[:1] if "gpu" in self.covered else NOT_JUDGED

    def as_dict(self) -> dict[str, Any]:
        """Return the verification as data for JSON."""
        return {
            "schema": SCHEMA,
            "outcome": self.outcome,
            "verdict": self.verdict,  # the words of earlier releases
            "reason": self.reason,
            "weaker": self.is_weaker,
            "failures": [failure.as_dict() for failure in self.failures],
            "warnings": [warning.as_dict() for warning in self.warnings],
            "covered": self.covered,
            "notes": list(self.notes),
            "replay": {**asdict(self.replay), "reasons": list(self.replay.reasons)},
            "not_judged": list(self.not_judged),
            "seconds": round(self.seconds, 3),
        }

    @staticmethod
    def of_dict(data: dict[str, Any]) -> Verification:
        """Return the verification that `as_dict` described."""
        return Verification(
            verdict=data["verdict"],
            reason=data.get("reason", ""),
            failures=tuple(map(_failure_of, data["failures"])),
            warnings=tuple(map(_failure_of, data.get("warnings", ()))),
            covered=data["covered"],
            notes=tuple(data["notes"]),
            replay=_replay_of(data.get("replay", {})),
            seconds=data["seconds"],
        )


def _failure_of(data: dict[str, Any]) -> Failure:
    fields = {key: value for key, value in data.items() if key != "class"}
    fields["after"] = tuple(fields["after"])
    fields["shared"] = tuple(fields["shared"]) if fields.get("shared") else None
    return Failure(failure=data["class"], **fields)


def _replay_of(data: dict[str, Any]) -> Replay:
    return Replay(**{**data, "reasons": tuple(data.get("reasons", ()))})
