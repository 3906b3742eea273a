"""`ttools verify` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run

FILE = Path(__file__).parents[1] / "verifier" / "kernels_for_verify.py"


def test_a_verdict_as_json(ttools: Run, tmp_path: Path) -> None:
    words = ("--reference", f"{FILE}:reference", "--inputs", f"{FILE}:inputs")
    report = tmp_path / "report.json"
    done = ttools(
        "verify", *words, "--format", "json", "--output", str(report), f"{FILE}:asks_torch"
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(report.read_text("utf-8"))
    assert found["verdict"] == "fail"
    assert [each["class"] for each in found["failures"]] == ["not_computed_by_kernel"]
    assert set(found["failures"][0]) >= {"class", "sizes", "dtype", "detail"}
    assert found["not_judged"]


def test_what_makes_no_sense_is_a_sentence(called_ttools: Run) -> None:
    for words, message in (
        (["verify", "x.py:f"], "there is no file `x.py`"),
        (["verify", f"{FILE}:right"], "--reference is missing"),
        (["verify", "--on", "gpu", f"{FILE}:right"], "there is no GPU here that torch can use"),
        (["verify", "--batch", ".", f"{FILE}:right"], "takes no other ones"),
    ):
        done = called_ttools(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert message in " ".join(done.stderr.split())
