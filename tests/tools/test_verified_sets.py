"""Sets of candidates of libraries, and the summary of their verifications."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools.harness import ROOT
from tools.libraries import verified

FILE = """
EXPECT = {"verdict": "fail", "classes": ["memory"]}
def inputs(N, seed): ...
def reference(x): ...
def candidate(x): ...
"""


def entry(name: str, verdict: str, *classes: str, **fields: Any) -> dict[str, Any]:
    failures = [{"class": failure, "detail": "wrong"} for failure in classes]
    replay = {"verified": verdict == "pass", "reasons": []}
    return {
        "set": "tests", "name": name, "label": {}, "verdict": verdict, "failures": failures,
        "reason": "", "replay": replay, "seconds": 2.0,
    } | fields  # fmt: skip


@pytest.mark.parametrize("name", verified.SETS)
def test_operators_of_sets_exist(name: str) -> None:
    operators = verified.SETS[name]
    texts = [
        (ROOT / file).read_text("utf-8")
        for file in (operators.file, operators.references or operators.file)
    ]
    for operator, inputs in operators.inputs.items():
        assert f"def {inputs}(" in texts[1]
        assert f"def {operator}{operators.suffix}(" in texts[1]
    assert operators.inputs.keys() >= verified.FINDINGS.get(name, {}).keys()


def test_files_of_a_folder_have_labels(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(FILE, "utf-8")
    (tmp_path / "other.py").write_text("x = 1", "utf-8")
    ((name, subject, label),) = verified.candidates(str(tmp_path))
    assert (name, label["verdict"]) == ("kernel", "fail")
    assert subject.inputs == f"{tmp_path.resolve() / 'kernel.py'}:inputs"


def test_verdicts_are_compared_with_labels_and_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(verified.FINDINGS, "tests", {"known": {"memory", "race"}})
    weaker = {"verified": False, "reasons": ["`inputs` does not take a seed"]}
    right = [
        entry("one", "pass"),
        entry("weak", "pass", replay=weaker, seconds=4.0),
        entry("known", "fail", "race"),
        entry("labelled", "fail", "layout", label={"verdict": "fail", "classes": ["layout"]}),
    ]
    wrong = [entry("new", "fail", "memory"), entry("late", "inconclusive", reason="too slow")]
    assert all(map(verified.is_right, right))
    assert not any(map(verified.is_right, [*wrong, entry("known", "pass")]))
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*right, *wrong]), "utf-8")
    assert verified.show([file]) == 1
    printed = capsys.readouterr().out
    assert "| all | 6 | 4 | 2 | 1 | 1 | 1 (50%) | 2.0 |" in printed
    assert "1 not replayed: `inputs` does not take a seed" in printed
    assert "not as expected: tests/new: fail, memory, 2.0 s" in printed
