"""Parts of `ttools lsp` that need no editor: settings, columns, changed files, a missing pygls."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("pygls", reason="pygls is not installed")
from lsprotocol import types
from pygls.workspace import PositionCodec

from ttools.cli.lsp.reports import LineCounts, Loaded, Reports, Watched, load, shown_at
from ttools.cli.lsp.server import (
    counts_text,
    diagnostics,
    fixes,
    range_of,
    read_editor_settings,
)
from ttools.core.errors import UsageError
from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation

ROOT = Path(__file__).parents[3]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def finding(location: SourceLocation | None, launch: str | None = None) -> Finding:
    return Finding(
        kind="race", check="racecheck", severity="error", message="m", kernel="k",
        location=location, launch=launch,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "first"),
    [
        (types.PositionEncodingKind.Utf8, 9),
        (types.PositionEncodingKind.Utf16, 7),
        (types.PositionEncodingKind.Utf32, 6),
    ],
)
def test_columns_count_code_units_of_the_encoding(
    tmp_path: Path, encoding: types.PositionEncodingKind, first: int
) -> None:
    file = tmp_path / "k.py"
    file.write_text('"😀"; f(x)\n', "utf-8")
    byte = '"😀"; f(x)'.encode().index(b"f(x)") + 1
    span = range_of(SourceLocation(str(file), 1, byte), PositionCodec(encoding))
    assert span == types.Range(types.Position(0, first - 1), types.Position(0, first + 3))


def test_an_editor_is_offered_the_missing_mask(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "def k(x_ptr, y_ptr, n):\n"
        "    m = offs < n\n"
        "    x = tl.load(x_ptr + offs, mask=m)\n"
        "    tl.store(y_ptr + offs, x)\n"
    )
    store = replace(finding(SourceLocation(str(file), 4, 5)), kind="oob_store")
    reports = Reports({"run": Loaded(time.time() + 60, findings=(store,))})
    codec = PositionCodec()
    assert fixes(reports, str(file), 1, 3, codec) == []
    (action,) = fixes(reports, str(file), 4, 4, codec)
    assert action.title == "Add `mask=m` to this store"
    assert action.kind == types.CodeActionKind.QuickFix
    at = types.Position(3, 28)
    assert action.edit.changes == {file.as_uri(): [types.TextEdit(types.Range(at, at), ", mask=m")]}
    outdated = Reports({"run": Loaded(0, findings=(store,))})
    assert fixes(outdated, str(file), 4, 4, codec) == []


def test_findings_at_missing_lines_are_still_shown(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    codec = PositionCodec()
    file.write_text("  a = 1\n\n")
    whole = types.Range(types.Position(0, 2), types.Position(0, 7))
    assert range_of(SourceLocation(str(file), 1, 0), codec) == whole
    for line in (0, 2, 100):
        assert range_of(SourceLocation(str(file), line, 9), codec).start.line <= 1
    assert range_of(SourceLocation(str(tmp_path / "none"), 3, 1), codec).start.line == 0


def test_findings_without_a_location_are_shown_at_their_launch() -> None:
    library = SourceLocation("/x/triton/language/standard.py", 5, 1)
    caller = SourceLocation("/y/k.py", 7, 3)
    inlined = SourceLocation(library.file, 5, 1, callers=(caller,))
    assert shown_at(finding(inlined)) == caller
    assert shown_at(finding(library, "/y/run.py:9")) == SourceLocation("/y/run.py", 9, 0)
    assert shown_at(finding(None)) is None


def test_reports_older_than_the_source_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("f(x)\n")
    defect = finding(SourceLocation(str(file), 1, 1))
    written = file.stat().st_mtime
    for created, stale in ((written + 1, False), (written - 1, True)):
        reports = Reports({"run": Loaded(created, (defect,))})
        ((shown,),) = diagnostics(reports, PositionCodec()).values()
        assert ("changed after this run" in shown.message) is stale


def test_files_are_read_once_they_stop_changing(tmp_path: Path) -> None:
    file, watched = tmp_path / "r.json", Watched()
    assert list(watched.changed([file])) == []
    file.write_text("half")
    assert list(watched.changed([file])) == []
    file.write_text("half and half")
    assert list(watched.changed([file])) == []
    assert list(watched.changed([file])) == [(file, True)]
    assert list(watched.changed([file])) == []
    file.write_text("anew")
    os.utime(file, (time.time() - 60,) * 2)
    assert list(watched.changed([file])) == [(file, True)]
    file.unlink()
    assert list(watched.changed([file])) == [(file, False)]
    file.write_text("x")
    os.utime(file, (time.time() - 60,) * 2)
    assert list(watched.changed([file])) == [(file, True)]
    assert list(watched.changed([])) == [(file, False)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1, 2]", "is not a report: write one with"),
        ('{"schema": "ttools.tuning/1"}', "is not a report: write one with"),
        ('{"schema": "ttools.report/1"}', "is a damaged report"),
        ('{"schema": "ttools.profile/1", "lines": [{"kernel": 3}]}', "is a damaged profile"),
    ],
)
def test_invalid_reports_are_described(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        load(file)
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "none.json")


def test_settings() -> None:
    settings = read_editor_settings({"ttools": {"sanitizeOnSave": ["--check all ${file} 'a b'"]}})
    assert settings.runs_for("/k.py") == [("--check", "all", "/k.py", "a b")]
    assert read_editor_settings(None).runs_for("/k.py") == []
    assert read_editor_settings({"ttools": None}) == read_editor_settings({})
    for wrong, message in (
        ({"reports": "r.json"}, "array"),
        ({"sanitizeOnSave": ["'"]}, "No closing quotation"),
        ({"limit": 3}, "no setting `ttools.limit`"),
        ("text", "object"),
    ):
        with pytest.raises(UsageError, match=message):
            read_editor_settings(wrong)


def test_the_extension_offers_the_settings_of_the_server() -> None:
    text = (ROOT / "editors" / "vscode" / "package.json").read_text("utf-8")
    offered = json.loads(text)["contributes"]["configuration"]["properties"]
    defaults = {
        name.removeprefix("ttools."): setting["default"] for name, setting in offered.items()
    }
    settings = read_editor_settings(defaults)
    assert settings == read_editor_settings(None)
    assert defaults.keys() - {"command"} == msgspec.to_builtins(settings).keys()
    page = (ROOT / "docs" / "editors.md").read_text("utf-8")
    table = page.partition("| setting |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `ttools\.(\w+)` \|", table, re.M)) == defaults.keys()


def test_counts() -> None:
    row = LineCounts(kernel="k", file="/k.py", line=1, executions=2, flops=4096, time_share=0.5)
    assert counts_text(row, False) == "- `k`: 2 executions; 4,096 flop; 50.0% of the CPU time"
    empty = LineCounts(kernel="k", file="/k.py", line=1)
    assert counts_text(empty, True).startswith("- `k`: nothing counted (the file was changed")


def test_without_pygls(called_ttools: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttools.cli.lsp.command.find_spec", lambda _: None)
    result = called_ttools("lsp")
    assert result.returncode == 2
    assert "pip install 'triton-ttools[lsp]'" in result.stderr
