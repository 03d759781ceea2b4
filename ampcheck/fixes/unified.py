"""A fixed file against the old one, as a unified difference that ``git apply`` takes; of a notebook, cell by cell."""

from __future__ import annotations

import difflib
import io
import json
import tokenize
from collections.abc import Iterator

from ampcheck.source import NOTEBOOK

__all__ = ["difference"]


def difference(path: str, old: bytes, new: bytes) -> Iterator[str]:
    """The lines of ``diff -u``, each with its end; the line ends of the file itself are kept."""
    before, after = _texts(path, old), _texts(path, new)
    for name, text in after.items():
        found = difflib.unified_diff(_lines(before[name]), _lines(text), f"a/{name}", f"b/{name}")
        for line in found:
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _texts(path: str, data: bytes) -> dict[str, str]:
    """A file's text by its name; of a notebook, that of each cell."""
    if not path.endswith(NOTEBOOK):
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return {path: data.decode(encoding)}
    notebook = json.loads(data)
    sheets = notebook.get("worksheets") or [notebook]
    cells = [cell for sheet in sheets for cell in sheet["cells"]]
    sources = ("".join(cell.get("source", cell.get("input", ""))) for cell in cells)
    return {f"{path}:cell {number}": source for number, source in enumerate(sources, 1)}


def _lines(text: str) -> list[str]:
    """The lines with their ends, LF or CRLF."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])
