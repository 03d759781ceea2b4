"""Places of findings as the client counts them, and back: its documents, and columns in its units."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from lsprotocol import types as lsp
from pygls.uris import from_fs_path
from pygls.workspace import PositionCodec

from ampcheck.events import Site
from ampcheck.server.files import Document, split
from ampcheck.server.session import Judged
from ampcheck.source import Unreadable, read_bytes

__all__ = ["Places"]

# What `ampcheck.source` takes out of a text before it is read.
INVISIBLE = "\f\ufeff"


@dataclass(frozen=True, slots=True)
class Places:
    """The open files by path, and the units of the client."""

    files: Mapping[str, Judged]
    codec: PositionCodec

    def location(self, site: Site) -> lsp.Location:
        """A place to be shown; one without an extent is the rest of its line."""
        found = self.span(site)
        if found.range.start == found.range.end:
            _, lines, inside = self._inside(site)
            found.range.end = self.position(lines, inside.line, len(_line(lines, inside.line)) + 1)
        return found

    def span(self, site: Site) -> lsp.Location:
        """A place in an open file, or in one on disk."""
        uri, lines, inside = self._inside(site)
        start = self.position(lines, inside.line, inside.column)
        return lsp.Location(uri, lsp.Range(start, self.position(lines, inside.end_line, inside.end_column)))

    def _inside(self, site: Site) -> tuple[str, tuple[str, ...], Site]:
        """The URI of the document that a place lies in, its lines, and the place within it."""
        judged = self.files.get(site.path)
        if judged is None:
            return _uri(site.path), _on_disk(site.path), site
        documents = judged.file.documents
        if not judged.file.cells:
            return documents[0].uri, documents[0].lines, site
        at = judged.cells.place(site) if judged.cells is not None else None
        if at is None or not 0 < at.cell <= len(documents):
            return _uri(site.path), (), Site(site.path, 1, 1, 1, 1)
        inside = Site(site.path, at.line, at.column, at.end_line, at.end_column)
        return documents[at.cell - 1].uri, documents[at.cell - 1].lines, inside

    def line(self, judged: Judged, document: Document, line: int) -> int | None:
        """A line of a document (from 0) as runs count it, from 1; of a notebook, as a line of its module."""
        number = line + 1
        if judged.file.cells:
            cell = judged.file.documents.index(document) + 1
            lines = judged.cells.lines if judged.cells is not None else ()
            found = (n for n, at in enumerate(lines, start=1) if (at.cell, at.number) == (cell, line + 1))
            number = next(found, 0)
        return (judged.shift.back(number) if judged.shift is not None else number) if number else None

    def position(self, lines: tuple[str, ...], line: int, column: int) -> lsp.Position:
        """A place by line and column, from 1, in some lines."""
        text = _line(lines, line)
        before = text[: column - 1]
        while (missing := column - 1 - sum(c not in INVISIBLE for c in before)) > 0 and len(before) < len(
            text
        ):
            before = text[: len(before) + missing]
        return lsp.Position(line - 1, self.codec.client_num_units(before))


def _line(lines: tuple[str, ...], line: int) -> str:
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _uri(path: str) -> str:
    return from_fs_path(os.path.abspath(path)) or ""


def _on_disk(path: str) -> tuple[str, ...]:
    try:
        return split(read_bytes(path).decode("utf-8", "replace"))
    except Unreadable:
        return ()
