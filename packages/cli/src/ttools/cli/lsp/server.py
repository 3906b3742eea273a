"""The language server: what an editor asks, and the answers.

Owns the protocol and the state between two requests. A run is started by the command
`ttools.sanitize` or `ttools.profile`, or by saving where `sanitizeOnSave` says so; by nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from ttools.cli.lsp.reports import Reports, Watched, load
from ttools.cli.lsp.running import Outcome, run
from ttools.cli.lsp.settings import EditorSettings, read_editor_settings
from ttools.cli.lsp.shown import diagnostics, hover
from ttools.core.errors import UsageError

SANITIZE, PROFILE, CLEAR = "ttools.sanitize", "ttools.profile", "ttools.clear"
_TITLES = {
    SANITIZE: "ttools: run this file under the sanitizer",
    PROFILE: "ttools: run this file and count what its lines do",
}
#: Seconds between two looks at the report files. Not all editors report changed files.
_POLL = 0.5


class Server(LanguageServer):
    """A language server with the reports that it shows.

    Attributes:
        given: those that came with its first message, as they came.
    """

    def __init__(self, own_version: str) -> None:
        super().__init__("ttools", own_version)
        self.settings = EditorSettings()
        self.given: Any = None
        self.reports = Reports()
        self._watched = Watched()
        self._shown: set[str] = set()
        self._runs: dict[object, asyncio.Task[Outcome]] = {}
        self._poll: asyncio.Task[None] | None = None

    @property
    def root(self) -> Path:
        """The folder of the workspace."""
        folder = self.workspace.root_path
        return Path(folder) if folder else Path.cwd()

    def take_settings(self, given: Any) -> None:
        """Takes what the editor has sent; shows the user what is wrong with it."""
        try:
            self.settings = read_editor_settings(given)
        except UsageError as error:
            self.show(str(error), types.MessageType.Error)

    def show(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.window_show_message(types.ShowMessageParams(type=kind, message=f"ttools: {message}"))

    def publish(self) -> None:
        """Shows what the reports find, and no longer what they do not."""
        found = diagnostics(self.reports, self.workspace.position_codec)
        by_uri = {
            Path(file).as_uri(): own for file, own in found.items() if Path(file).is_absolute()
        }
        for uri in sorted(self._shown | by_uri.keys()):
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(uri=uri, diagnostics=by_uri.get(uri, []))
            )
        self._shown = set(by_uri)

    def watch(self) -> None:
        """Begins to look at the report files, again and again."""
        self._poll = asyncio.get_running_loop().create_task(self._keep_reading())

    async def _keep_reading(self) -> None:
        while True:
            self.read_reports()
            await asyncio.sleep(_POLL)

    def read_reports(self) -> None:
        paths = [self.root / name for name in self.settings.reports]
        changed = list(self._watched.changed(paths))
        for path, there in changed:
            self.reports.loaded.pop(path, None)
            if there:
                try:
                    self.reports.loaded[path] = load(path)
                except UsageError as error:
                    self.show(str(error), types.MessageType.Error)
        if changed:
            self.publish()

    async def start(self, command: str, words: Sequence[str]) -> str:
        """Runs `sanitize` or `profile`, in the place of the same run if there is one.

        Returns:
            The outcome in a sentence.
        """
        key = (command, *words)
        if (before := self._runs.get(key)) is not None:
            before.cancel()
        task = asyncio.ensure_future(run(command, words, self.root, self.settings.limit_seconds))
        self._runs[key] = task
        async with self._progress(f"ttools {command} {' '.join(words)}"):
            try:
                outcome = await task
            except asyncio.CancelledError:
                task.cancel()
                return f"ttools {command}: ended before its time"
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
            sentence = f"ttools {command} {' '.join(key[1:])} gave no report: {outcome.failure}"
            self.show(sentence, types.MessageType.Error)
            return sentence
        self.reports.loaded[key] = outcome.report
        self.publish()
        if command == "profile":
            return f"{len(outcome.report.lines):,} lines counted; hover them"
        return f"{len(outcome.report.findings):,} findings"

    @contextlib.asynccontextmanager
    async def _progress(self, title: str) -> Any:
        """Shows that something runs, where the editor can."""
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
    """A server with all it answers, not started."""
    server = Server(version("ttools-cli"))

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.given = params.initialization_options

    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        server.take_settings(server.given)
        server.watch()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        if params.settings:  # editors that have none send an empty object
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
    def actions(params: types.CodeActionParams) -> list[types.Command]:
        # Editors that ask for a kind, as to apply fixes on save, get none.
        if params.context.only or not (to_fs_path(params.text_document.uri) or "").endswith(".py"):
            return []
        uri = params.text_document.uri
        return [types.Command(title, name, arguments=[uri]) for name, title in _TITLES.items()]

    @server.command(SANITIZE)
    async def sanitize(*words: str) -> str:
        return await server.start("sanitize", [*server.settings.sanitize_options, *_files(words)])

    @server.command(PROFILE)
    async def profile(*words: str) -> str:
        return await server.start("profile", _files(words))

    @server.command(CLEAR)
    def clear() -> None:
        server.reports.loaded.clear()
        server.publish()

    @server.feature(types.SHUTDOWN)
    def shutdown(_: None) -> None:
        server.end_runs()

    return server


def _files(words: Sequence[str]) -> list[str]:
    """Words of a run, with the paths of documents for their URIs."""
    return [to_fs_path(word) or word if word.startswith("file:") else word for word in words]
