"""What a verification found, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = "ttools.verification/1"
Verdict = Literal["pass", "fail", "inconclusive"]
#: The classes of failures; the likely cause of others comes first.
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
#: What no run here can judge.
NOT_JUDGED = (
    "speed: nothing was timed",
    "what only a GPU does: its compiler's code, its memory model, its rounding of tf32 products",
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One way in which the candidate fails, at the plainest inputs that were found.

    Attributes:
        failure: of `CLASSES`.
        detail: a sentence.
        sizes: the sizes passed to `inputs`.
        dtype: passed to `inputs`; empty where it takes none.
        choices: other parameters of `inputs`.
        seed: of the inputs.
        values: special values that were put in, `drawn` for none.
        values_of: the same by argument, for those that have others.
        views: by argument, how it lay in memory.
        shared: two arguments that were one tensor.
        only_grad: the only argument of which a gradient was asked for; empty for all.
        config: number of the autotuner's configuration.
        after: what was called before, the same as here for each call.
        where: the line of the user's concerned.
        issue: a text for an issue, where the compiler or the hardware is wrong.
        test: the file that shows the failure, if one was written.
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
    config: int | None = None
    after: tuple[dict[str, Any], ...] = ()
    where: str = ""
    issue: str = ""
    test: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        fields = asdict(self)
        return {"class": fields.pop("failure"), **fields, "after": list(self.after)}


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What was repeated in a process that never imports the candidate.

    Attributes:
        verified: Whether what the candidate launched was right, without the candidate, in each
            case, on inputs that it never saw wherever those were needed.
        cases: Number of cases that were repeated.
        unseen: Number of those that were repeated on inputs that the candidate never saw.
        reasons: Why cases were not repeated, or only on inputs that the candidate saw.
    """

    verified: bool = False
    cases: int = 0
    unseen: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of a run.

    Attributes:
        verdict: `pass`: every case was right. `fail`: there are failures. `inconclusive`: neither.
        failures: at most one of each class.
        covered: what was tried: counts by kind of case.
        notes: what the user should know: what could not be judged, and why.
        replay: What was repeated without the candidate; a pass without it is weaker.
        seconds: how long it took.
    """

    verdict: Verdict
    failures: tuple[Failure, ...]
    covered: dict[str, Any]
    notes: tuple[str, ...] = ()
    replay: Replay = Replay()
    seconds: float = 0.0

    @property
    def not_judged(self) -> tuple[str, ...]:
        """What such a run cannot judge."""
        return NOT_JUDGED[:1] if "gpu" in self.covered else NOT_JUDGED

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "failures": [failure.as_dict() for failure in self.failures],
            "covered": self.covered,
            "notes": list(self.notes),
            "replay": {**asdict(self.replay), "reasons": list(self.replay.reasons)},
            "not_judged": list(self.not_judged),
            "seconds": round(self.seconds, 3),
        }

    @staticmethod
    def of_dict(data: dict[str, Any]) -> Verification:
        """What `as_dict` gave."""
        failures = []
        for failure in data["failures"]:
            fields = {key: value for key, value in failure.items() if key != "class"}
            fields["after"] = tuple(fields["after"])
            fields["shared"] = tuple(fields["shared"]) if fields.get("shared") else None
            failures.append(Failure(failure=failure["class"], **fields))
        return Verification(
            verdict=data["verdict"],
            failures=tuple(failures),
            covered=data["covered"],
            notes=tuple(data["notes"]),
            replay=_replay_of(data.get("replay", {})),
            seconds=data["seconds"],
        )


def _replay_of(data: dict[str, Any]) -> Replay:
    return Replay(**{**data, "reasons": tuple(data.get("reasons", ()))})
