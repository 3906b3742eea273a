"""Written tests fail for the candidate with the failure, and pass for a correct one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.verifier.cases.tensors import laid_out
from ttools.verifier.judging.finding_classes import MEMORY, RACES
from ttools.verifier.report.written_tests import write_test
from ttools.verifier.result import Failure

FILE = Path(__file__).parent / "kernels_for_written_tests.py"
#: For each candidate: the class of the failure, its evidence, and whether the test needs ttools.
KINDS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "reads_outside": ("memory", {"checks": sorted(MEMORY)}, True),
    "races": ("race", {"checks": sorted(RACES)}, True),
    "last_wins": ("nondeterministic", {"order": ("reverse", 0)}, True),
    "asks_torch": ("not_computed_by_kernel", {"operator": ["add", 5]}, False),
    "needs_no_kernel": ("not_computed_by_kernel", {"launches": False}, False),
    "puts_back": ("input_modified", {"touched": True}, False),
    "writes_beside": ("memory", {}, False),
}


def written(name: str, folder: Path, of: str = "") -> Path:
    """Write the test for a kind of failure.

    Args:
        name: The kind, which is also the name of the candidate that fails.
        folder: Folder of the test.
        of: Name of another candidate to test.
    """
    failure, evidence, _ = KINDS[name]
    x = laid_out(torch.arange(9, dtype=torch.float32) + 1, "every_other")
    path = write_test(
        Failure(failure=failure, detail='says "why"', sizes={"N": 9}),
        evidence,
        [(False, {"x": x})],
        [],
        {"candidate": f"{FILE}:{of or name}", "reference": f"{FILE}:reference"},
        folder,
    )
    assert path is not None
    return Path(path)


@pytest.mark.parametrize("name", KINDS)
def test_tests_state_whether_they_need_ttools(name: str, tmp_path: Path) -> None:
    text = written(name, tmp_path).read_text("utf-8")
    compile(text, name, "exec")
    assert ("import ttools" in text or "from ttools" in text) == KINDS[name][2]
    assert "needs ttools" in text if KINDS[name][2] else "needs ttools" not in text
    assert "verifier" not in text.replace(str(FILE.parent), "")


def test_no_test_is_written_for_failures_that_other_processes_may_not_show(tmp_path: Path) -> None:
    subject = {"candidate": f"{FILE}:right", "reference": f"{FILE}:reference"}
    for kind, evidence in (
        ("nondeterministic", {}),
        ("input_modified", {"stored": True}),
        ("stale_state", {"late": True}),
        ("not_computed_by_kernel", {"replay": True}),
    ):
        failure = Failure(failure=kind, detail="differs", sizes={})
        assert write_test(failure, evidence, [(False, {})], [], subject, tmp_path) is None


@pytest.mark.slow
def test_they_fail_for_wrong_candidates_and_pass_for_a_right_one(tmp_path: Path) -> None:
    files = []
    for name in KINDS:
        for of in (name, "right"):
            file = written(name, tmp_path, of).rename(tmp_path / f"test_{name}_{of}.py")
            files.append(file)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfp", "-p", "no:cacheprovider", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    outcomes = {
        words[1].partition("::")[0].removesuffix(".py"): words[0]
        for words in map(str.split, result.stdout.splitlines())
        if words[:1] in (["PASSED"], ["FAILED"])
    }
    expected: dict[str, str] = {}
    for name in KINDS:
        expected |= {f"test_{name}_{name}": "FAILED", f"test_{name}_right": "PASSED"}
    assert outcomes == expected, result.stdout
