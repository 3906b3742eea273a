"""Verification of correct and wrong candidates through the public interface."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.core.errors import UsageError
from ttools.verifier.api import verify
from ttools.verifier.batch.folder import verify_folder
from ttools.verifier.batch.forks import Forks
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification

FILE = Path(__file__).parent / "kernels_for_verify.py"
#: Expected failures of each candidate in the file.
EXPECTED = {
    "right": None,
    "keeps_dimension": {"layout"},
}
EXPECTED_SLOWLY = {
    "ignores_strides": {"wrong_values", "memory"},
    "asks_torch": {"not_computed_by_kernel"},
    "remembers": {"stale_state"},
    "copies_in_c": {"not_computed_by_kernel"},
    "remembers_by_few_elements": {"stale_state"},
    "draws": {"nondeterministic"},
    "adds_when_timed": {"stale_state"},
    "changes_input": {"input_modified"},
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verification]:
    return _verdicts(EXPECTED, tmp_path_factory.mktemp("batch"))


def _verdicts(names: Collection[str], folder: Path) -> dict[str, Verification]:
    """Verify all candidates in one process, since its imports take longest."""
    text = FILE.read_text("utf-8")
    for name in names:
        (folder / f"{name}.py").write_text(f"{text}\n\ndef candidate(x):\n    return {name}(x)\n")
    (folder / "neighbour.py").write_text("def inputs(): ...\n")
    script = (
        "import sys; from pathlib import Path; from ttools.verifier.batch.forks import Forks\n"
        "from ttools.verifier.batch.folder import verify_folder\n"
        "from ttools.verifier.options import VerifyOptions\n"
        "folder, output = map(Path, sys.argv[1:])\n"
        "forks = lambda: Forks(1, VerifyOptions(shrink=8))\n"
        "verify_folder(folder, forks, lambda *a: None, output)\n"
    )
    output = folder / "report.jsonl"
    command = [sys.executable, "-c", script, str(folder), str(output)]
    subprocess.run(command, check=True)
    lines = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    verdict_lines = {Path(entry.pop("file")).stem: entry for entry in lines}

    def unwanted() -> Forks:
        raise AssertionError("nothing is verified again")

    reported: list[str] = []
    skipped = verify_folder(folder, unwanted, lambda name, *_: reported.append(name), output)
    assert (skipped, reported) == (len(names), [])
    return {
        name: Verification.of_dict(
            {k: v for k, v in entry.items() if k not in ("digest", "schema")}
        )
        for name, entry in verdict_lines.items()
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_a_candidate(name: str, verdicts: dict[str, Verification]) -> None:
    _compare(verdicts[name], EXPECTED[name])


@pytest.mark.slow
def test_more_candidates(tmp_path: Path) -> None:
    verdicts = _verdicts(EXPECTED_SLOWLY, tmp_path)
    for name, expected in EXPECTED_SLOWLY.items():
        _compare(verdicts[name], expected)


def _compare(verification: Verification, expected: set[str] | None) -> None:
    assert verification.verdict == ("pass" if expected is None else "fail"), verification
    classes = {failure.failure for failure in verification.failures}
    assert bool(classes & expected) if expected else not classes


def test_failures_are_small(verdicts: dict[str, Verification]) -> None:
    (layout,) = verdicts["keeps_dimension"].failures
    assert layout.sizes["N"] == 1
    assert (layout.values, layout.views) == ("drawn", {})


def test_the_tried_cases_are_listed(verdicts: dict[str, Verification]) -> None:
    covered = verdicts["right"].covered
    assert {"transposed", "expanded", "every_other"} <= set(covered["views"])
    assert {"nan", "denormal", "equal"} <= set(covered["values"])
    assert covered["kernels"] == ["sum_kernel"]
    assert covered["sequences of calls"] > 0


@pytest.mark.slow
def test_the_read_of_a_missing_tile_explains_the_other_failures() -> None:
    options: dict[str, Any] = {"shrink": 2, "all_sizes_seconds": 0}
    verification = verify(f"{FILE}:adds_a_tile_too_many", **options)
    first, *others = verification.failures
    assert first.failure == "unwritten"
    line = 1 + FILE.read_text("utf-8").splitlines().index(
        "        acc += tl.load(x_ptr + row * s0 + c * s1, mask=c < N, other=0.0).to(tl.float32)"
    )
    assert first.where.startswith(f"{FILE}:{line}:")
    assert {other.consequence_of for other in others} <= {"unwritten"}


@pytest.mark.slow
def test_a_failure_is_written_as_a_test_that_fails_without_ttools(tmp_path: Path) -> None:
    word = f"{FILE}:keeps_dimension"
    verification = verify(
        word, f"{FILE}:reference", f"{FILE}:inputs", write_tests=tmp_path / "tests", shrink=2
    )
    (failure,) = verification.failures
    assert failure.test is not None
    text = Path(failure.test).read_text("utf-8")
    assert "ttools" not in text.replace(str(FILE.parent), "")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", failure.test],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 1, result.stdout
    assert "1 failed" in result.stdout
    assert "AssertionError" in result.stdout or "assert one.shape" in result.stdout


@pytest.mark.slow
def test_a_launch_that_does_not_end_is_waited_for_once() -> None:
    word = f"{FILE}:does_not_end"
    verification = verify(word, f"{FILE}:reference", f"{FILE}:inputs", launch_seconds=2)
    (failure,) = verification.failures
    assert failure.failure == "exception"
    assert failure.sizes["N"] % 8 == 3
    assert verification.seconds < 30


@pytest.mark.slow
def test_a_candidate_that_requires_cuda_tensors_gets_some() -> None:
    verification = verify(f"{FILE}:needs_cuda", f"{FILE}:reference", f"{FILE}:inputs")
    assert (verification.verdict, verification.failures) == ("pass", ())
    stands_in, not_separate = verification.notes
    assert stands_in == "the candidate asks for CUDA tensors: the CPU stands in for the GPU"
    assert not_separate.startswith("the process that evaluates the reference has loaded the candi")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is present and is not emulated")
def test_files_that_require_a_gpu_when_they_are_loaded(tmp_path: Path) -> None:
    text = FILE.read_text("utf-8").replace(
        "generator=generator)", 'generator=generator).to("cuda")'
    )
    text += "\n\nSMS = torch.cuda.get_device_properties(0).multi_processor_count\n"
    (tmp_path / "kernel.py").write_text(text)
    word = f"{tmp_path}/kernel.py"
    verification = verify(f"{word}:right", f"{word}:reference", f"{word}:inputs", cases=3)
    assert (verification.verdict, verification.failures) == ("pass", ())
    assert verification.reason == "only the first 3 cases of the plan were tried"
    assert verification.covered["ordinary sizes"] == 2
    assert (
        "the candidate asks for CUDA tensors: the CPU stands in for the GPU" in verification.notes
    )


def test_usage_errors(tmp_path: Path) -> None:
    bare = "import torch\ndef inputs():\n    yield {'x': torch.ones(3)}\n"
    (tmp_path / "bare.py").write_text(bare)
    with pytest.raises(
        UsageError, match=r"inputs\(\) returned generator, not a dictionary"
    ) as info:
        verify(f"{FILE}:right", f"{FILE}:reference", f"{tmp_path}/bare.py:inputs")
    example = '`def inputs(n): return {"x": torch.randn(n)}` with `DOMAIN = {"n": (1, 1000)}`'
    assert str(info.value).endswith(f"keyword arguments for one case; for example, {example}")
    with pytest.raises(UsageError, match="there is no file"):
        verify("absent.py:f", "absent.py:g", "absent.py:inputs")
    with pytest.raises(UsageError, match="must be a module-level function"):
        verify(lambda x: x, f"{FILE}:reference", f"{FILE}:inputs")
    with pytest.raises(UsageError, match="cases=0: must be positive"):
        VerifyOptions(cases=0)
    with pytest.raises(UsageError, match="fail_on='info': must be error, warning, note"):
        VerifyOptions(fail_on="info")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        verify(f"{FILE}:right", speed=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="does not contain a file that defines candidate"):
        verify_folder(tmp_path, lambda: Forks(1, VerifyOptions()), lambda *_: None, None)


def test_files_of_the_current_folder_hide_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "numpy", "json"):
        (tmp_path / f"{name}.py").write_text("unrelated = 1\n")
    monkeypatch.chdir(tmp_path)
    verification = verify(f"{FILE}:right", cases=1)
    assert verification.failures == ()
    assert verification.reason == "only the first 2 cases of the plan were tried"


@pytest.mark.slow
def test_a_gpu_is_emulated() -> None:
    options: dict[str, Any] = {"cases": 2, "replay": "off", "all_sizes_seconds": 0}
    verification = verify(f"{FILE}:needs_an_rtx4090", gpu="rtx4090", **options)
    assert verification.verdict == "pass", verification.failures
    assert verification.covered["emulated GPU"] == "rtx4090"
    other = verify(f"{FILE}:needs_an_rtx4090", gpu="h100", **options)
    assert [failure.failure for failure in other.failures] == ["exception"]
    with pytest.raises(UsageError, match="gpu=h100 is emulated on the CPU, so it needs on=cpu"):
        VerifyOptions(gpu="h100", on="gpu")
