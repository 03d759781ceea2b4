"""A fixed file against the old one, as a unified difference; of a notebook, cell by cell."""

from __future__ import annotations

import difflib
import io
import json
import tokenize
from collections.abc import Iterator

from ampcheck.report.line import Line
from ampcheck.source import NOTEBOOK

__all__ = ["difference"]

STYLES = {"+": "good", "-": "error", "@": "code"}


def difference(path: str, old: bytes, new: bytes) -> Iterator[Line]:
    """The lines of ``diff -u``, styled; a file's line ends are not shown."""
    before, after = _texts(path, old), _texts(path, new)
    for name, text in after.items():
        lines = difflib.unified_diff(
            before[name].splitlines(), text.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
        )
        for line in lines:
            yield ((line, STYLES.get(line[:1], "")),)


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
