"""Explains wrong values by the rounding errors of the candidate's kernels.

The case is repeated with the exact values of the check `accuracy` as the results of all launches.
If the results are then correct, rounding errors are the only reason of the failure. The case is
repeated once more, with the results of the kernels, to find the line at which these errors arise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ttools.core.reports.accuracy import ulps
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.run.trial import Trial

_ONLY_ROUNDING = "only rounding errors make the result wrong: with exact arithmetic it is correct"
_NOT_ROUNDING = (
    "rounding errors are not the reason: the result is also wrong if the kernels compute exactly"
)
#: Kinds of findings that can explain wrong values if rounding errors do not.
_OTHER_KINDS = ("padded_lanes", "nan", "inf", "overflow")
_WIDER = "keep values in float32 until the result is stored, also in tensors between launches"
#: An output whose error in ulp is smaller than this is as accurate as its type allows.
_ROUNDED = 1.0


def explained_by_rounding(problem: Mismatch, run: Callable[[str], Trial]) -> Mismatch:
    """Return a failure with a sentence on its rounding errors, and with the line that causes them.

    Args:
        problem: A failure of the class `wrong_values`.
        run: Repeats the case under the check `accuracy`: with the exact results of launches if the
            argument is `exact`, and with the results of the kernels if it is `measured`.
    """
    exact = run("exact")
    if not exact.accuracy or not exact.classes <= {"wrong_values"}:
        return problem
    if exact.classes:
        return _without_rounding(problem, exact.accuracy)
    trial = run("measured")
    if "wrong_values" not in trial.classes or not trial.accuracy:
        return problem
    for finding in trial.accuracy["findings"]:
        sentence = f"{_ONLY_ROUNDING}; {_in_line(finding['where'])}{finding['message']}"
        return _located(problem, sentence, finding["where"], finding["help"])
    return _without_finding(problem, trial.accuracy["outputs"])


def _without_rounding(problem: Mismatch, accuracy: dict[str, Any]) -> Mismatch:
    """Return the failure of a case that is still wrong if the results of launches are exact."""
    findings = accuracy["findings"]
    for finding in findings:
        if finding["kind"] in _OTHER_KINDS:
            return _located(problem, finding["message"], finding["where"], finding["help"])
    if accuracy["limits"] or findings:
        return problem
    return replace(problem, rounding=_NOT_ROUNDING)


def _without_finding(problem: Mismatch, outputs: list[dict[str, Any]]) -> Mismatch:
    """Return the failure of a case in which no launch has an error that is a finding."""
    if not outputs:
        return replace(problem, rounding=_ONLY_ROUNDING)
    worst = max(outputs, key=lambda output: float(output["ulps"]))
    error = f"{ulps(worst['ulps'])} of {worst['dtype']}"
    sentence = f"{_ONLY_ROUNDING}; the largest error of {worst['name']} is {error}"
    if worst["ulps"] <= _ROUNDED:
        sentence += ", so each launch is as accurate as the types of its outputs allow"
        return replace(problem, rounding=sentence, help=problem.help or _WIDER)
    if worst["where"]:
        sentence += f", and {worst['share']:.0%} of its errors arise in this line"
    return _located(problem, sentence, worst["where"], _WIDER)


def _in_line(where: str) -> str:
    """Return an introduction that names the line of `FILE:LINE:COLUMN`; empty if there is none."""
    parts = where.rsplit(":", 2)
    return f"the errors arise in line {parts[1]}: " if len(parts) == 3 else ""


def _located(problem: Mismatch, sentence: str, where: str, help_text: str) -> Mismatch:
    """Return the failure with a line, unless its line is known already."""
    if problem.where:
        return replace(problem, rounding=sentence)
    return replace(problem, rounding=sentence, where=where, help=problem.help or help_text)
