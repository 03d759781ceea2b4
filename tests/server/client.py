"""A client of the real server, in a folder of the test's own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.protocol import default_converter
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, LanguageClient, register_lsp_features

__all__ = ["Editor", "editor"]

PUBLISHED = "textDocument/publishDiagnostics"
CAPABILITIES = lsp.ClientCapabilities(
    workspace=lsp.WorkspaceClientCapabilities(configuration=True),
    notebook_document=lsp.NotebookDocumentClientCapabilities(lsp.NotebookDocumentSyncClientCapabilities()),
    window=lsp.WindowClientCapabilities(
        work_done_progress=True, show_document=lsp.ShowDocumentClientCapabilities(True)
    ),
)


class Editor:
    """What a person does in an editor, as its client tells the server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # pytest-lsp's own way to wait for a notification misses one that comes right behind another.
        self.published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.client = LanguageClient(converter_factory=default_converter)
        features = {**DEFAULT_CLIENT_FEATURES, PUBLISHED: lambda params: self.published.put_nowait(params)}
        register_lsp_features(self.client, features)
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def open(self, name: str, text: str | None = None) -> list[str]:
        """Open a file, or a text that is not on disk yet; its diagnostics."""
        text = (self.folder / name).read_text("utf-8") if text is None else text
        self.texts[name], self.versions[name] = text, 1
        item = lsp.TextDocumentItem(self.uri(name), "python", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.shown(name)

    def edit(self, name: str, text: str) -> None:
        """Change a text to another one, by the smallest change that does it."""
        old = self.texts[name]
        first = next((i for i, (a, b) in enumerate(zip(old, text, strict=False)) if a != b), None)
        first = min(len(old), len(text)) if first is None else first
        last = 0
        while last < min(len(old), len(text)) - first and old[-1 - last] == text[-1 - last]:
            last += 1
        change = lsp.TextDocumentContentChangePartial(
            lsp.Range(position(old, first), position(old, len(old) - last)), text[first : len(text) - last]
        )
        self.texts[name] = text
        self.versions[name] += 1
        document = lsp.VersionedTextDocumentIdentifier(self.versions[name], self.uri(name))
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def shown(self, name: str) -> list[str]:
        """The diagnostics of a file's last version: ``AMP101:20``."""
        return [f"{d.code}:{d.range.start.line + 1}" for d in await self.diagnostics(name)]

    async def diagnostics(self, name: str) -> Sequence[lsp.Diagnostic]:
        """The diagnostics of a file's last version, once they come."""
        return await self.next(self.uri(name), self.versions[name])

    async def next(self, uri: str, version: int | None = None) -> Sequence[lsp.Diagnostic]:
        """The next diagnostics of a document, or of one of its versions."""
        while True:
            params = await self.published.get()
            if params.uri == uri and version in (None, params.version):
                return list(params.diagnostics)

    async def hover(self, name: str, line: int) -> str:
        """What is shown for a line, counted from 1."""
        document = lsp.TextDocumentIdentifier(self.uri(name))
        hover = await self.client.text_document_hover_async(
            lsp.HoverParams(document, lsp.Position(line - 1, 8))
        )
        return hover.contents.value if hover and isinstance(hover.contents, lsp.MarkupContent) else ""

    async def hints(self, name: str) -> dict[int, str]:
        """The inlay hints, by line from 1."""
        document = lsp.TextDocumentIdentifier(self.uri(name))
        everything = lsp.Range(lsp.Position(0, 0), lsp.Position(1000, 0))
        found = await self.client.text_document_inlay_hint_async(lsp.InlayHintParams(document, everything))
        return {hint.position.line + 1: str(hint.label) for hint in found or ()}


def position(text: str, index: int) -> lsp.Position:
    """A place in a text in lines and UTF-16 units; the test's texts have plain line ends."""
    before = text[:index]
    column = before[before.rfind("\n") + 1 :]
    return lsp.Position(before.count("\n"), len(column.encode("utf-16-le")) // 2)


@asynccontextmanager
async def editor(folder: Path, options: Any = None) -> AsyncIterator[Editor]:
    """A server for a folder, and its client."""
    one = Editor(folder)
    await one.client.start_io(sys.executable, "-m", "ampcheck", "server", "--stdio")
    parameters = lsp.InitializeParams(CAPABILITIES, root_uri=folder.as_uri(), initialization_options=options)
    await one.client.initialize_session(parameters)
    try:
        yield one
    finally:
        await one.client.shutdown_session()
        await one.client.stop()
