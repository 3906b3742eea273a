"""A whole session of `ttools lsp`: published findings, runs on saving, and commands."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="pygls is not installed")
sys.path.insert(0, str(Path(__file__).parent))
from editor import Editor, editing
from lsprotocol import types

KERNEL = """\
import pathlib, torch, triton, triton.language as tl

@triton.jit
def fill(out, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(out + lanes, 1.0MASK)

pathlib.Path("ran").touch()
fill[(1,)](torch.empty(5), 5, B=8)
"""
WRONG, RIGHT = KERNEL.replace("MASK", ""), KERNEL.replace("MASK", ", mask=lanes < n")


def finding(file: Path, line: int, **more: Any) -> dict[str, Any]:
    location = {"file": str(file), "line": line, "column": 5, "end_column": 9, "callers": []}
    return {
        "kind": "oob_store", "check": "memcheck", "severity": "warning", "message": "it is outside",
        "kernel": "fill", "location": location, "program": [3, 0, 0], "lane": [7], "shape": [8],
        "variables": {"lanes": "7"}, "launch": f"{file}:9", **more,
    }  # fmt: skip


def write_report(path: Path, *findings: dict[str, Any]) -> None:
    path.write_text(json.dumps({"schema": "ttools.report/1", "findings": findings}))


def session(
    folder: Path, steps: Callable[[Editor], Coroutine[Any, Any, None]], **settings: Any
) -> None:
    async def whole() -> None:
        async with editing(folder, **settings) as editor:
            await steps(editor)

    asyncio.run(whole())


def test_findings_follow_changes_of_the_report(tmp_path: Path) -> None:
    script, report = tmp_path / "k.py", tmp_path / "report.json"
    script.write_text(WRONG)

    async def steps(editor: Editor) -> None:
        write_report(report, finding(script, 6))
        await editor.until(lambda: editor.of("k.py"))
        (shown,) = editor.of("k.py")
        assert (shown.range.start.line, shown.range.start.character) == (5, 4)
        assert shown.range.end.character == len("    tl.store(out + lanes, 1.0)")
        assert shown.severity is types.DiagnosticSeverity.Warning
        assert shown.code == "oob_store"
        assert shown.message == "it is outside\nprogram (3, 0, 0), lane [7] of [8]: lanes = 7"
        assert shown.related_information is not None
        (launch,) = shown.related_information
        assert (launch.location.range.start.line, launch.message) == (8, "launched from here")
        text = await editor.hover("k.py", 6)
        assert "**warning[oob_store]: it is outside**" in text
        assert "program (3, 0, 0), lane [7] of [8]: lanes = 7" in text
        assert await editor.hover("k.py", 5) == ""
        write_report(report, finding(script, 6), finding(script, 5, message="another"))
        await editor.until(lambda: len(editor.of("k.py")) == 2)
        report.write_text("{")
        await editor.until(lambda: editor.messages and not editor.of("k.py"))
        assert "is not a report" in editor.messages[0]
        assert not (tmp_path / "ran").exists()

    session(tmp_path, steps, reports=["report.json"])


@pytest.mark.slow
def test_saving_runs_the_command_of_the_setting(tmp_path: Path) -> None:
    script = tmp_path / "k.py"
    script.write_text(WRONG)

    async def steps(editor: Editor) -> None:
        editor.save("k.py")
        await editor.until(lambda: editor.of("k.py"))
        (shown,) = editor.of("k.py")
        assert (shown.code, shown.range.start.line) == ("oob_store", 5)
        assert "lanes = 5" in shown.message
        assert "error[oob_store]: out-of-bounds store" in await editor.hover("k.py", 6)
        script.write_text(RIGHT)
        editor.save("k.py")
        await editor.until(lambda: not editor.of("k.py"))
        assert (tmp_path / "ran").exists()

    session(tmp_path, steps, sanitizeOnSave=["--check memcheck ${file}"])


@pytest.mark.slow
def test_only_requested_commands_run(tmp_path: Path) -> None:
    script = tmp_path / "k.py"
    script.write_text(RIGHT)

    async def steps(editor: Editor) -> None:
        document = types.TextDocumentIdentifier(editor.uri("k.py"))
        text = types.TextDocumentItem(editor.uri("k.py"), "python", 1, RIGHT)
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(text))
        editor.save("k.py")
        start = types.Position(0, 0)
        offered = await editor.client.text_document_code_action_async(
            types.CodeActionParams(document, types.Range(start, start), types.CodeActionContext([]))
        )
        named = [action for action in offered or [] if isinstance(action, types.Command)]
        assert [action.command for action in named] == ["ttools.sanitize", "ttools.profile"]
        assert not (tmp_path / "ran").exists()
        answer = await editor.command(named[1].command, *(named[1].arguments or ()))
        assert "lines counted" in answer
        assert (tmp_path / "ran").exists()
        assert "`fill`: 1 executions; 20 bytes stored; 37.5% of lanes masked off" in (
            await editor.hover("k.py", 6)
        )
        await editor.command("ttools.clear")
        assert await editor.hover("k.py", 6) == ""

    session(tmp_path, steps)


def test_failing_runs_show_their_reason(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text("import time; time.sleep(100)")
    (tmp_path / "broken.py").write_text("raise ValueError('no data')")
    (tmp_path / "plain.py").write_text("print(3)")

    async def steps(editor: Editor) -> None:
        assert "there is no file" in await editor.command("ttools.sanitize", "none.py")
        assert "none.py" in editor.messages[-1]
        answer = await editor.command("ttools.sanitize", "broken.py")
        assert answer.startswith("0 findings; the script ended with status 1")
        assert editor.messages[-1].endswith("until then were checked: ValueError: no data")
        answer = await editor.command("ttools.sanitize", "plain.py")
        assert answer == "0 findings; the script launched no Triton kernel, so nothing was checked"
        assert "plain.py: the script launched no Triton kernel" in editor.messages[-1]
        editor.client.workspace_did_change_configuration(
            types.DidChangeConfigurationParams({"ttools": {"limitSeconds": 0.5}})
        )
        assert "longer than 0.5 s" in await editor.command("ttools.sanitize", "sleeper.py")

    session(tmp_path, steps)


def test_wrong_settings(tmp_path: Path) -> None:
    async def steps(editor: Editor) -> None:
        await editor.until(lambda: editor.messages)
        assert (
            "no setting `ttools.sanitiseOnSave`; did you mean `sanitizeOnSave`?"
            in (editor.messages[0])
        )
        editor.client.workspace_did_change_configuration(
            types.DidChangeConfigurationParams({"ttools": {"limitSeconds": -1}})
        )
        await editor.until(lambda: len(editor.messages) == 2)
        assert "limitSeconds" in editor.messages[1]

    session(tmp_path, steps, sanitiseOnSave=["k.py"])
