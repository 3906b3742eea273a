"""The verdict on a function that was compared with a reference, over the cases that were tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Statement:
    """A statement about what was tried, proved or left out, with its reasons or details."""

    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CasesVerdict:
    """The verdict on one function.

    Attributes:
        function: Name of the function.
        verdict: The verdict, in the words that all commands use.
        conclusion: The verdict as a sentence.
        reason: Reason for an unknown verdict, or what weakens a pass; empty if there is neither.
        tried: Number of cases that were tried.
        kinds: Number of cases of each kind, with descriptions such as `with special values`.
        statements: What was examined besides the cases, and what was not.
        seconds: Duration of the run in seconds.
    """

    function: str
    verdict: Literal["passed", "failed", "unknown"]
    conclusion: str
    reason: str = ""
    tried: int = 0
    kinds: tuple[tuple[str, int], ...] = ()
    statements: tuple[Statement, ...] = ()
    seconds: float = 0.0
