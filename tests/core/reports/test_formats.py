"""Tests of machine-readable formats: golden files, schemas and the rules of their readers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from junitparser import JUnitXml

from ttools.core.errors import UsageError
from ttools.core.findings.findings import Finding, TallyEntry, Unfinished
from ttools.core.location import SourceLocation
from ttools.core.reports.accuracy import (
    LineErrors,
    OutputAccuracy,
    bin_labels,
    ulps,
    united_lines,
    united_outputs,
)
from ttools.core.reports.reading import read_findings
from ttools.core.reports.registry import WRITERS, write_report
from ttools.core.reports.report import Report
from ttools.core.reports.sizes import SizesVerdict, Unproved
from ttools.core.spec import LaunchSpec

Golden = Callable[[str, str], None]
FINDING = Finding(kind="race", check="racecheck", severity="error", message="m", kernel="k")


@pytest.mark.parametrize("form", ["json", "junit", "github"])
def test_golden(form: str, report: Report, golden: Golden) -> None:
    golden(f"report.{form}", write_report(report, form))


OUTPUT = OutputAccuracy(
    kernel="norm",
    argument="o_ptr",
    dtype="float16",
    elements=120,
    rounding=100,
    ulps=1.5,
    index="[3, 5]",
    stored=1.25,
    exact=1.2515,
    by_rounding=0.5,
    by_conditioning=0.25,
    by_kernel=0.75,
    histogram=(20, 80, 15, 5, *[0] * 9),
    shares=((SourceLocation("/src/k.py", 4, 0), 0.75), (SourceLocation("/src/k.py", 5, 0), 0.001)),
    rtol=2e-3,
    atol=1e-5,
)
WORST_OUTPUT = replace(
    OUTPUT, argument="y_ptr", ulps=inf, stored=nan, rtol=None, atol=None, limited="some programs"
)
LINES = (
    LineErrors(
        location=SourceLocation("/src/k.py", 4, 0),
        operations=("addition", "`exp`"),
        dtype="float32",
        eps=2.0**-23,
        introduced=2.0**-23,
        carried=2.0**-21,
        size=2.0,
    ),
)


def test_unknown_formats_are_errors(report: Report) -> None:
    with pytest.raises(UsageError, match="no format `pdf`; choose from text, json"):
        write_report(report, "pdf")


@pytest.mark.parametrize("form", WRITERS)
@given(text=st.text(max_size=30), line=st.integers(0, 3), column=st.integers(0, 9))
def test_no_text_breaks_a_writer(form: str, text: str, line: int, column: int) -> None:
    location = SourceLocation(text or "k.py", line, column)
    finding = replace(FINDING, message=text, kernel=text, location=location, help=text)
    written = write_report(Report(findings=(finding,), target=text, exit_code=0), form)
    if form in ("json", "sarif"):
        json.loads(written)
    if form == "junit":
        (suite,) = JUnitXml.fromstring(written.encode())
        assert len(list(suite)) == 1


@pytest.mark.parametrize("form", WRITERS)
def test_every_format_has_the_notes(form: str, report: Report) -> None:
    race = report.findings[1]
    notes = ("the grid has 2 programs along axis 1", *(f"note {n}" for n in range(9)))
    related = (replace(race.related[0], message=f"place {n}") for n in range(9))
    crowded = replace(race, notes=notes, related=tuple(related), cause=None)
    assert notes[0] in write_report(replace(report, findings=(crowded,)), form)


# --- JSON -------------------------------------------------------------------------------------


def test_json_has_the_fields_that_readers_rely_on(report: Report, source: str) -> None:
    data = json.loads(write_report(report, "json"))
    assert data["schema"] == "ttools.report/1"
    assert data["script"]["exit_code"] == 0
    first = data["findings"][0]
    assert (first["kind"], first["check"], first["severity"]) == ("oob_load", "memcheck", "error")
    assert first["location"]["file"] == source
    assert (first["location"]["line"], first["location"]["column"]) == (9, 9)
    line = Path(source).read_text("utf-8").splitlines()[8]
    assert line[8 : first["location"]["end_column"] - 1] == "tl.load(x_ptr + offs)"
    assert (first["program"], first["lane"], first["count"]) == ([3, 0, 0], [1000], 24)
    assert data["findings"][1]["config"] == {"BLOCK": 64, "num_warps": 4}
    assert data["suppressed"][0]["reason"] == "padded by the caller"


def test_json_columns_count_characters(report: Report, source: str) -> None:
    location = json.loads(write_report(report, "json"))["findings"][1]["location"]
    line = Path(source).read_text("utf-8").splitlines()[location["line"] - 1]
    underlined = line[location["column"] - 1 : location["end_column"] - 1]
    assert underlined == "tl.store(y_ptr + offs % 64, x)"


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    text = (files("ttools.core.reports") / "report.schema.json").read_text("utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


def test_json_obeys_its_schema(report: Report, schema: Draft202012Validator) -> None:
    schema.validate(json.loads(write_report(report, "json")))
    schema.validate(json.loads(write_report(Report(findings=(FINDING,)), "json")))


def test_the_schema_describes_every_field(report: Report, schema: Draft202012Validator) -> None:
    """Check that every written field is described, so that users can rely on it."""

    def undescribed(data: Any, described: Any, path: str) -> Iterator[str]:
        if "$ref" in described:
            described = schema.schema["$defs"][described["$ref"].rpartition("/")[2]]
        for choice in described.get("anyOf", ()):
            if data is not None and choice != {"type": "null"}:
                yield from undescribed(data, choice, path)
        if isinstance(data, dict) and "properties" in described:
            fields, required = described["properties"].keys(), set(described.get("required", ()))
            wrong = (data.keys() - fields) | ((fields & required) - data.keys())
            yield from (f"{path}.{name}" for name in wrong)
            for name, value in data.items():
                yield from undescribed(value, described["properties"].get(name, {}), name)
        if isinstance(data, list) and "items" in described:
            for value in data:
                yield from undescribed(value, described["items"], path)

    of_sizes = Report(
        findings=(replace(FINDING, sizes={"n": 100}, witness="confirmed"),),
        sizes=SizesVerdict(
            checked={"n": (1, 200)},
            verdict="fails",
            abstained=(Unproved(reason="data decide", line=3, sizes={"n": (7, 9)}),),
        ),
    )
    entry = TallyEntry(spec=LaunchSpec(kernel="k", grid=(0, 0, 0)), unfinished=(CUT_SHORT,))
    accurate = Report(findings=(), accuracy=(OUTPUT, WORST_OUTPUT), line_errors=LINES)
    for example in (report, of_sizes, accurate, Report(findings=(), launches=(entry,))):
        data = json.loads(write_report(example, "json"))
        schema.validate(data)
        assert list(undescribed(data, schema.schema, "$")) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "ttools.report/2"),
        (("findings", 0, "severity"), "fatal"),
        (("findings", 0, "count"), -1),
        (("findings", 0, "location", "column"), 0),
        (("findings", 1, "related", 0, "message"), None),
        (("launches", 0, "grid"), [1, 2]),
        (("suppressed", 0, "by"), "luck"),
    ],
)
def test_the_schema_rejects_invalid_documents(
    report: Report, schema: Draft202012Validator, path: tuple[Any, ...], value: object
) -> None:
    data = json.loads(write_report(report, "json"))
    container = data
    for step in path[:-1]:
        container = container[step]
    container[path[-1]] = value
    assert not schema.is_valid(data)
    del container[path[-1]]
    assert not schema.is_valid(data)


# --- SARIF ------------------------------------------------------------------------------------


def sarif(report: Report) -> dict:
    log: dict = json.loads(write_report(report, "sarif"))
    return log


def test_sarif_golden(report: Report, golden: Golden) -> None:
    text = write_report(report, "sarif")
    version_line = f'"version": "{version("ttools-core")}"'
    golden("report.sarif", text.replace(version_line, '"version": "N"'))


def test_sarif_obeys_its_rules(report: Report) -> None:
    """Check the specification's rules on references, and the requirements of viewers."""
    log = sarif(report)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:  # required by GitHub
        assert all(rule[text]["text"] for text in ("shortDescription", "fullDescription", "help"))
        assert f"# ttools: ignore[{rule['id']}] reason" in rule["help"]["text"]
        page = rule["properties"]["documentation"]
        assert page["uri"].startswith("docs/reference/")
        assert run["originalUriBaseIds"][page["uriBaseId"]]["description"]["text"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in [*result["locations"], *result.get("relatedLocations", [])]:
            physical = location.get("physicalLocation")
            if physical is None:
                continue
            artifact = physical["artifactLocation"]
            assert not artifact["uri"].startswith("/")
            if "uriBaseId" in artifact:
                assert run["originalUriBaseIds"][artifact["uriBaseId"]]["uri"].endswith("/")
            region = physical["region"]
            assert region["startLine"] >= 1
            assert region.get("endColumn", 2) > region.get("startColumn", 1) >= 1
        ids = [location["id"] for location in result.get("relatedLocations", [])]
        assert len(set(ids)) == len(ids)
    assert [len(result.get("suppressions", [])) for result in run["results"]] == [0, 0, 0, 0, 1]


def test_sarif_locates_findings_without_a_location_at_their_launch(report: Report) -> None:
    failed = replace(report.findings[0], location=None, launch="/tmp/bench.py:40")
    (result,) = sarif(replace(report, findings=(failed,), suppressed=()))["runs"][0]["results"]
    (location_,) = (location["physicalLocation"] for location in result["locations"])
    assert location_["artifactLocation"]["uri"] == "file:///tmp/bench.py"
    assert location_["region"] == {"startLine": 40}


# --- JUnit ------------------------------------------------------------------------------------


CUT_SHORT = Unfinished(
    number=3, phase="race analysis", reason="timeout", seconds=10.0, checks=("racecheck",)
)


@pytest.mark.parametrize("form", ["text", "json", "brief", "sarif", "junit", "github", "html"])
def test_every_format_reports_unfinished_checks(form: str) -> None:
    entry = TallyEntry(
        spec=LaunchSpec(kernel="slow", grid=(1, 1, 1)), count=3, unfinished=(CUT_SHORT,)
    )
    quick = TallyEntry(spec=LaunchSpec(kernel="quick", grid=(1, 1, 1)), unfinished=(CUT_SHORT,))
    for launches, checked in (((entry,), 2), ((quick,), 0)):
        written = write_report(Report(findings=(), launches=launches), form)
        assert "launch 3: race analysis stopped after 10 s" in written
        assert launches[0].kernel in written
        if form in ("text", "json", "brief", "github", "html"):
            summary = "no finding in 1 kernel, 2 launches" if checked else "no launch was checked"
            assert summary in written
            assert checked or "no finding" not in written
        elif form == "junit":
            (suite,) = JUnitXml.fromstring(written.encode())
            assert suite.errors == 1
            assert f"{checked} launch" in written
        else:
            (run,) = json.loads(written)["runs"]
            (invocation,) = run["invocations"]
            assert invocation["executionSuccessful"] is False
            assert len(invocation["toolExecutionNotifications"]) == 1


@pytest.mark.parametrize("status", [130, 143])
def test_interrupted_runs_are_reported(report: Report, status: int) -> None:
    for launches in ((), report.launches):
        cut = replace(report, launches=launches, findings=(), exit_code=status)
        assert "the run was interrupted" in write_report(cut, "text")


def test_junit_times_are_decimals(report: Report) -> None:
    short = tuple(replace(entry, seconds=1.5e-5) for entry in report.launches)
    written = write_report(replace(report, launches=short), "junit")
    times = re.findall(r' time="([^"]*)"', written)
    assert times
    assert all(re.fullmatch(r"\d+\.\d+", time) for time in times)
    assert "0.000015" in times


def test_junit_failures_are_the_findings_that_fail_the_run(report: Report) -> None:
    def failures(report: Report) -> dict[str, int]:
        document = JUnitXml.fromstring(write_report(report, "junit").encode())
        return {suite.name: suite.failures for suite in document}

    assert failures(report) == {"kernel": 2, "other": 0, "idle": 0}
    assert failures(replace(report, fail_on="note")) == {"kernel": 3, "other": 1, "idle": 0}


@pytest.mark.parametrize(("status", "error"), [(0, 0), (None, 0), (3, 1)])
def test_junit_reports_programs_that_fail_or_launch_nothing(
    report: Report, status: int | None, error: int
) -> None:
    def program(report: Report) -> tuple[int, int, str]:
        document = JUnitXml.fromstring(write_report(report, "junit").encode())
        (suite,) = (suite for suite in document if suite.name == "bench.py")
        ((result,),) = (case.result for case in suite)
        return suite.errors, suite.skipped, result.message

    ended = f"the program exited with status {status}"
    nothing = "no Triton kernel was launched, so nothing was checked"
    none = Report(findings=(), target="bench.py", exit_code=status)
    assert program(none) == (error, 1 - error, ended if error else nothing)
    if error:
        assert program(replace(report, target="bench.py", exit_code=status)) == (1, 0, ended)


# --- GitHub -----------------------------------------------------------------------------------


def parse_command(line: str) -> tuple[str, dict[str, str], str]:
    """Parse a workflow command as GitHub's runner does: properties, the message, and unescaping."""
    match = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert match is not None

    def plain(text: str) -> str:
        for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(code, char)
        return text

    pairs = (pair.split("=", 1) for pair in match[2].split(","))
    return match[1], {name: plain(value) for name, value in pairs}, plain(match[3])


@given(message=st.text("a:,%\r\n0AD=", min_size=1), kernel=st.text("a:,%\r\n2C="))
def test_github_escaping_is_undone_by_the_runner(message: str, kernel: str) -> None:
    finding = replace(FINDING, message=message, kernel=kernel)
    written = write_report(Report(findings=(finding,)), "github")
    line, _ = written.rstrip("\n").split("\n")
    command, properties, text = parse_command(line)
    assert command == "error"
    place = f" in {kernel}" if kernel else ""
    assert properties == {"title": f"racecheck: race{place}"}
    assert text == message


def test_github_annotations_have_severity_and_location(report: Report) -> None:
    lines = write_report(report, "github").splitlines()
    commands = [parse_command(line)[:2] for line in lines[:-1]]
    assert [command for command, _ in commands] == ["error", "error", "warning", "notice"]
    assert commands[0][1] == {
        "file": "kernel.py",
        "line": "9",
        "endLine": "9",
        "col": "9",
        "endColumn": "29",
        "title": "memcheck: oob_load in kernel",
    }


def test_page_is_part_of_the_distribution() -> None:
    page = files("ttools.core.reports") / "page"
    assert {entry.name for entry in page.iterdir()} >= {"page.html.jinja", "page.css", "page.js"}


def test_findings_are_read_back_from_json(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(write_report(report, "json"), "utf-8")
    copy = replace(report, findings=read_findings(file))
    assert write_report(copy, "text") == write_report(report, "text")
    assert write_report(copy, "json") == write_report(report, "json")


# --- accuracy ---------------------------------------------------------------------------------


def test_tolerances_are_in_the_text_and_the_table_only_on_request() -> None:
    report = Report(findings=(), accuracy=(OUTPUT, WORST_OUTPUT))
    assert "rtol" not in write_report(report, "text") + write_report(report, "markdown")
    report = replace(report, suggests_tolerances=True)
    text = write_report(report, "text")
    assert text.startswith(
        "suggested tolerances for torch.testing.assert_close:\n"
        "  `o_ptr` of norm (float16): rtol=0.002, atol=1e-05\n"
        "    largest error 1.5 ulp: 0.5 ulp by rounding to float16, 0.25 ulp by the conditioning, "
        "0.75 ulp by the kernel\n"
        "  `y_ptr` of norm (float16): none, because the output has errors that are reported as "
        "defects\n"
    )
    rows = write_report(report, "markdown").splitlines()
    assert rows[2] == "| kernel | output | rtol | atol | reason |"
    assert rows[4].startswith("| norm | o\\_ptr (float16) | 0.002 | 1e-05 | largest error 1.5 ulp")
    assert "| none | none |" in rows[5]
    assert "some programs" in rows[5]


def test_accuracy_in_json() -> None:
    report = Report(findings=(), accuracy=(OUTPUT, WORST_OUTPUT), line_errors=LINES)
    data = json.loads(write_report(report, "json"))["accuracy"]
    first, second = data["outputs"]
    assert (first["rtol"], first["atol"], first["ulps"]) == (2e-3, 1e-5, 1.5)
    assert first["shares"] == [{"file": "/src/k.py", "line": 4, "share": 0.75}]
    assert (second["ulps"], second["stored"], second["rtol"]) == (None, None, None)
    (line,) = data["lines"]
    assert (line["introduced_ulps"], line["carried_ulps"]) == (0.5, 2.0)
    assert "accuracy" not in json.loads(write_report(Report(findings=()), "json"))


def test_results_of_several_runs_are_united() -> None:
    worse = replace(OUTPUT, ulps=3.0, index="[0]", rtol=1e-3, atol=5e-5, elements=1)
    (output,) = united_outputs([OUTPUT, worse])
    assert (output.ulps, output.index, output.elements) == (3.0, "[0]", 121)
    assert (output.rtol, output.atol) == (2e-3, 5e-5)
    assert sum(output.histogram) == 2 * sum(OUTPUT.histogram)
    assert united_outputs([OUTPUT, WORST_OUTPUT]) == [OUTPUT, WORST_OUTPUT]
    defect = replace(WORST_OUTPUT, argument="o_ptr")
    assert united_outputs([defect, OUTPUT])[0].rtol is None
    (line,) = united_lines([*LINES, replace(LINES[0], operations=("division",), size=6.0)])
    assert line.operations == ("addition", "`exp`", "division")
    assert line.introduced_ulps == 0.25
    assert replace(LINES[0], size=0.0).carried_ulps == 0.0


def test_texts_of_errors() -> None:
    assert [ulps(error) for error in (0.0, 0.123, 12345.6, 2e7)] == [
        "0 ulp",
        "0.12 ulp",
        "12,346 ulp",
        "2e+07 ulp",
    ]
    assert len(bin_labels()) == len(OUTPUT.histogram)
