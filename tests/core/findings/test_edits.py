"""Edits that add a missing mask, and cases in which no edit is certain."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from ttools.core.findings.edits import edit_of, similar_mask
from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation
from ttools.core.reports.registry import write_report
from ttools.core.reports.report import Report

KERNEL = """\
@triton.jit
def k(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    {first}
    {second}
"""


def finding(file: Path, first: str, second: str, kind: str = "oob_store") -> Finding:
    """Return a finding about the second statement."""
    file.write_text(KERNEL.format(first=first, second=second))
    column = 5 + second.index("tl.")
    location = SourceLocation(str(file), 6, column)
    return Finding(
        kind=kind, check="memcheck", severity="error", message="m", kernel="k", location=location
    )


def corrected(found: Finding) -> str | None:
    """Return the line of a finding with its edit."""
    edit = edit_of(found)
    if edit is None:
        return None
    lines = Path(edit.file).read_text().splitlines()
    line = lines[edit.line - 1]
    lines[edit.line - 1] = line[: edit.column - 1] + edit.text + line[edit.column - 1 :]
    ast.parse("\n".join(lines))
    return lines[edit.line - 1].strip()


OTHER = ", with `other=` for the remaining lanes"
LOAD = "x = tl.load(x_ptr + offs, mask=inside, other=0.0)"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (LOAD, "tl.store(out_ptr + offs, x)", "tl.store(out_ptr + offs, x, mask=inside)"),
        (LOAD, "tl.store(offs + out_ptr, x,)", "tl.store(offs + out_ptr, x, mask=inside,)"),
        (
            "x = tl.load(x_ptr + offs, offs < n)",
            "tl.store(out_ptr + offs, x)  # é",
            "tl.store(out_ptr + offs, x, mask=offs < n)  # é",
        ),
    ],
)
def test_a_store_gets_the_mask_of_its_tile(
    first: str, second: str, expected: str, tmp_path: Path
) -> None:
    assert corrected(finding(tmp_path / "k.py", first, second)) == expected


def test_a_load_gets_mask_and_other_of_a_load(tmp_path: Path) -> None:
    second = "y = tl.load(y_ptr + offs)"
    found = finding(tmp_path / "k.py", LOAD, second, "oob_load")
    assert corrected(found) == "y = tl.load(y_ptr + offs, mask=inside, other=0.0)"
    store = "tl.store(out_ptr + offs, 1.0, mask=inside)"
    assert corrected(finding(tmp_path / "k.py", store, second, "oob_load")) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LOAD, "tl.store(out_ptr + 2 * offs, x)"),  # another tile
        (LOAD, "tl.store(out_ptr + offs, x, mask=offs < n + 1)"),  # a wrong mask, but a mask
        (LOAD.replace("offs,", "n,"), "tl.store(out_ptr + offs, x)"),
        (LOAD + "; inside = offs < 2 * n", "tl.store(out_ptr + offs, x)"),  # two values
        (LOAD + "; y = tl.load(y_ptr + offs, mask=offs < 3)", "tl.store(out_ptr + offs, x)"),
        ("if n > 3: own = offs < n; x = tl.load(x_ptr + offs, own)", "tl.store(x_ptr + offs, 1)"),
        ("x = 1", "tl.store(out_ptr + offs, x)"),
        (LOAD, "tl.store(out_ptr, x)"),
        (LOAD, "tl.store(out_ptr + offs, x, **options)"),
    ],
)
def test_no_edit_where_the_correction_is_not_certain(
    first: str, second: str, tmp_path: Path
) -> None:
    assert corrected(finding(tmp_path / "k.py", first, second)) is None


def test_other_findings_have_no_edit(tmp_path: Path) -> None:
    second = "tl.store(out_ptr + offs, x)"
    assert edit_of(finding(tmp_path / "k.py", LOAD, second, "race")) is None
    (tmp_path / "k.py").write_text("x = (")
    assert edit_of(finding(tmp_path / "other.py", LOAD, second)) is not None


def test_sarif_has_the_edit_as_a_fix(tmp_path: Path) -> None:
    found = finding(tmp_path / "k.py", LOAD, "tl.store(out_ptr + offs, x)")
    log = json.loads(write_report(Report(findings=(found,), root=tmp_path), "sarif"))
    (fix,) = log["runs"][0]["results"][0]["fixes"]
    assert fix["description"]["text"] == "Add `mask=inside` to this store"
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "k.py"
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 6, "startColumn": 31, "endLine": 6, "endColumn": 31},
            "insertedContent": {"text": ", mask=inside"},
        }
    ]


def test_the_brief_report_has_a_line_for_each_finding(tmp_path: Path) -> None:
    found = finding(tmp_path / "k.py", LOAD, "tl.store(out_ptr + offs, x)")
    text = write_report(Report(findings=(found,), root=tmp_path, target="k.py"), "brief")
    assert len(text.splitlines()) == 3
    data = json.loads(text)
    assert data["schema"] == "ttools.brief/1"
    assert data["findings"] == [
        {
            "severity": "error",
            "kind": "oob_store",
            "place": "k.py:6:5",
            "kernel": "k",
            "message": "m",
            "edit": "insert `, mask=inside` at 6:31",
        }
    ]
    empty = json.loads(write_report(Report(findings=()), "brief"))
    assert empty["findings"] == []


@pytest.mark.parametrize(
    ("first", "second", "advice"),
    [
        (
            LOAD,
            "tl.store(out_ptr + offs, x)",
            "mask the store like the load in line 5: `mask=inside`",
        ),
        (
            "tl.store(out_ptr + offs, 1.0, mask=offs < n)",
            "x = tl.load(x_ptr + offs)",
            f"mask the load like the store in line 5: `mask=offs < n`{OTHER}",
        ),
        (
            LOAD,
            "y = tl.load(y_ptr + offs)",
            "mask the load like the load in line 5: `mask=inside, other=0.0`",
        ),
        (LOAD, "tl.store(out_ptr + offs * 2, x)", None),
        (LOAD, "tl.store(out_ptr + offs, x, mask=offs < n)", None),
        (f"{LOAD}; tl.store(y_ptr + offs, x, mask=x > 0)", "tl.store(out_ptr + offs, x)", None),
    ],
)
def test_advice_to_use_the_mask_of_another_access(
    tmp_path: Path, first: str, second: str, advice: str | None
) -> None:
    location = finding(tmp_path / "k.py", first, second).location
    assert location is not None
    assert similar_mask(location) == advice
