"""The protocol's requests and notifications, each handed to who knows the answer."""

from __future__ import annotations

import os
import sys
import warnings
from tempfile import TemporaryDirectory
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path

from ampcheck import __version__, pages, registry
from ampcheck.finding import Failure
from ampcheck.server import telling
from ampcheck.server.actions import EXPLAIN, actions, touched
from ampcheck.server.checking import Checking
from ampcheck.server.diagnostics import by_document, diagnostic
from ampcheck.server.files import Document
from ampcheck.server.places import Places
from ampcheck.server.preferences import Preferences, read
from ampcheck.server.progress import WorkDone
from ampcheck.server.session import Judged, Outcome, Session
from ampcheck.server.workspace import ExactWorkspace

__all__ = ["serve"]

# Files whose changes on disk can change what is said of those that are open.
WATCHED = ("**/*.{py,ipynb,json,yaml,yml}", "**/pyproject.toml", "**/ampcheck.toml")
NOTEBOOKS = lsp.NotebookDocumentSyncOptions(
    [
        lsp.NotebookDocumentFilterWithCells(
            notebook=lsp.NotebookDocumentFilterNotebookType("jupyter-notebook"),
            cells=[lsp.NotebookCellLanguage("python")],
        )
    ]
)


class Server(LanguageServer):
    """ampcheck's language server."""

    def __init__(self, folder: str) -> None:
        super().__init__("ampcheck", __version__, notebook_document_sync=NOTEBOOKS)
        self.folder = folder
        self.session = Session()
        self.preferences = Preferences()
        self.done = WorkDone(self)
        self.complained: set[Failure] = set()
        self.published: dict[str, tuple[int | None, list[lsp.Diagnostic]]] = {}
        self.checking = Checking(
            self.session, self._open_files, self._publish, self.done.report, self._failed
        )

    # --- documents --------------------------------------------------------------------------------------------

    def begin(self, params: lsp.InitializeParams) -> None:
        """Take over the workspace, and work from its folder, as a check from the command line would."""
        folders = params.workspace_folders or []
        old = self.workspace
        root = old.root_uri or (folders[0].uri if folders else None)
        # pygls makes its own right before it calls this, and gives no other way to have another.
        self.protocol._workspace = ExactWorkspace(
            root,
            lsp.TextDocumentSyncKind.Incremental,
            folders,
            old.position_encoding,
        )
        folder = self.workspace.root_path
        if folder and os.path.isdir(folder):
            os.chdir(folder)
        self.set_preferences(params.initialization_options, check=False)

    def _open_files(self) -> dict[str, Any]:
        workspace = self.workspace
        return workspace.open_files() if isinstance(workspace, ExactWorkspace) else {}

    def judged(self, uri: str) -> tuple[Judged, Document] | None:
        """What is known of a document."""
        for judged in self.session.outcome.files.values():
            for document in judged.file.documents:
                if document.uri == uri:
                    return judged, document
        return None

    def places(self) -> Places:
        """How the client counts places."""
        return Places(self.session.outcome.files, self.workspace.position_codec)

    # --- results ----------------------------------------------------------------------------------------------

    def _publish(self, outcome: Outcome) -> None:
        places = self.places()
        found: dict[str, tuple[int | None, list[lsp.Diagnostic]]] = {}
        for judged in outcome.files.values():
            versions = {document.uri: document.version for document in judged.file.documents}
            for uri, shown in by_document(judged, places).items():
                found[uri] = versions.get(uri), shown
        for findings in outcome.elsewhere.values():
            for finding in findings:
                uri, one = diagnostic(finding, places)
                found.setdefault(uri, (None, []))[1].append(one)
        for uri in self.published.keys() - found.keys():
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
        for uri, (version, shown) in found.items():
            if self.published.get(uri) != (version, shown):
                self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown, version))
        self.published = found
        for failure in set(outcome.failures) - self.complained:
            self.complain(f"{failure.path}: {failure.message}")
        self.complained = set(outcome.failures)
        self.refresh_hints()

    def refresh_hints(self) -> None:
        """Have the client ask for inlay hints again."""
        workspace = self.client_capabilities.workspace
        hints = workspace.inlay_hint if workspace else None
        if self.preferences.inlay_hints and hints is not None and hints.refresh_support:
            self.workspace_inlay_hint_refresh(None)

    def complain(self, message: str) -> None:
        """Say what is wrong with somebody's settings."""
        self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, f"ampcheck: {message}"))

    def _failed(self, error: Exception) -> None:
        message = f"ampcheck failed: {type(error).__name__}: {error}; please report it"
        self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, message))

    async def show(self, name: str, page: str) -> None:
        """Show a page: as a document where the client can, else as a message."""
        window = self.client_capabilities.window
        if window is None or window.show_document is None or not window.show_document.support:
            self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, page))
            return
        file = os.path.join(self.folder, name)
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(page)
        await self.window_show_document_async(lsp.ShowDocumentParams(from_fs_path(file) or ""))

    # --- settings ---------------------------------------------------------------------------------------------

    def set_preferences(self, given: Any, *, check: bool = True) -> None:
        """Use the client's settings; what is wrong with them is shown."""
        hints = self.preferences.inlay_hints
        self.preferences, problems = read(given)
        self.session.settings = self.preferences.nearest
        for problem in problems:
            self.complain(f"settings: {problem}")
        if check:
            self.checking.changed(at_once=True)
            if hints and not self.preferences.inlay_hints:
                self.refresh_hints()


