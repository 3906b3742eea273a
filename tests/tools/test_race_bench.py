"""Scores of labelled launches, and a run of the tool on a small corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.forked_python import PYTHON
from tools.race_bench import Row, classify, main, score

from ttools.core.findings.findings import Finding, Related
from ttools.core.location import SourceLocation

ROOT = Path(__file__).parent.parent.parent

SPEC = """
from types import SimpleNamespace
import torch, triton
import triton.language as tl

@triton.jit
def last_kernel(out_ptr, STEP: tl.constexpr, value):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid * STEP, pid + value)

def launch(name, step, expected):
    return SimpleNamespace(
        name=name, kernel_fn=last_kernel, constexprs={"STEP": step}, grid=(4,), expected=expected,
        race_pair=("tl.store(",) if expected == "race" else None,
        make_args=lambda seed: (torch.zeros(4, dtype=torch.int32), seed),
    )

CORPUS = SimpleNamespace(specs=[
    launch("same_yes", 0, "race"), launch("apart_no", 1, "race-free"), launch("open", 0, None),
    launch("broken", None, None),
    WRONG
])
"""


def finding(kind: str, line: int, other: int = 0, severity: str = "error") -> Finding:
    def place(at: int) -> SourceLocation:
        return SourceLocation(file="kernels.py", line=at, column=1)

    related = (Related(message="here", location=place(other)),) if other else ()
    return Finding(
        kind=kind,
        check="racecheck",
        severity=severity,  # type: ignore[arg-type]
        message="m",
        kernel="k",
        location=place(line),
        related=related,
    )


def test_kinds_between_programs_decide_and_notes_count() -> None:
    assert classify("a", "race", [finding("overlapping_store", 3, severity="note")]).right
    assert classify("a", "race-free", [finding("intra_program_race", 3, severity="warning")]).right
    assert not classify("a", "race-free", [finding("race", 3)]).right
    assert not classify("a", "race", []).right


def test_a_race_has_to_name_the_lines_of_the_pair() -> None:
    row = classify("a", "race", [finding("race", 3, other=7)], frozenset({3, 9}))
    assert (row.verdict, row.missing, row.right) == ("race", (9,), False)
    assert classify("a", "race", [finding("race", 3, other=9)], frozenset({3, 9})).right


def test_unsupported_launches_abstain_unless_a_race_is_found() -> None:
    unsupported = finding("unsupported", 1, severity="warning")
    assert classify("a", "race-free", [unsupported]).verdict == "abstains"
    assert classify("a", "race", [unsupported, finding("race", 2)]).verdict == "race"


@pytest.mark.parametrize(
    ("verdicts", "precision", "recall"),
    [
        ([("race", "race"), ("race-free", "race-free")], 1.0, 1.0),
        ([("race", "race"), ("race-free", "race"), (None, "race")], 0.5, 1.0),
        ([("race", "race"), ("race", "race-free"), ("race", "abstains")], 1.0, 1 / 3),
        ([], 1.0, 1.0),
    ],
)
def test_scores(verdicts: list[tuple[str | None, str]], precision: float, recall: float) -> None:
    total = score(Row(name="a", label=label, verdict=verdict) for label, verdict in verdicts)
    assert (total.precision, total.recall) == pytest.approx((precision, recall))
    assert total.abstained == sum(verdict == "abstains" for _, verdict in verdicts)


@pytest.mark.parametrize(
    ("wrong", "status"), [("", 0), ('launch("mislabelled", 0, "race-free")', 1)]
)
def test_the_tool_runs_a_corpus(tmp_path: Path, wrong: str, status: int) -> None:
    package = tmp_path / "evaluation" / "kernels"
    package.mkdir(parents=True)
    (package / "small.py").write_text(SPEC.replace("WRONG", wrong))
    words = ["-m", "tools.race_bench", "--checkout", str(tmp_path), "--corpus", "small"]
    result = PYTHON.run(words, cwd=ROOT)
    assert result.returncode == status, result.stderr
    assert "| same_yes | race | race | overlapping_store@9 |" in result.stdout
    assert "| open | not labelled | race |" in result.stdout
    assert "| broken | not labelled | abstains | CompilationError: " in result.stdout
    assert ("(wrong)" in result.stdout) == bool(status)
    expected = "precision 0.500, recall 1.000" if wrong else "precision 1.000, recall 1.000"
    assert result.stdout.rstrip().endswith(expected)


def test_a_folder_without_the_corpus_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--checkout", str(tmp_path), "--corpus", "nothing"])
    assert stopped.value.code == 2
    assert "has no corpus `nothing`" in capsys.readouterr().err
