"""Which class of failure a finding of the sanitizer is."""

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
#: A warning of the sanitizer, since the compiler may happen to give both accesses to one thread. A
#: kernel that is right by such luck is not right.
_MISSING_BARRIER = "intra_program_race"


def of_findings(findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Findings that are failures by themselves."""
    problems = []
    for each in findings:
        where = f" ({each['where']})" if each["where"] else ""
        detail = f"{each['message']}{where}"
        if each["kind"] == "not_restored":
            # A warning, as the script may put it back; here results are judged, and on a GPU those
            # of a first call are what is left of the launches that were timed.
            problems.append(Mismatch("stale_state", detail))
        if each["kind"] == _MISSING_BARRIER and each["severity"] != "note":
            problems.append(Mismatch("race", detail, {"checks": [_MISSING_BARRIER]}))
        if each["severity"] != "error":
            continue
        if each["kind"] in MEMORY:
            problems.append(Mismatch("memory", detail, {"checks": sorted(MEMORY)}))
        elif each["kind"] in RACES:
            problems.append(Mismatch("race", detail, {"checks": sorted(RACES)}))
        elif each["kind"] == "timeout":
            problems.append(Mismatch("exception", detail))
    return problems


def explained(wrong: list[Mismatch], findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Findings that are no failures by themselves, but where values are wrong."""
    if not any(each.failure in ("wrong_values", "unwritten") for each in wrong):
        return []
    problems = []
    for each in findings:
        where = f" ({each['where']})" if each["where"] else ""
        if each["kind"] in ("uninit_read", "unwritten_output"):
            problems.append(Mismatch("unwritten", f"{each['message']}{where}"))
    return problems


def of_doubtful(findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Races and uninitialised memory of any severity: with them, no result is the compiler's."""
    classes = {"uninit_read": "unwritten", "unwritten_output": "unwritten"}
    classes |= dict.fromkeys(RACES | {_MISSING_BARRIER}, "race")
    return [
        Mismatch(classes[each["kind"]], each["message"])
        for each in findings
        if each["kind"] in classes
    ]
