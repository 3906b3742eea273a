"""The language server, which answers the requests of an editor.

A run is only started by the commands `ttools.sanitize` and `ttools.profile`, or on saving if
`sanitizeOnSave` is set. It is a process with its own streams and a time limit, and is killed
together with its children. Settings come only from the editor, never from a project's
`pyproject.toml`: opening an untrusted folder must not run its content. Findings are shown as
diagnostics, and counts are shown in hovers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec

from ttools.cli.lsp.reports import LineCounts, Loaded, Reports, Watched, load, same_file
from ttools.core.errors import UsageError, did_you_mean
from ttools.core.findings.edits import edit_of
from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation, extent, location_of_line, source_lines
from ttools.core.process.worker import exit_text
from ttools.core.reports.report import counted
from ttools.core.reports.text import argument_lines, detail_lines, headline, witness_text
from ttools.profiler.metrics import phrases

SOURCE = "ttools"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_STALE = "the file was changed after this run"


def diagnostics(reports: Reports, codec: PositionCodec) -> dict[str, list[types.Diagnostic]]:
    """Return the diagnostics of each file, by path."""
    by_file: dict[str, list[types.Diagnostic]] = {}
    for location, finding, stale in reports.findings():
        by_file.setdefault(location.file, []).append(_diagnostic(location, finding, stale, codec))
    return by_file


def _diagnostic(
    location: SourceLocation, finding: Finding, stale: bool, codec: PositionCodec
) -> types.Diagnostic:
    lines = [finding.message, witness_text(finding), *argument_lines(finding)]
    lines += [f"help: {finding.help}"] if finding.help else []
    lines += [f"({_STALE})"] if stale else []
    return types.Diagnostic(
        range=range_of(location, codec),
        message="\n".join(filter(None, lines)),
        severity=_SEVERITIES[finding.severity],
        code=finding.kind,
        source=f"{SOURCE} {finding.check}",
        related_information=list(_related(location, finding, codec)) or None,
    )


def _related(
    location: SourceLocation, finding: Finding, codec: PositionCodec
) -> Iterable[types.DiagnosticRelatedInformation]:
    related = [(other.message, other.location) for other in finding.related if other.location]
    related += [("called from here", caller) for caller in location.callers]
    if (launch := location_of_line(finding.launch)) is not None:
        related.append(("launched from here", launch))
    for message, location in related:
        if location is not None and Path(location.file).is_absolute():
            where = types.Location(
                uri=Path(location.file).as_uri(), range=range_of(location, codec)
            )
            yield types.DiagnosticRelatedInformation(location=where, message=message)


def range_of(location: SourceLocation, codec: PositionCodec) -> types.Range:
    """Return the range of a location in the editor's units; the whole line if it has no column."""
    lines = source_lines(location.file)
    number = max(0, min(location.line, len(lines)) - 1)
    text = lines[number].rstrip() if lines else ""
    columns = extent(location) or (len(text) - len(text.lstrip()) + 1, len(text) + 1)
    first, end = (types.Position(number, column - 1) for column in columns)
    return codec.range_to_client_units(lines, types.Range(first, end))


def fixes(
    reports: Reports, file: str, first: int, last: int, codec: PositionCodec
) -> list[types.CodeAction]:
    """Return the edits that correct findings on lines of a file, unless it has changed since.

    Args:
        reports: The reports that are shown.
        file: Path of the file.
        first: First line, from 1.
        last: Last line of the range, from 1.
        codec: Converts positions to the editor's units.
    """
    actions = []
    for location, finding, stale in reports.findings():
        wanted = first <= location.line <= last and same_file(location.file, file)
        edit = edit_of(finding) if wanted and not stale else None
        if edit is None:
            continue
        at = types.Position(edit.line - 1, edit.column - 1)
        there = codec.range_to_client_units(source_lines(edit.file), types.Range(at, at))
        changes = {Path(edit.file).as_uri(): [types.TextEdit(there, edit.text)]}
        actions.append(
            types.CodeAction(
                title=edit.title,
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[_diagnostic(location, finding, stale, codec)],
                edit=types.WorkspaceEdit(changes=changes),
            )
        )
    return actions


