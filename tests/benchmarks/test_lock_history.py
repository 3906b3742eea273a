"""The lock on a library's history: what is compared, and how it is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ttools.core.compilation.lock import LIMITS, PROJECTED, Entry, write_lock
from ttools.core.triton_versions.version import installed_triton

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import lock_history as history  # noqa: E402

sys.path.remove(str(BENCHMARKS))


def locked(folder: Path, commit: str, **times: float) -> None:
    """A lock of a version: the projected time of each kernel."""
    entries = [
        Entry(
            kernel=kernel,
            target="sm_90",
            triton=installed_triton(),
            parameters={},
            options={},
            figures={PROJECTED: time},
        )
        for kernel, time in times.items()
    ]
    write_lock(folder / f"norm.{commit}.0.lock", entries)


def test_changes_are_compared_both_ways_with_the_times_of_equal_versions(tmp_path: Path) -> None:
    (tmp_path / "versions.json").write_text(json.dumps({"norm": ["a", "b", "c", "d"]}))
    locked(tmp_path, "a", forward=10.0, backward=20.0)
    locked(tmp_path, "b", forward=10.0, backward=30.0)
    locked(tmp_path, "c", forward=10.0, backward=30.0)
    locked(tmp_path, "d", both=35.0)
    timed = [
        {
            "a": {"forward": 9.0, "backward": 18.0},
            "b": {"forward": 9.2, "backward": 27.0},
            "c": {"forward": 9.1, "backward": 27.2},
            "d": {"both": 33.0},
        }
    ]
    found = list(history.changes(tmp_path, {"norm": timed}))
    ratios = {(*each.commits, each.kernel): each.ratio for each in found}
    assert ratios["a", "b", "forward"] == 1
    assert ratios["a", "b", "backward"] == pytest.approx(27.1 / 18)
    assert ratios["b", "a", "backward"] == pytest.approx(18 / 27.1)
    assert ratios["c", "d", "both"] == pytest.approx(33 / (9.1 + 27.1))
    assert len(found) == 2 * (2 + 2 + 1)
    flagged = {(*each.commits, each.kernel) for each in found if each.is_flagged(LIMITS)}
    assert flagged == {("a", "b", "backward"), ("d", "c", "backward, forward")}


def test_versions_are_those_whose_code_differs(tmp_path: Path) -> None:
    repository, folder = tmp_path / "library", tmp_path / "versions"
    file = repository / "src/liger_kernel/ops/rope.py"
    file.parent.mkdir(parents=True)
    git = ("git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=e")
    subprocess.run([*git, "init", "-q"], check=True)
    for text in ("x = 1\n", '"""Said."""\nx = 1  # one\n', "x = 2\n"):
        file.write_text(text)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "change"], check=True)
    history.checkout(repository, folder)
    versions = json.loads((folder / "versions.json").read_text())
    assert versions.keys() == {"rope"}
    texts = [
        (folder / commit / "liger_kernel/ops/rope.py").read_text() for commit in versions["rope"]
    ]
    assert texts == ["x = 1\n", "x = 2\n"]


def test_the_recorded_times_are_of_many_operators() -> None:
    data = json.loads((BENCHMARKS / "points" / "lock_history.json").read_text())
    assert len(data["times"]) >= 15
    kernels = [
        taken
        for cases in data["times"].values()
        for case in cases
        for version in case.values()
        for taken in version.values()
    ]
    assert len(kernels) > 400
    assert min(kernels) > 5
