"""Cases whose launches are not checked completely do not contribute to a verdict."""

from __future__ import annotations

from pathlib import Path

from ttools.verifier.options import VerifyOptions
from ttools.verifier.serving import verify_here

FILE = Path(__file__).parent / "kernels_for_verify.py"
#: Makes the time limit of an analysis expire before it starts.
LATE = """
from ttools.core.process.phases import current_work, tick
from ttools.sanitizer.checks import racecheck

near = racecheck.near_accesses

def late(monitor):
    current_work().phase.deadline = 0.0
    tick()
    return near(monitor)

def candidate(x):
    racecheck.near_accesses = late
    return right(x)
"""


def test_an_analysis_that_is_stopped_decides_no_verdict(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text(FILE.read_text("utf-8") + LATE)
    subject = {name: f"{file}:{name}" for name in ("candidate", "reference", "inputs")}
    verification = verify_here(subject, VerifyOptions(cases=2, all_sizes_seconds=0))
    assert (verification.verdict, verification.failures) == ("inconclusive", ())
    assert any(
        "race analysis of launch 1 of kernel `sum_kernel` was stopped" in n
        for n in verification.notes
    )