def hover(reports: Reports, file: str, line: int, root: Path) -> str:
    """Return the findings and counts of a line as Markdown; empty if there are none.

    Args:
        line: Line number, from 1.
        root: Folder to which paths are shown relative.
    """
    blocks = [
        _witness(finding, stale, root)
        for location, finding, stale in reports.findings()
        if location.line == line and same_file(location.file, file)
    ]
    rows = list(reports.lines_at(file, line))
    if rows:
        blocks.append("\n".join(counts_text(row, stale) for row, stale in rows))
    return "\n\n---\n\n".join(blocks)


def _witness(finding: Finding, stale: bool, root: Path) -> str:
    details = "\n".join(line.removeprefix("  ") for line in detail_lines(finding, root))
    note = f"\n\n*{_STALE}*" if stale else ""
    fence = "````" if "```" in details else "```"
    return f"**{headline(finding)}**\n\n{fence}text\n{details}\n{fence}{note}"


def counts_text(row: LineCounts, stale: bool) -> str:
    """Return the counts of a line as a list item.

    An example is `- `add_kernel`: 194 executions; 590,592 bytes loaded; 0.9% of lanes masked off`.
    """
    names = ("executions", "loaded", "stored", "atomic", "flops", "operations")
    parts = phrases(msgspec.structs.asdict(row), *names, "masked_share", "time_share", exact=True)
    note = f" ({_STALE})" if stale else ""
    return f"- `{row.kernel}`: {'; '.join(parts) or 'nothing counted'}{note}"


SECTION = "ttools"
#: Placeholder for the saved file in a line of `sanitizeOnSave`.
FILE = "${file}"
#: Settings that the editor needs only to start the server, but that it also sends to the server.
_EDITORS_OWN = frozenset({"command"})


class EditorSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The settings under `ttools` of an editor.

    Attributes:
        reports: Files of `sanitize` and `profile --format json` to show and reload; relative to the
            workspace.
        sanitize_on_save: Arguments of `ttools sanitize`, one line for each run to start when a
            Python file is saved; empty by default.
        sanitize_options: Options of the runs that the command `ttools.sanitize` starts.
        limit_seconds: Time limit of a run.
    """

    reports: tuple[str, ...] = ()
    sanitize_on_save: tuple[str, ...] = ()
    sanitize_options: tuple[str, ...] = ()
    limit_seconds: Annotated[float, msgspec.Meta(gt=0)] = 600.0

    def runs_for(self, file: str) -> list[tuple[str, ...]]:
        """Return the words of each run to start when a file is saved."""
        return [
            tuple(file if word == FILE else word for word in shlex.split(line))
            for line in self.sanitize_on_save
        ]


def read_editor_settings(sent: Any) -> EditorSettings:
    """Return the settings that an editor sent: the section, or an object that contains it.

    Raises:
        UsageError: A setting does not exist or has another type.
    """
    if sent is None:
        return EditorSettings()
    if isinstance(sent, Mapping) and SECTION in sent:
        sent = sent[SECTION] or {}
    names = [field.encode_name for field in msgspec.structs.fields(EditorSettings)]
    for name in sent if isinstance(sent, Mapping) else ():
        if name not in names and name not in _EDITORS_OWN:
            raise UsageError(f"there is no setting `{SECTION}.{name}`{did_you_mean(name, names)}")
    try:
        settings = msgspec.convert(sent, EditorSettings)
    except ValueError as error:
        raise UsageError(f"a setting under `{SECTION}` is wrong: {error}") from error
    for line in settings.sanitize_on_save:
        try:
            shlex.split(line)
        except ValueError as error:
            raise UsageError(f"`{SECTION}.sanitizeOnSave` contains `{line}`: {error}") from error
    return settings


_TAIL = 4000


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        report: The report; None if the run wrote none.
        said: Last part of the run's output.
        failure: Reason why there is no report, as a sentence; empty if there is one.
    """

    report: Loaded | None
    said: str
    failure: str = ""


