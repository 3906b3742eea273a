"""`sanitize()` as context manager and decorator, its report, and its errors."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import ttools.sanitizer
from ttools.core.errors import UsageError
from ttools.core.findings.findings import FindingsError
from ttools.interpreter import interpret
from ttools.sanitizer import Sanitization, sanitize


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr, MASK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n if MASK else None)
    tl.store(out_ptr + offs, x, mask=offs < n)


def run(mask: bool, x: torch.Tensor | None = None) -> torch.Tensor:
    x = torch.arange(100.0) if x is None else x
    out = torch.zeros(100)
    copy[(2,)](x, out, 100, BLOCK=64, MASK=mask)
    return out


@pytest.fixture(scope="module")
def sanitization() -> Sanitization:
    with sanitize() as report:
        run(mask=False)
    return report


def test_context_manager_collects_findings_and_outputs_are_right() -> None:
    with sanitize() as report:
        assert report.findings == []
        out = run(mask=False)
    assert torch.equal(out, torch.arange(100.0))
    (finding,) = report.findings
    assert (finding.kind, finding.severity, finding.count) == ("oob_load", "error", 28)
    assert finding.argument.name == "x_ptr"
    assert finding.location.file == __file__
    assert [(entry.kernel, entry.count) for entry in report.launches] == [("copy", 1)]


def test_decorator_collects_findings_of_all_calls() -> None:
    report = sanitize()
    checked = report(run)
    checked(mask=False)
    checked(mask=False)
    (finding,) = report.findings
    assert (finding.count, checked.__name__) == (56, "run")
    assert sum(entry.count for entry in report.launches) == 2


def test_launches_outside_are_not_checked() -> None:
    with sanitize() as report:
        pass
    run(mask=False)
    assert (report.findings, report.launches) == ([], [])


def test_findings_survive_an_exception() -> None:
    report = sanitize()

    @report
    def fails() -> None:
        run(mask=False)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert len(report.findings) == 1


def test_raising_for_findings(sanitization: Sanitization) -> None:
    with pytest.raises(FindingsError) as caught:
        sanitization.raise_for_failures()
    assert caught.value.findings == tuple(sanitization.findings)
    assert str(caught.value) == sanitization.to("text").rstrip()
    assert "test_api.py" in str(caught.value).splitlines()[0]


def test_raising_from_a_severity_on() -> None:
    with sanitize() as report:
        run(mask=False, x=torch.arange(200.0)[:100])
    assert [finding.kind for finding in report.findings] == ["view_oob"]
    report.raise_for_failures()
    with pytest.raises(FindingsError, match="1 warning in 1 kernel"):
        report.raise_for_failures("warning")
    with pytest.raises(UsageError, match="must be one of error, warning, note"):
        report.raise_for_failures("fatal")  # type: ignore[arg-type]


def test_clean_run_raises_nothing() -> None:
    with sanitize() as report:
        run(mask=True)
    report.raise_for_failures("note")
    assert repr(report) == "<Sanitization: no finding in 1 kernel, 1 launch>"


def test_representations(sanitization: Sanitization) -> None:
    assert repr(sanitization) == "<Sanitization: 1 error in 1 kernel, 1 launch>"
    frame = sanitization._repr_html_()
    assert frame.startswith("<iframe ")
    assert frame.count("<") == 2  # only tags of the frame itself: the page is in an attribute
    assert "<!DOCTYPE html>" in html.unescape(frame)
    assert "oob_load" in frame


def test_formats(sanitization: Sanitization) -> None:
    assert json.loads(sanitization.to("json"))["findings"][0]["kind"] == "oob_load"
    with pytest.raises(UsageError, match="no format `pdf`"):
        sanitization.to("pdf")


@pytest.mark.parametrize(
    ("only", "count"), [(["copy"], 1), (["other"], 0), (lambda name: name == "copy", 1)]
)
def test_only_selected_kernels(only: list[str] | Callable[[str], bool], count: int) -> None:
    with sanitize(only=only) as report:
        run(mask=False)
    assert len(report.findings) == count


@pytest.mark.parametrize(
    ("checks", "count"), [("memcheck", 1), ("TSan, ASan", 1), (["racecheck"], 0), ("all", 1)]
)
def test_only_selected_checks(checks: str | list[str], count: int) -> None:
    with sanitize(checks=checks) as report:
        run(mask=False)
    assert len(report.findings) == count


def test_suppressions_and_baseline(tmp_path: Path) -> None:
    rules, baseline = tmp_path / "rules.toml", tmp_path / "baseline.json"
    rules.write_text('[[suppress]]\nkind = "oob_load"\nreason = "padded"\n')
    line = "x = tl.load(x_ptr + offs, mask=offs < n if MASK else None)"
    entry = {"kind": "oob_load", "kernel": "copy", "source": line, "count": 1}
    baseline.write_text(json.dumps({"schema": "ttools.baseline/1", "findings": [entry]}))
    for report in (sanitize(suppressions=str(rules)), sanitize(baseline=baseline)):
        with report:
            run(mask=False)
        assert report.findings == []
        assert len(report.session.findings) == 1
        report.raise_for_failures("note")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"checks": "lint"}, "there is no check `lint`"),
        ({"only": "copy"}, r"only=\['copy'\]"),
        ({"view_bounds": "loud"}, "view_bounds='loud'"),
        ({"checks": ["memcheck", 3]}, "must be names of checks"),
        ({"checks": None}, "must be names of checks"),
        ({"seed": "x"}, "seed='x': must be an integer"),
        ({"max_findings": 0}, "max_findings=0: must be a positive integer"),
        ({"suggest_tolerance": True}, "only suggested by the check `accuracy`: add it to the"),
        ({"all_configs": True, "first_config": True}, "cannot be used together"),
        ({"suppressions": "none.toml"}, "cannot read `none.toml`"),
        ({"baseline": "none.json"}, "cannot read the baseline `none.json`"),
    ],
)
def test_wrong_arguments_raise_errors_before_the_run(arguments: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        sanitize(**arguments)


def test_names_of_the_package() -> None:
    assert ttools.sanitizer.sanitize is sanitize
    with pytest.raises(AttributeError, match="no attribute 'sanitise'"):
        _ = ttools.sanitizer.sanitise


def test_launches_inside_interpret_are_checked() -> None:
    with sanitize() as report, interpret() as own:
        run(mask=False)
    assert [finding.kind for finding in report.findings] == ["oob_load"]
    assert own.stats[0].launches == 1


def test_launches_that_a_nested_run_checks_are_reported() -> None:
    with sanitize() as outer:
        with sanitize() as inner:
            run(mask=False)
        assert [f.kind for f in inner.findings] == ["oob_load"]
        assert inner.warnings == []
        assert "were launched in runs that the program itself started" in repr(outer)
        run(mask=True)
        with inner:
            run(mask=True)
    assert outer.findings == []
    (warning,) = outer.warnings
    assert warning.startswith("2 launches of `copy` ran in a sanitize() of the program")
    with inner, outer:  # in the opposite order, which must not lead to a cycle
        run(mask=True)
    assert inner.warnings[0].startswith("1 launch of `copy`")