def serve() -> None:
    """Serve on standard input and output until the client says goodbye."""
    warnings.simplefilter("ignore")  # what Python thinks of the code that is being typed
    # Whatever is printed by accident must not get into the protocol.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with TemporaryDirectory(prefix="ampcheck-") as pages_of_rules:
        application(pages_of_rules).start_io(stdout=output)


def application(folder: str) -> Server:
    """The server with everything that it answers; pages to be shown are written to a folder."""
    server = Server(folder)

    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        server.begin(params)

    @server.feature(lsp.INITIALIZED)
    async def initialized(_: lsp.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watched = workspace.did_change_watched_files if workspace else None
        if watched is not None and watched.dynamic_registration:
            watchers = [lsp.FileSystemWatcher(pattern) for pattern in WATCHED]
            options = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = lsp.Registration("files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await server.client_register_capability_async(lsp.RegistrationParams([registration]))

    @server.feature(lsp.SHUTDOWN)
    def shutdown(_: None) -> None:
        server.checking.stop()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_SAVE)
    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed(_: Any) -> None:
        server.checking.changed(at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def edited(_: Any) -> None:
        server.checking.changed()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configured(params: lsp.DidChangeConfigurationParams) -> None:
        workspace = server.client_capabilities.workspace
        given = params.settings.get("ampcheck") if isinstance(params.settings, dict) else None
        if given is None and workspace is not None and workspace.configuration:
            item = lsp.ConfigurationItem(section="ampcheck")
            (given,) = await server.workspace_configuration_async(lsp.ConfigurationParams([item]))
        server.set_preferences(given)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        known = server.judged(params.text_document.uri)
        if known is None:
            return None
        judged, document = known
        line = server.places().line(judged, document, params.position.line)
        text = telling.hover(judged.traces, judged.file.path, line) if line is not None else None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        known = server.judged(params.text_document.uri)
        if known is None or not server.preferences.inlay_hints:
            return []
        judged, document = known
        places = server.places()
        asked = range(params.range.start.line, min(params.range.end.line + 1, len(document.lines)))
        busy = set(telling.hinted(judged.traces, judged.file.path))
        found = []
        for number in asked:
            line = places.line(judged, document, number)
            if line in busy and (said := telling.hint(judged.traces, judged.file.path, line)):
                end = server.workspace.position_codec.client_num_units(document.lines[number])
                found.append(lsp.InlayHint(lsp.Position(number, end), said, padding_left=True))
        return found

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    async def code_actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri, only = params.text_document.uri, params.context.only
        known = server.judged(uri)
        if known is None or (only is not None and lsp.CodeActionKind.QuickFix not in only):
            return []
        judged, places = known[0], server.places()
        fixes = await server.checking.fixes(touched(judged, places, uri, params.range))
        if server.judged(uri) != known:  # the text has changed meanwhile: its client will ask again
            return []
        return list(actions(judged, places, uri, params.range, fixes))

    @server.command(EXPLAIN)
    async def explain(code: str) -> str:
        page = pages.page(registry.find(code, registry.load()))
        await server.show(f"{code}.md", page)
        return page

    return server
