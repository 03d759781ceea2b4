"""pygls's workspace, with lines as the protocol counts them.

pygls splits texts by `str.splitlines`, for which a form feed or U+2028 ends a line as well: an incremental change
behind one would be made in the wrong place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from lsprotocol import types as lsp
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument, Workspace

from ampcheck.server.files import ENDS, Cell, Document, OpenFile, notebook, shown, split, text

__all__ = ["ExactWorkspace", "to_path"]


class ExactDocument(TextDocument):
    """A document whose lines end where the client's do."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines with their ends."""
        return tuple(_with_ends(self.source))


class ExactWorkspace(Workspace):
    """The documents that the client has opened."""

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> TextDocument:
        return ExactDocument(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )

    def open_files(self) -> dict[str, OpenFile]:
        """The Python files and notebooks on disk that are open, by path."""
        cells = {cell.document for notebook in self.notebook_documents.values() for cell in notebook.cells}
        found: dict[str, OpenFile] = {}
        for document in list(self.text_documents.values()):
            path = to_path(document.uri)
            if path and document.uri not in cells and _is_python(document):
                found[path] = text(path, document.uri, document.version, document.source)
        for book in list(self.notebook_documents.values()):
            if path := to_path(book.uri):
                found[path] = self._notebook(path, book)
        return found

    def _notebook(self, path: str, book: lsp.NotebookDocument) -> OpenFile:
        cells: list[tuple[Cell, str]] = []
        for cell in book.cells:
            document = self.text_documents.get(unquote(cell.document))
            if document is None:  # prose, which nobody has asked for
                cells.append((Cell(Document(cell.document, None, ()), code=False), ""))
                continue
            seen = Document(cell.document, document.version, split(document.source))
            is_code = cell.kind == lsp.NotebookCellKind.Code
            cells.append((Cell(seen, is_code, document.language_id or ""), document.source))
        metadata: dict[str, Any] = book.metadata if isinstance(book.metadata, dict) else {}
        kept = {key: value for key, value in metadata.items() if key in ("kernelspec", "language_info")}
        return notebook(path, cells, kept)


def to_path(uri: str) -> str:
    """A file's path as a check shows it; "" for what is not on disk."""
    if not uri.startswith("file:"):
        return ""
    path = to_fs_path(uri)
    return shown(path) if path else ""


def _is_python(document: TextDocument) -> bool:
    return document.language_id == "python" or (document.path or "").endswith((".py", ".pyi"))


def _with_ends(source: str) -> list[str]:
    lines = ENDS.split(source)
    ends = ENDS.findall(source)
    whole = [line + end for line, end in zip(lines, ends, strict=False)]
    return [*whole, lines[-1]] if lines[-1] else whole
