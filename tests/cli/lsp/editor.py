"""An editor for tests: a pygls client that starts `ttools lsp` and records its messages."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

_SECONDS = 60


class Editor:
    """A session with a server.

    Attributes:
        client: The language client of pygls.
        diagnostics: The most recently published diagnostics of each file, by URI.
        messages: The messages that the server showed to the user.
        changed: Set whenever diagnostics or a message arrive.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("editor", "1")
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.messages: list[str] = []
        self.changed = asyncio.Event()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.diagnostics[params.uri] = list(params.diagnostics)
            self.changed.set()

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def shown(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self.changed.set()

        @self.client.feature(types.WINDOW_LOG_MESSAGE)
        def logged(params: types.LogMessageParams) -> None:
            pass

    def of(self, name: str) -> list[types.Diagnostic]:
        """Return the diagnostics of a file in the folder."""
        return self.diagnostics.get(self.uri(name), [])

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition on the server's messages holds."""

        async def wait() -> None:
            while not condition():
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), _SECONDS)

    def save(self, name: str) -> None:
        document = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    async def hover(self, name: str, line: int) -> str:
        """Return the text that is shown for a line.

        Args:
            name: Name of the file in the folder.
            line: Number of the line, from 1.
        """
        response = await self.client.text_document_hover_async(
            types.HoverParams(
                types.TextDocumentIdentifier(self.uri(name)), types.Position(line - 1, 2)
            )
        )
        return "" if response is None else str(response.contents.value)  # type: ignore[union-attr]

    async def command(self, name: str, *arguments: str) -> Any:
        params = types.ExecuteCommandParams(name, arguments=list(arguments))
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), _SECONDS)


@asynccontextmanager
async def editing(folder: Path, **settings: Any) -> AsyncIterator[Editor]:
    """Run a server in a folder with settings under `ttools`."""
    editor = Editor(folder)
    await editor.client.start_io(sys.executable, "-m", "ttools_entry", "lsp", "--stdio")
    await editor.client.initialize_async(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(),
            root_uri=folder.as_uri(),
            initialization_options={"ttools": settings},
        )
    )
    editor.client.initialized(types.InitializedParams())
    yield editor
    await editor.client.shutdown_async(None)
    editor.client.exit(None)
    await editor.client.stop()
