"""`ttools verify`: the JSON report, and usage errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from ttools.verifier.report.text import text_of
from ttools.verifier.result import Failure, Verification

FILE = Path(__file__).parents[1] / "verifier" / "kernels_for_verify.py"


def test_a_verdict_as_json(ttools: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = ttools("verify", "--format", "json", "--output", str(report), f"{FILE}:asks_torch")
    assert result.returncode == 1, result.stderr
    verdict = json.loads(report.read_text("utf-8"))
    assert verdict["verdict"] == "fail"
    assert [failure["class"] for failure in verdict["failures"]] == ["not_computed_by_kernel"]
    assert set(verdict["failures"][0]) >= {"class", "sizes", "dtype", "detail"}
    assert verdict["not_judged"]


@pytest.mark.parametrize("words", [["verify", "-v"], ["-v", "verify"], ["verify"]])
def test_verbose_reports(
    called_ttools: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    failure = Failure(failure="layout", detail="differs", sizes={})
    covered = {"cases": 3, "views": 3}
    found = Verification(verdict="fail", failures=(failure,), covered=covered)
    monkeypatch.setattr("ttools.verifier.serving.verify_here", lambda *_: found)
    result = called_ttools(*words, f"{FILE}:right")
    assert result.returncode == 1
    assert f"{FILE.name}:right: failed\n" in result.stdout
    assert ("tried 3 cases: 3 with views as arguments" in result.stdout) == ("-v" in words)


def test_the_verdict_is_in_the_line_of_a_long_path() -> None:
    name = f"{'folder/' * 20}candidate.py:function"
    reason = "no case was tried, because the inputs could not be made in the time that was given"
    found = Verification(verdict="inconclusive", failures=(), covered={}, reason=reason)
    first, *rest = text_of(found, name).splitlines()
    assert first == f"{name}: unknown"
    assert all(len(line) <= 80 for line in rest)
    assert reason in " ".join(" ".join(rest).split())


@pytest.mark.slow  # tests/workspace/test_public_api.py writes verdicts in all formats
def test_a_verdict_as_markdown(ttools: Run) -> None:
    result = ttools("verify", "--format", "markdown", f"{FILE}:asks_torch")
    assert result.returncode == 1
    title, _, fence, *body, end = result.stdout.splitlines()
    assert title.startswith("**")
    assert "fail" in title
    assert fence == end == "```"
    assert body


def test_the_formats_of_findings(
    called_ttools: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failure = Failure(failure="layout", detail="differs", sizes={})
    found = Verification(verdict="fail", failures=(failure,), covered={"cases": 3})
    monkeypatch.setattr("ttools.verifier.serving.verify_here", lambda *_: found)
    for form, text in (
        ("junit", '<testsuite name="right" tests="2" errors="0" failures="1"'),
        ("github", "::error file="),
        ("sarif", '"ruleId": "layout"'),
        ("html", "<h1><code>right</code> fails: differs</h1>"),
    ):
        output = tmp_path / form
        words = ("verify", "--format", form, "--output", str(output), f"{FILE}:right")
        result = called_ttools(*words)
        assert (result.returncode, result.stdout) == (1, "")
        assert text in output.read_text("utf-8")


def test_usage_errors(called_ttools: Run) -> None:
    for words, message in (
        (["verify", "x.py:f"], "there is no file `x.py`"),
        (["verify"], "no candidate is given: ttools verify FILE.py:CANDIDATE"),
        (["verify", __file__ + ":test_usage_errors"], "define it there, or give --reference"),
        (["verify", "--on", "gpu", f"{FILE}:right"], "there is no GPU here that torch can use"),
        (
            ["verify", "--gpu", "h10", f"{FILE}:right"],
            "gpu: there is no GPU `h10`; did you mean `h100`",
        ),
        (["verify", "--gpu", "mi300x", f"{FILE}:right"], "emulates only CUDA devices"),
        (["verify", "--memory", "much", f"{FILE}:right"], "is not an amount of memory"),
        (["verify", "--batch", ".", f"{FILE}:right"], "do not give other files"),
        (["verify", "--batch", ".", "--format", "github"], "html or junit, not github"),
        (["verify", "--batch", ".", "--format", "sarif"], "html or junit, not sarif"),
    ):
        result = called_ttools(*words)
        assert (result.returncode, "Traceback" in result.stderr) == (2, False)
        assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--ray", "local", "k.py:f"], "--ray needs --batch"),
        (["--batch", ".", "--ray", "local", "--jobs", "2"], "give one of them"),
        (["--batch", ".", "--ray", "local@0"], "N files at a time"),
        (["--batch", ".", "--ray", "local"], "pip install 'ttools-verifier[ray]'"),
    ],
)
def test_usage_errors_of_places(
    called_ttools: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.setattr("ttools.cli.options.find_spec", lambda _: None)
    result = called_ttools("verify", *words)
    assert result.returncode == 2
    assert sentence in " ".join(result.stderr.split())
