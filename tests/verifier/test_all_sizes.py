"""Candidates at all sizes of their domain, also those that no memory holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ttools.core.errors import UsageError
from ttools.verifier.api import verify
from ttools.verifier.judging.all_sizes import usual_seconds
from ttools.verifier.options import VerifyOptions
from ttools.verifier.report.text import text_of
from ttools.verifier.result import Verification

FILE = Path(__file__).parent / "kernels_at_all_sizes.py"
NAMES = ("wraps", "wide", "asks_for_a_value", "leaves_memory_from_some_size_on", "asks_for_cuda")
#: Few cases: what is asked here comes after them.
_SCRIPT = """
import json, sys
from pathlib import Path
from ttools.verifier.batch.folder import verify_folder
from ttools.verifier.batch.forks import Forks
from ttools.verifier.options import VerifyOptions
folder, output = map(Path, sys.argv[1:])
options = VerifyOptions(cases=2, all_sizes_seconds=60)
verify_folder(folder, lambda: Forks(1, options), lambda *_: None, output)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verification]:
    folder = tmp_path_factory.mktemp("all_sizes")
    text = FILE.read_text("utf-8")
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"{text}\n\ndef candidate(x):\n    return {name}(x)\n")
    output = folder / "report.jsonl"
    subprocess.run([sys.executable, "-c", _SCRIPT, str(folder), str(output)], check=True)
    lines = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    return {
        Path(each.pop("file")).stem: Verification.of_dict(
            {key: value for key, value in each.items() if key not in ("digest", "schema")}
        )
        for each in lines
    }


def _runs(found: Verification) -> list[dict[str, Any]]:
    tried = found.covered["all sizes"]
    assert tried["sizes"] == {"n": [1, 1 << 33]}
    return list(tried["runs"])


def test_offsets_that_wrap_where_no_memory_is_that_large(found: dict[str, Verification]) -> None:
    (failure,) = found["wraps"].failures
    assert failure.failure == "memory"
    assert failure.sizes == {"n": (1 << 31) + 1}
    line = 1 + FILE.read_text("utf-8").splitlines().index(
        "    at = first * BLOCK + tl.arange(0, BLOCK)"
    )
    assert failure.detail == (
        "an int32 product wraps around and reaches an address, at n = 2,147,483,649 "
        f"(wraps.py:{line}); `double_kernel` is right for n up to 2,147,483,648"
    )
    assert "all sizes n = 1 to 8,589,934,592: fails" in text_of(found["wraps"], "wraps")


def test_what_is_proved_is_told_for_every_choice(found: dict[str, Verification]) -> None:
    assert not found["wide"].failures
    runs = _runs(found["wide"])
    assert [(each["choices"], each["verdict"]) for each in runs] == [
        ({"dtype": "float32"}, "proved"),
        ({"dtype": "float16"}, "proved"),
    ]
    assert "accesses at all sizes n = 1 to 8,589,934,592: proved\n" in text_of(found["wide"], "")


def test_the_cpu_stands_in_for_a_gpu(found: dict[str, Verification]) -> None:
    assert not found["asks_for_cuda"].failures
    assert {each["verdict"] for each in _runs(found["asks_for_cuda"])} == {"proved"}


def test_what_cannot_be_followed_fails_nothing(found: dict[str, Verification]) -> None:
    assert not found["asks_for_a_value"].failures
    for each in _runs(found["asks_for_a_value"]):
        assert each["verdict"] == "not tried"
        (why,) = each["why"]
        assert why.startswith("asks_for_a_value.py:")
        assert "what a tensor holds decides in host code" in why


def test_a_size_that_fits_is_run(found: dict[str, Verification]) -> None:
    verification = found["leaves_memory_from_some_size_on"]
    assert verification.covered["sizes that were found among all"] == 1
    (failure,) = [each for each in verification.failures if each.failure == "memory"]
    assert failure.sizes == {"n": 5_000_001}
    assert "out-of-bounds" in failure.detail


def test_domains_beyond_memory_have_more_time() -> None:
    assert usual_seconds({"m": (0, 1 << 20), "n": (1, 2047)}) == 5
    assert usual_seconds({"m": (0, 1 << 20), "n": (1, 2048)}) == 25


def test_negative_time_is_refused() -> None:
    with pytest.raises(UsageError, match="all_sizes_seconds=-1: must be 0 or more"):
        VerifyOptions(all_sizes_seconds=-1)


def test_without_time_it_is_left_out() -> None:
    found = verify(
        f"{FILE}:wraps", f"{FILE}:reference", f"{FILE}:inputs", cases=1, all_sizes_seconds=0
    )
    assert not found.failures
    assert _runs(found)[0]["why"] == ["it was not asked for"]


@pytest.mark.slow
def test_a_whole_verification_passes_with_the_proof() -> None:
    found = verify(f"{FILE}:wide", f"{FILE}:reference", f"{FILE}:inputs", all_sizes_seconds=60)
    assert found.verdict == "pass"
    assert {each["verdict"] for each in _runs(found)} == {"proved"}
