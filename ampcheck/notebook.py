"""Notebooks: their code cells as one module, and the way back from its lines to cells.

Cells come in document order.  Each must be Python by itself, as Jupyter runs it; one that is not is left out and
reported, the others are still analysed.  Read with plain `json`: nbformat 4, and 3 with its worksheets.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ampcheck.events import Site
from ampcheck.magics import CodeLine, without_magics
from ampcheck.nesting import TOO_DEEP, deepest

__all__ = [
    "CellLine",
    "CellSite",
    "Cells",
    "NotANotebook",
    "Notebook",
    "Omission",
    "cells_of",
    "read_notebook",
]


class NotANotebook(Exception):
    """The file holds no Python notebook; the message says what it holds instead."""


@dataclass(frozen=True, slots=True)
class CellSite:
    """A place in a notebook: the cell (from 1, all kinds of cells count), lines and columns within it (from 1)."""

    cell: int
    line: int
    column: int
    end_line: int
    end_column: int


class CellLine(NamedTuple):
    """Where a line of the module comes from: the cell, the line within it, the columns that were cut off in front,
    and the text as it stands in the notebook."""

    cell: int
    number: int
    shift: int
    text: str


@dataclass(frozen=True, slots=True)
class Cells:
    """Where each line of a notebook's module comes from."""

    lines: tuple[CellLine, ...]

    def place(self, site: Site) -> CellSite:
        """A place in the module as one in a cell."""
        first, last = self._at(site.line), self._at(site.end_line)
        return CellSite(
            first.cell, first.number, site.column + first.shift, last.number, site.end_column + last.shift
        )

    def text(self, line: int) -> str:
        """A line of the module (from 1) as it stands in its cell, a magic included."""
        return self._at(line).text

    def _at(self, line: int) -> CellLine:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else CellLine(1, 1, 0, "")


@dataclass(frozen=True, slots=True)
class Omission:
    """A cell that is left out since it is no Python: why, on which line of the module, and whether the words of a
    training step stand in it, so that something may be missed."""

    message: str
    line: int
    matters: bool


@dataclass(frozen=True, slots=True)
class Notebook:
    """The module made of a notebook's code cells."""

    text: str
    cells: Cells
    omitted: tuple[Omission, ...] = ()


def read_notebook(data: bytes, *, matters: Callable[[str], bool]) -> Notebook:
    """The module of a notebook; empty unless some code cell `matters` (outputs and prose are no code).

    Raises NotANotebook where the bytes are no JSON, hold no cells, or cells of another language.
    """
    sources = tuple(_sources(_parsed(data)))
    if not any(matters(text) for _, text in sources):
        return Notebook("", Cells(()))
    code: list[str] = []
    places: list[CellLine] = []
    omitted: list[Omission] = []
    for cell, text in sources:
        lines = without_magics(text)
        error = _syntax_error("\n".join(line.code for line in lines))
        if error is not None:
            at, why = error
            said = f"not Python: cell {cell}, line {at}: {why}"
            omitted.append(Omission(said, len(code) + at, matters(text)))
            lines = [CodeLine("", line.original) for line in lines]
        code += [line.code for line in lines]
        places += [CellLine(cell, n, line.shift, line.original) for n, line in enumerate(lines, start=1)]
    return Notebook("".join(f"{line}\n" for line in code), Cells(tuple(places)), tuple(omitted))


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise NotANotebook(f"not a notebook: no JSON: line {error.lineno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise NotANotebook(f"not a notebook: cannot be decoded: {error}; save it as UTF-8") from None
    except ValueError as error:  # an integer of thousands of digits
        raise NotANotebook(f"not a notebook: no JSON: {error}") from None
    except RecursionError:
        raise NotANotebook("not a notebook: nested too deeply") from None


def _sources(notebook: Any) -> Iterator[tuple[int, str]]:
    """The number and text of each Python cell."""
    if not isinstance(notebook, dict):
        raise NotANotebook("not a notebook: its JSON is no object")
    language = _language(notebook)
    if language not in ("", "python", "ipython"):
        raise NotANotebook(f"a notebook in {language}, not in Python")
    for number, cell in enumerate(cells_of(notebook), start=1):
        if not isinstance(cell, dict):
            raise NotANotebook(f"not a notebook: cell {number} is no object")
        if cell.get("cell_type") != "code" or _cell_language(cell) not in ("", "python"):
            continue
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list) and all(isinstance(part, str) for part in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise NotANotebook(f"not a notebook: the source of cell {number} is no text")
        # A lone surrogate, which JSON can spell and Python cannot read.
        text = source.encode("utf-8", "replace").decode()
        yield number, text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "")


def cells_of(notebook: dict[str, Any]) -> list[Any]:
    """The cells of every kind, in order; raises NotANotebook where there are none."""
    cells = notebook.get("cells")
    sheets = notebook.get("worksheets")
    if cells is None and isinstance(sheets, list):  # nbformat 3
        parts = [sheet.get("cells") if isinstance(sheet, dict) else None for sheet in sheets]
        cells = [cell for part in parts if isinstance(part, list) for cell in part]
    if not isinstance(cells, list):
        raise NotANotebook("not a notebook: it has no cells")
    return cells


def _language(notebook: dict[str, Any]) -> str:
    """The kernel's language in small letters, "" where the notebook does not say."""
    metadata = _object(notebook.get("metadata"))
    named = _object(metadata.get("language_info")).get("name") or _object(metadata.get("kernelspec")).get(
        "language"
    )
    return named.lower() if isinstance(named, str) else ""


def _cell_language(cell: dict[str, Any]) -> str:
    """A cell's own language, which nbformat 3 and some editors store."""
    stored = _object(_object(cell.get("metadata")).get("vscode")).get("languageId") or cell.get("language")
    return stored.lower() if isinstance(stored, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _syntax_error(text: str) -> tuple[int, str] | None:
    """The line (from 1) and reason why a cell is not Python."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        if _is_newer_python(text):
            return None
        last = text.count("\n") + 1
        return min(max(error.lineno or 1, 1), last), error.msg
    except ValueError as error:  # null bytes
        return 1, str(error)
    except (RecursionError, MemoryError):
        return 1, "nested too deeply to be parsed"
    return None


def _is_newer_python(text: str) -> bool:
    """Whether libcst reads what this interpreter refuses: the notebook's own kernel may be newer."""
    if deepest(text) > TOO_DEEP or "\0" in text:
        return False
    import libcst

    try:
        libcst.parse_module(text)
    except (libcst.ParserSyntaxError, libcst.CSTValidationError, ValueError, RecursionError):
        return False
    return True
