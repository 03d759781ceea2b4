"""Files as they stand in an editor: texts and notebooks, by the path that a check knows them by."""

from __future__ import annotations

import json
import os
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

__all__ = ["ENDS", "Cell", "Document", "OpenFile", "notebook", "shown", "split", "text"]

ENDS = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Document:
    """What the client knows by one URI: a file's text, or that of a notebook's cell, by lines without their ends."""

    uri: str
    version: int | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A notebook's cell: its document, and whether it holds code (in which language) or prose."""

    document: Document
    code: bool
    language: str = "python"


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file: its path as a check shows it, its bytes as they would be saved, and its documents in order.

    `cells` is set where the documents are a notebook's cells.
    """

    path: str
    data: bytes
    documents: tuple[Document, ...]
    cells: bool = False


def text(path: str, uri: str, version: int | None, content: str) -> OpenFile:
    """A file of text."""
    return OpenFile(path, _saved(content), (Document(uri, version, split(content)),))


def notebook(path: str, cells: Iterable[tuple[Cell, str]], metadata: dict[str, Any]) -> OpenFile:
    """A notebook of cells with their texts."""
    cells = list(cells)
    content = {
        "cells": [
            {
                "cell_type": "code" if cell.code else "markdown",
                "metadata": {"vscode": {"languageId": cell.language}} if cell.code else {},
                "source": source,
            }
            for cell, source in cells
        ],
        "metadata": metadata,
        "nbformat": 4,
    }
    data = json.dumps(content).encode()
    return OpenFile(path, data, tuple(cell.document for cell, _ in cells), cells=True)


def shown(path: str) -> str:
    """A path as a check from the working directory shows it: relative where the file lies below."""
    path = os.path.normpath(path)
    below = os.path.join(os.getcwd(), "")
    return path.removeprefix(below) if path.startswith(below) else path


def split(content: str) -> tuple[str, ...]:
    """The lines, as the protocol counts them: only CR, LF and CRLF end one."""
    return tuple(ENDS.split(content))


def _saved(content: str) -> bytes:
    """The bytes that an editor would save; what the declared encoding cannot hold becomes a question mark."""
    utf8 = content.encode("utf-8", "replace")
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(utf8).readline)
        return utf8 if encoding.startswith("utf-8") else content.encode(encoding, "replace")
    except (SyntaxError, LookupError):
        return utf8  # the check will say what is wrong with it
