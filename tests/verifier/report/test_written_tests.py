"""Written tests fail for the candidate with the failure, and pass for a correct one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.core.spec import view_spec
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import VIEWS, TensorImage, laid_out, storage_bytes
from ttools.verifier.cases.values import KINDS as KINDS_OF_VALUES
from ttools.verifier.cases.values import changed
from ttools.verifier.report.written_tests import Call, write_test
from ttools.verifier.result import Failure
from ttools.verifier.run.finding_classes import MEMORY, RACES

FILE = Path(__file__).parent / "kernels_for_written_tests.py"
#: For each candidate: the class of the failure, its evidence, and whether the test needs ttools.
KINDS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "reads_outside": ("memory", {"checks": sorted(MEMORY)}, True),
    "races": ("race", {"checks": sorted(RACES)}, True),
    "last_wins": ("nondeterministic", {"order": ("reverse", 0)}, True),
    "asks_torch": ("not_computed_by_kernel", {"operators": [["add"], 5]}, False),
    "needs_no_kernel": ("not_computed_by_kernel", {"launches": False}, False),
    "puts_back": ("input_modified", {"touched": True}, False),
    "writes_beside": ("memory", {}, False),
}


def call(view: str = "every_other", values: str = "drawn", *, source: bool = True) -> Call:
    """Return a call with the arguments that `inputs` returns for nine elements."""
    drawn = torch.randn(9, generator=torch.Generator().manual_seed(3))
    image = laid_out(changed(drawn, values, is_finite=False), view)
    case = Case(sizes={"N": 9}, seed=3, views={"*": view}, values=values)
    plain = {"x": laid_out(drawn, "contiguous")}
    written_source = "N=9, dtype=torch.float32, seed=3" if source else None
    return Call(case=case, arguments={"x": image}, drawn=plain, source=written_source)


def written(name: str, folder: Path, of: str = "", made: Call | None = None) -> Path:
    """Write the test for a kind of failure.

    Args:
        name: The kind, which is also the name of the candidate that fails.
        folder: Folder of the test.
        of: Name of another candidate to test.
        made: Call that fails.
    """
    failure, evidence, _ = KINDS[name]
    path = write_test(
        Failure(failure=failure, detail='says "why"', sizes={"N": 9}),
        evidence,
        [made or call()],
        [],
        subject(of or name),
        folder,
    )
    assert path is not None
    return Path(path)


def subject(candidate: str) -> dict[str, str]:
    names = {"candidate": candidate, "reference": "reference", "inputs": "inputs"}
    return {key: f"{FILE}:{name}" for key, name in names.items()}


@pytest.mark.parametrize("name", KINDS)
def test_tests_state_whether_they_need_ttools(name: str, tmp_path: Path) -> None:
    text = written(name, tmp_path).read_text("utf-8")
    compile(text, name, "exec")
    assert ("import ttools" in text or "from ttools" in text) == KINDS[name][2]
    assert "needs ttools" in text if KINDS[name][2] else "needs ttools" not in text
    assert "verifier" not in text.replace(str(FILE.parent), "")


def test_no_test_is_written_for_failures_that_other_processes_may_not_show(tmp_path: Path) -> None:
    for kind, evidence in (
        ("nondeterministic", {}),
        ("input_modified", {"stored": True}),
        ("stale_state", {"late": True}),
        ("not_computed_by_kernel", {"replay": True}),
    ):
        failure = Failure(failure=kind, detail="differs", sizes={})
        assert write_test(failure, evidence, [call()], [], subject("right"), tmp_path) is None


@pytest.mark.parametrize("values", ["drawn", *KINDS_OF_VALUES, "permuted"])
def test_tests_repeat_values_exactly(tmp_path: Path, values: str) -> None:
    views = VIEWS if values in ("drawn", "nan") else VIEWS[:1]
    for view in ["contiguous", *views]:
        made = call(view, values)
        path = written("writes_beside", tmp_path, made=made)
        text = path.read_text("utf-8")
        assert "fromhex" not in text
        assert "drawn(N=9, dtype=torch.float32, seed=3)" in text
        namespace: dict[str, Any] = {"__name__": "written"}
        exec(compile(text, path, "exec"), namespace)
        ((again, make),) = namespace["CALLS"]
        (x,) = make().values()
        assert TensorImage(view_spec(x), storage_bytes(x)) == made.arguments["x"]
        assert not again


def test_bytes_are_written_if_inputs_differ_in_each_process(tmp_path: Path) -> None:
    text = written("writes_beside", tmp_path, made=call(source=False)).read_text("utf-8")
    assert "tensor('float32', (9,), (2,), 0, '" in text
    assert "drawn(" not in text


def outcomes(files: list[Path], folder: Path) -> dict[str, str]:
    """Run test files, and return their outcomes by the names of the files."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfp", "-p", "no:cacheprovider", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    found = {
        words[1].partition("::")[0].removesuffix(".py"): words[0]
        for words in map(str.split, result.stdout.splitlines())
        if words[:1] in (["PASSED"], ["FAILED"])
    }
    assert len(found) == len(files), result.stdout
    return found


# Each kind is a test of its own, since a kind that starts other Pythons takes several seconds of
# processor time. On a busy machine, all kinds together exceed the time limit of one test.
@pytest.mark.parametrize(
    "name",
    [
        name if name == "writes_beside" else pytest.param(name, marks=pytest.mark.slow)
        for name in KINDS
    ],
)
def test_they_fail_for_wrong_candidates_and_pass_for_a_right_one(name: str, tmp_path: Path) -> None:
    files = [
        written(name, tmp_path, of).rename(tmp_path / f"test_{of}.py") for of in (name, "right")
    ]
    assert outcomes(files, tmp_path) == {f"test_{name}": "FAILED", "test_right": "PASSED"}
