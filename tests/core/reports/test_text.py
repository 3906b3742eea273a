"""Tests of the text report: layout, and the wording of arguments and extents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.specs import tensor_argument

from ttools.core.findings.findings import SEVERITIES, Finding, Severity, TallyEntry
from ttools.core.location import SourceLocation, shown_path
from ttools.core.reports.report import (
    Report,
    at_least,
    configs_text,
    most_severe,
    summary,
)
from ttools.core.reports.text import affected_text, argument_text, finding_text, write
from ttools.core.spec import ArgumentSpec, CallSite, LaunchSpec


def test_text_report(report: Report, golden: Callable[[str, str], None]) -> None:
    golden("report.txt", write(report))


def test_layout_of_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text("\n" * 11 + "    x = tl.load(x_ptr + offs)\n")
    finding = Finding(
        kind="oob_load",
        check="memcheck",
        severity="error",
        message="out-of-bounds load of 4 bytes from `x_ptr`",
        kernel="k",
        argument=tensor_argument(
            "x_ptr", dtype="float32", shape=(4000,), strides=(1,), storage_bytes=16_000
        ),
        # The file contains only the body of a function, which does not parse: hence one caret.
        location=SourceLocation(str(path), 12, 9),
        program=(3, 0, 0),
        lane=(1000,),
        shape=(1024,),
        variables=(("offs", "4072"), ("mask", "none")),
        notes=("the access is 288 bytes past its end",),
        count=24,
        programs=1,
        launch=f"{tmp_path / 'bench.py'}:40",
        help="mask the load with `offs < n`",
    )
    assert finding_text(finding, tmp_path) == (
        "kernel.py:12:9: error[oob_load]: out-of-bounds load of 4 bytes from `x_ptr`\n"
        "   12 |     x = tl.load(x_ptr + offs)\n"
        "      |         ^\n"
        "  program (3, 0, 0), lane [1000] of [1024]: offs = 4072, mask = none\n"
        "  x_ptr: float32[4000] (16,000 bytes); the access is 288 bytes past its end\n"
        "  launched from bench.py:40; 24 lanes in 1 program are affected\n"
        "  help: mask the load with `offs < n`"
    )


def test_the_message_of_a_finding_is_wrapped(report: Report, tmp_path: Path) -> None:
    finding = replace(
        report.findings[0],
        location=SourceLocation(str(tmp_path / "a folder" / f"{'long' * 20}.py"), 3, 1),
        message=" ".join(["a message that is wrapped"] * 4),
    )
    assert finding_text(finding, tmp_path).splitlines()[:3] == [
        f"a folder/{'long' * 20}.py:3:1: error[oob_load]:",
        "  a message that is wrapped a message that is wrapped a message that is wrapped",
        "  a message that is wrapped",
    ]


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (ArgumentSpec(name="p"), "p: a raw address"),
        (tensor_argument("p", dtype="int64", shape=()), "p: int64[]"),
        (
            tensor_argument("p", dtype="float8_e5m2", shape=(4,), strides=(1,), storage_bytes=4),
            "p: float8_e5m2[4] (4 bytes)",
        ),
        (
            tensor_argument("p", dtype="bool", shape=(2, 2), strides=(2, 1), storage_bytes=4),
            "p: bool[2, 2] (4 bytes)",
        ),
        (tensor_argument("p", dtype="int8", storage_bytes=1), "p: int8[] (1 byte)"),
        (
            tensor_argument("p", dtype="int32", shape=(4,), strides=(1,), storage_bytes=4096),
            "p: int32[4] of a storage of 4,096 bytes",
        ),
        (
            tensor_argument("p", dtype="int32", shape=(2, 3), strides=(1, 2), offset=1000),
            "p: int32[2, 3] with strides (1, 2)",
        ),
        (
            tensor_argument(
                "p", dtype="int32", shape=(4,), strides=(2,), offset=1000, storage_bytes=4096
            ),
            "p: int32[4] with strides (2) at element 1,000 of a storage of 4,096 bytes",
        ),
    ],
)
def test_argument(argument: ArgumentSpec, expected: str) -> None:
    assert argument_text(argument) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=3))
def test_dense_tensors_have_contiguous_elements(
    dimensions: list[tuple[int, int]],
) -> None:
    shape = tuple(size for size, _ in dimensions)
    strides = tuple(stride for _, stride in dimensions)
    offsets = [0]
    for size, stride in dimensions:
        offsets = [offset + index * stride for offset in offsets for index in range(size)]
    tensor = tensor_argument("p", shape=shape, strides=strides).tensor
    assert tensor is not None
    assert tensor.is_dense == (offsets == list(range(len(offsets))))


@pytest.mark.parametrize(
    ("shape", "count", "programs", "expected"),
    [
        ((8,), 1, 1, "1 lane in 1 program is affected"),
        ((8,), 24, 1, "24 lanes in 1 program are affected"),
        ((8,), 2400, 1000, "2,400 lanes in 1,000 programs are affected"),
        ((8,), 3, 0, "3 lanes are affected"),
        ((), 1, 0, ""),
        ((), 2, 0, "2 times"),
        ((), 1, 1, "1 program is affected"),
        ((), 3, 3, "3 programs are affected"),
        ((), 12, 3, "3 programs are affected, 12 times"),
    ],
)
def test_extent(report: Report, shape: tuple, count: int, programs: int, expected: str) -> None:
    finding = replace(report.findings[0], shape=shape, count=count, programs=programs)
    assert affected_text(finding) == expected


def test_summary_counts(report: Report) -> None:
    assert summary(report) == "2 errors, 1 warning, 1 note in 3 kernels, 18 launches; 1 suppressed"
    clean = Report(findings=(), launches=(TallyEntry(spec=LaunchSpec(kernel="k", grid=(1, 1, 1))),))
    assert summary(clean) == "no finding in 1 kernel, 1 launch"
    assert "no Triton kernel was launched" in summary(Report(findings=()))
    assert "none of the selected Triton kernels" in summary(Report(findings=(), some_only=True))
    more = replace(report, dropped=report.findings[:2])
    assert summary(more).endswith("; 1 suppressed; 2 more not reported (--max-findings)")


@given(st.lists(st.sampled_from(SEVERITIES), max_size=8), st.integers(1, 8))
def test_the_most_severe_findings_are_kept_in_order(severities: list[Severity], limit: int) -> None:
    findings = [
        Finding(kind="k", check="c", severity=severity, message=str(at), kernel="k")
        for at, severity in enumerate(severities)
    ]
    kept, dropped = most_severe(findings, limit)
    assert len(kept) == min(limit, len(findings))
    assert sorted([*kept, *dropped], key=findings.index) == findings
    assert kept == [finding for finding in findings if finding in kept]
    assert all(at_least(a.severity, b.severity) for a in kept for b in dropped)


def test_paths_are_relative_inside_the_root_only(tmp_path: Path) -> None:
    assert shown_path(str(tmp_path / "a" / "b.py"), tmp_path) == "a/b.py"
    assert shown_path("/elsewhere/b.py", tmp_path) == "/elsewhere/b.py"
    assert shown_path("<string>", tmp_path) == "<string>"


def test_configurations_that_did_not_run() -> None:
    def entry(kernel: str, block: int, choices: int) -> TallyEntry:
        return TallyEntry(
            spec=LaunchSpec(
                kernel=kernel,
                grid=(1, 1, 1),
                site=CallSite(config={"BLOCK": block}, choices=choices),
            )
        )

    entries = [
        entry("a", 16, 12),
        entry("a", 16, 10),
        TallyEntry(spec=LaunchSpec(kernel="b", grid=(1, 1, 1))),
    ]
    assert configs_text(entries) == "1 of 12 configurations of `a` ran (--all-configs)"
    assert configs_text([*entries, entry("a", 32, 12)]).startswith("2 of 12 configurations")
    assert configs_text([entry("a", 16, 2), entry("a", 32, 2), entry("c", 1, 1)]) == ""
    many = [entry(name, 16, 2) for name in "abcde"]
    assert configs_text(many).endswith("`c` ran, 2 further kernels likewise (--all-configs)")