async def run(command: str, words: Sequence[str], folder: Path, limit: float) -> Outcome:
    """Run a command; cancellation kills it and its child processes.

    Args:
        command: Name of the command, `sanitize` or `profile`.
        words: Options, the script and its arguments.
        folder: Working directory of the command.
        limit: Time limit in seconds.
    """
    began = time.time()
    with TemporaryDirectory(prefix="ttools-lsp-") as scratch:
        report, output = Path(scratch, "report.json"), Path(scratch, "output.txt")
        # The entry file is started directly, because `-m` would add the workspace to `sys.path`.
        line = [sys.executable, _entry_file(), command]
        line += ["--format", "json", "--output", str(report), *words]
        with output.open("wb") as stream:
            process = await asyncio.create_subprocess_exec(
                *line,
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
            late = False
            try:
                await asyncio.wait_for(process.wait(), limit)
            except asyncio.TimeoutError:
                late = True
            finally:
                await _end(process)
        said = output.read_bytes()[-_TAIL:].decode(errors="replace")
        if late:
            return Outcome(None, said, f"it took longer than {limit:g} s (ttools.limitSeconds)")
        if not report.exists():
            ended = f"the process {exit_text(process.returncode)}"
            return Outcome(None, said, _last_error(said) or ended)
        try:
            return Outcome(load(report, began), said)
        except UsageError as error:
            return Outcome(None, said, str(error))


def _entry_file() -> str:
    """Return the file that the `ttools` command starts."""
    spec = find_spec("ttools_entry")
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # including processes that the script has left
    except ProcessLookupError:
        return
    await process.wait()


#: Matches an error of ttools, and the last line of a traceback.
_ERROR = re.compile(r"error: |[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b")


def _last_error(said: str) -> str:
    """Return the last line that reports an error."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or [""])[-1].removeprefix("error: ").strip()


SANITIZE, PROFILE, CLEAR = "ttools.sanitize", "ttools.profile", "ttools.clear"
_TITLES = {
    SANITIZE: "ttools: run this file under the sanitizer",
    PROFILE: "ttools: run this file and count the operations of its lines",
}
#: Seconds between checks of the report files, since not all editors report changed files.
_POLL = 0.5


class Server(LanguageServer):
    """A language server with the reports that it shows.

    Attributes:
        initial_settings: Settings in the editor's first message, not validated yet.
    """

    def __init__(self, own_version: str) -> None:
        super().__init__("ttools", own_version)
        self.settings = EditorSettings()
        self.initial_settings: Any = None
        self.reports = Reports()
        self._watched = Watched()
        self._shown: set[str] = set()
        self._runs: dict[object, asyncio.Task[Outcome]] = {}
        self._poll: asyncio.Task[None] | None = None

    @property
    def root(self) -> Path:
        """Return the folder of the workspace."""
        folder = self.workspace.root_path
        return Path(folder) if folder else Path.cwd()

    def take_settings(self, sent: Any) -> None:
        """Apply the editor's settings, or show what is wrong with them."""
        try:
            self.settings = read_editor_settings(sent)
        except UsageError as error:
            self.show(str(error), types.MessageType.Error)

    def show(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.window_show_message(types.ShowMessageParams(type=kind, message=f"ttools: {message}"))

    def publish(self) -> None:
        """Update the diagnostics that the editor shows."""
        by_file = diagnostics(self.reports, self.workspace.position_codec)
        by_uri = {
            Path(file).as_uri(): entries
            for file, entries in by_file.items()
            if Path(file).is_absolute()
        }
        for uri in sorted(self._shown | by_uri.keys()):
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(uri=uri, diagnostics=by_uri.get(uri, []))
            )
        self._shown = set(by_uri)

    def watch(self) -> None:
        """Begin to check the report files periodically."""
        self._poll = asyncio.get_running_loop().create_task(self._keep_reading())

    async def _keep_reading(self) -> None:
        while True:
            self.read_reports()
            await asyncio.sleep(_POLL)

    def read_reports(self) -> None:
        paths = [self.root / name for name in self.settings.reports]
        changed = list(self._watched.changed(paths))
        for path, exists in changed:
            self.reports.loaded.pop(path, None)
            if exists:
                try:
                    self.reports.loaded[path] = load(path)
                except UsageError as error:
                    self.show(str(error), types.MessageType.Error)
        if changed:
            self.publish()

    async def start(self, command: str, words: Sequence[str]) -> str:
        """Run `sanitize` or `profile`, cancelling any identical run that is still in progress.

        Returns:
            A sentence about the outcome.
        """
        key = (command, *words)
        if (earlier := self._runs.get(key)) is not None:
            earlier.cancel()
        task = asyncio.ensure_future(run(command, words, self.root, self.settings.limit_seconds))
        self._runs[key] = task
        async with self._progress(f"ttools {command} {' '.join(words)}"):
            try:
                outcome = await task
            except asyncio.CancelledError:
                task.cancel()
                return f"ttools {command}: cancelled"
            finally:
                if self._runs.get(key) is task:
                    del self._runs[key]
        return self._ended(command, key, outcome)

    def _ended(self, command: str, key: tuple[str, ...], outcome: Outcome) -> str:
        if outcome.said.strip():
            message = types.LogMessageParams(type=types.MessageType.Log, message=outcome.said)
            self.window_log_message(message)
        if outcome.report is None:
            self.reports.loaded.pop(key, None)
            self.publish()
            sentence = (
                f"ttools {command} {' '.join(key[1:])} did not write a report: {outcome.failure}"
            )
            self.show(sentence, types.MessageType.Error)
            return sentence
        self.reports.loaded[key] = outcome.report
        self.publish()
        if command == "profile":
            return f"{len(outcome.report.lines):,} lines counted; hover over a line for its counts"
        findings = counted(len(outcome.report.findings), "finding")
        incomplete = ""
        if outcome.report.status:
            incomplete = (
                f"the script ended with status {outcome.report.status}, so only its launches until "
                f"then were checked: {_last_error(outcome.said)}"
            )
        elif not outcome.report.launched:
            incomplete = "the script launched no Triton kernel, so nothing was checked"
        if incomplete:
            self.show(f"{' '.join(key[1:])}: {incomplete}", types.MessageType.Warning)
        return f"{findings}; {incomplete}" if incomplete else findings

    @contextlib.asynccontextmanager
    async def _progress(self, title: str) -> Any:
        """Show that a run is in progress, if the editor supports that."""
        window = self.client_capabilities.window
        if window is None or not window.work_done_progress:
            yield
            return
        token = str(uuid4())
        await self.work_done_progress.create_async(token)
        self.work_done_progress.begin(token, types.WorkDoneProgressBegin(title=title))
        try:
            yield
        finally:
            self.work_done_progress.end(token, types.WorkDoneProgressEnd())

    def end_runs(self) -> None:
        for task in list(self._runs.values()):
            task.cancel()
        if self._poll is not None:
            self._poll.cancel()


def new_server() -> Server:
    """Return a server with all features, not started."""
    server = Server(version("ttools-cli"))

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.initial_settings = params.initialization_options

    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        server.take_settings(server.initial_settings)
        server.watch()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        if params.settings:  # editors without settings send an empty object
            server.take_settings(params.settings)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        file = to_fs_path(params.text_document.uri)
        if file is not None and file.endswith(".py"):
            runs = server.settings.runs_for(file)
            await asyncio.gather(*(server.start("sanitize", words) for words in runs))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        file = to_fs_path(params.text_document.uri)
        text = hover(server.reports, file or "", params.position.line + 1, server.root)
        if not text:
            return None
        return types.Hover(types.MarkupContent(kind=types.MarkupKind.Markdown, value=text))

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION)
    def actions(params: types.CodeActionParams) -> list[types.Command | types.CodeAction]:
        return _actions(server, params)

    @server.command(SANITIZE)
    async def sanitize(*words: str) -> str:
        return await server.start("sanitize", [*server.settings.sanitize_options, *_files(words)])

    @server.command(PROFILE)
    async def profile(*words: str) -> str:
        return await server.start("profile", ["--line-times", *_files(words)])

    @server.command(CLEAR)
    def clear() -> None:
        server.reports.loaded.clear()
        server.publish()

    @server.feature(types.SHUTDOWN)
    def shutdown(_: None) -> None:
        server.end_runs()

    return server


def _actions(
    server: Server, params: types.CodeActionParams
) -> list[types.Command | types.CodeAction]:
    """Return the edits for the lines of a request, and the commands for its file."""
    file = to_fs_path(params.text_document.uri) or ""
    only = params.context.only
    if not file.endswith(".py"):
        return []
    actions: list[types.Command | types.CodeAction] = []
    if not only or types.CodeActionKind.QuickFix in only:
        lines = params.range.start.line + 1, params.range.end.line + 1
        actions += fixes(server.reports, file, *lines, server.workspace.position_codec)
    # Requests for specific kinds, such as fixes on save, get no commands.
    if only:
        return actions
    uri = params.text_document.uri
    return actions + [
        types.Command(title, name, arguments=[uri]) for name, title in _TITLES.items()
    ]


def _files(words: Sequence[str]) -> list[str]:
    """Replace the URIs of documents by paths."""
    return [to_fs_path(word) or word if word.startswith("file:") else word for word in words]
