"""On which line of a notebook's JSON each line of its cells stands: what a diff shows, and services annotate.

The standard decoder is told to remember where strings stood; its slow, readable twin lets it.
"""

from __future__ import annotations

import json
import json.decoder
import json.scanner
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ampcheck.notebook import NotANotebook, cells_of
from ampcheck.source import Unreadable, read_bytes

__all__ = ["lines_of"]


def lines_of(path: str) -> Mapping[tuple[int, int], int]:
    """The line in the file of each (cell, line), all from 1; empty where the file cannot be read any more."""
    try:
        return _lines(read_bytes(path).decode("utf-8-sig"))
    except (Unreadable, NotANotebook, ValueError, RecursionError):
        return {}


@lru_cache(maxsize=8)  # by its text: a report asks for every place of every finding
def _lines(text: str) -> Mapping[tuple[int, int], int]:
    lines: dict[tuple[int, int], int] = {}
    for place, line in _numbered(json.loads(text, cls=_Decoder)):
        lines.setdefault(place, line)
    return lines


def _numbered(notebook: Any) -> Iterator[tuple[tuple[int, int], int]]:
    """The lines of each cell, piece by piece; one that is made of several pieces is named once for each."""
    if not isinstance(notebook, dict):
        return
    for number, cell in enumerate(cells_of(notebook), start=1):
        source = cell.get("source", cell.get("input", "")) if isinstance(cell, dict) else ""
        line = 1
        for part in source if isinstance(source, list) else [source]:
            if not isinstance(part, _Text):
                continue
            ends = part.replace("\r\n", "\n").replace("\r", "\n").count("\n")
            for index in range(ends + (not part.endswith(("\n", "\r")))):
                yield (number, line + index), part.line
            line += ends


class _Text(str):
    """A string that knows the line it stood on."""

    line = 1


class _Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__()
        self._ends: list[int] | None = None
        self.parse_string = self._string
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]

    def _string(self, text: str, start: int, strict: bool = True) -> tuple[_Text, int]:
        if self._ends is None:
            self._ends = [index for index, character in enumerate(text) if character == "\n"]
        value, end = json.decoder.scanstring(text, start, strict)  # type: ignore[attr-defined]
        placed = _Text(value)
        placed.line = bisect_left(self._ends, start) + 1
        return placed, end
