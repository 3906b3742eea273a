"""Maps findings of the sanitizer to classes of failures."""

from __future__ import annotations

from typing import Any

from ttools.verifier.oracle.comparison import Mismatch

MEMORY = frozenset(
    [
        "oob_load",
        "oob_store",
        "oob_atomic",
        "oob_gather",
        "view_oob",
        "misaligned",
        "bad_descriptor",
        "use_after_free",
        "bad_hint",
        "int_overflow",
    ]
)
RACES = frozenset(["race", "overlapping_store", "deadlock", "divergent_barrier"])
#: A warning of the sanitizer, because the compiler may assign both accesses to one thread. A
#: correct kernel does not depend on that.
_MISSING_BARRIER = "intra_program_race"


def of_findings(findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Return the failures among findings that do not depend on the results."""
    problems = []
    for finding in findings:
        where = f" ({finding['where']})" if finding["where"] else ""
        detail = f"{finding['message']}{where}"
        if finding["kind"] == "not_restored":
            # The sanitizer only warns, because a script may restore the argument itself. On a GPU,
            # the result of the first call would contain the effects of all timed launches.
            problems.append(Mismatch("stale_state", detail))
        if finding["kind"] == _MISSING_BARRIER and finding["severity"] != "note":
            problems.append(Mismatch("race", detail, {"checks": [_MISSING_BARRIER]}))
        if finding["severity"] != "error":
            continue
        if finding["kind"] in MEMORY:
            problems.append(Mismatch("memory", detail, {"checks": sorted(MEMORY)}))
        elif finding["kind"] in RACES:
            problems.append(Mismatch("race", detail, {"checks": sorted(RACES)}))
        elif finding["kind"] == "timeout":
            problems.append(Mismatch("exception", detail))
    return problems


def explained(wrong: list[Mismatch], findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Return findings that are failures only if values are wrong: uninitialised memory."""
    if not any(mismatch.failure in ("wrong_values", "unwritten") for mismatch in wrong):
        return []
    problems = []
    for finding in findings:
        where = f" ({finding['where']})" if finding["where"] else ""
        if finding["kind"] in ("uninit_read", "unwritten_output"):
            problems.append(Mismatch("unwritten", f"{finding['message']}{where}"))
    return problems


def of_doubtful(findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Return races and uninitialised memory of any severity.

    A kernel with such findings cannot show a defect of the compiler.
    """
    classes = {"uninit_read": "unwritten", "unwritten_output": "unwritten"}
    classes |= dict.fromkeys(RACES | {_MISSING_BARRIER}, "race")
    return [
        Mismatch(classes[finding["kind"]], finding["message"])
        for finding in findings
        if finding["kind"] in classes
    ]
