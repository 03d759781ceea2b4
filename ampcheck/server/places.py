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
        """A place in an open file, or in one on disk."""
        judged = self.files.get(site.path)
        if judged is None:
            return lsp.Location(_uri(site.path), self._range(_on_disk(site.path), site))
        if not judged.file.cells:
            document = judged.file.documents[0]
            return lsp.Location(document.uri, self._range(document.lines, site))
        if judged.cells is None:
            return lsp.Location(_uri(site.path), _START)
        at = judged.cells.place(site)
        if not 0 < at.cell <= len(judged.file.documents):
            return lsp.Location(_uri(site.path), _START)
        document = judged.file.documents[at.cell - 1]
        inside = Site(site.path, at.line, at.column, at.end_line, at.end_column)
        return lsp.Location(document.uri, self._range(document.lines, inside))

    def line(self, judged: Judged, document: Document, line: int) -> int | None:
        """A line of a document (from 0) as runs count it, from 1; of a notebook, as a line of its module."""
        number = line + 1
        if judged.file.cells:
            cell = judged.file.documents.index(document) + 1
            lines = judged.cells.lines if judged.cells is not None else ()
            found = (n for n, at in enumerate(lines, start=1) if (at.cell, at.number) == (cell, line + 1))
            number = next(found, 0)
        return (judged.shift.back(number) if judged.shift is not None else number) if number else None

    def _range(self, lines: tuple[str, ...], site: Site) -> lsp.Range:
        start = self.position(lines, site.line, site.column)
        end = self.position(lines, site.end_line, site.end_column)
        if start == end:  # about the whole line
            end = self.position(lines, site.line, len(_line(lines, site.line)) + 1)
        return lsp.Range(start, end)

    def position(self, lines: tuple[str, ...], line: int, column: int) -> lsp.Position:
        """A place by line and column, from 1, in some lines."""
        text = _line(lines, line)
        before = text[: column - 1]
        while (missing := column - 1 - sum(c not in INVISIBLE for c in before)) > 0 and len(before) < len(
            text
        ):
            before = text[: len(before) + missing]
        return lsp.Position(line - 1, self.codec.client_num_units(before))


_START = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))


def _line(lines: tuple[str, ...], line: int) -> str:
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _uri(path: str) -> str:
    return from_fs_path(os.path.abspath(path)) or ""


def _on_disk(path: str) -> tuple[str, ...]:
    try:
        return split(read_bytes(path).decode("utf-8", "replace"))
    except Unreadable:
        return ()
