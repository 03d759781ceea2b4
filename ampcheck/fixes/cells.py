"""New sources for a notebook's cells: only those strings change in its JSON, everything else stays byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["with_sources"]

_SPACE = " \t\n\r"
_VALUE = json.JSONDecoder(strict=False)


class Span(NamedTuple):
    """Where a value stands in the JSON text."""

    start: int
    stop: int


def with_sources(data: bytes, change: Callable[[int, str], str]) -> bytes:
    """The notebook with ``change(cell, source)`` for each cell (from 1, all kinds of cells count)."""
    encoding = json.detect_encoding(data)
    text = data.decode(encoding, "surrogatepass")
    parts: list[str] = []
    done = 0
    for number, span in enumerate(_sources(text), start=1):
        if span is None:
            continue
        raw = text[span.start : span.stop]
        stored = _VALUE.decode(raw)
        source = "".join(stored) if isinstance(stored, list) else stored
        new = change(number, source)
        if new != source:
            parts += [text[done : span.start], _written(raw, new)]
            done = span.stop
    return "".join([*parts, text[done:]]).encode(encoding, "surrogatepass")


def _written(raw: str, new: str) -> str:
    """A source in the form that the old one has: a string, or a list of lines with the white space between them."""
    plain = raw.isascii() and "\\u" in raw
    if not raw.startswith("["):
        return json.dumps(new, ensure_ascii=plain)
    items = list(_items(raw, 0))
    if not items:
        return json.dumps(new.splitlines(keepends=True), ensure_ascii=plain)
    before = raw[1 : items[0].start]
    between = raw[items[0].stop : items[1].start] if len(items) > 1 else f",{before}"
    known = {json.loads(raw[i.start : i.stop], strict=False): raw[i.start : i.stop] for i in items}
    lines = [known.get(line) or json.dumps(line, ensure_ascii=plain) for line in _lines(new)]
    return f"[{before}{between.join(lines)}{raw[items[-1].stop :]}"


def _lines(text: str) -> list[str]:
    """The lines with their ends, as notebooks store them: only LF ends one."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


# --- places in JSON -----------------------------------------------------------------------------------------------


def _sources(text: str) -> Iterator[Span | None]:
    """The place of each cell's source, None for a cell without one; the cells of nbformat 3 lie in worksheets."""
    members = dict(_members(text, _skip(text, 0)))
    if "cells" in members:
        yield from _of_cells(text, members["cells"])
        return
    for sheet in _items(text, members["worksheets"].start):
        yield from _of_cells(text, dict(_members(text, sheet.start))["cells"])


def _of_cells(text: str, cells: Span) -> Iterator[Span | None]:
    for cell in _items(text, cells.start):
        members = dict(_members(text, cell.start))
        yield members.get("source", members.get("input"))


def _members(text: str, at: int) -> Iterator[tuple[str, Span]]:
    """The members of the object that begins at a place."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _VALUE.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        stop = _VALUE.raw_decode(text, start)[1]
        yield key, Span(start, stop)
        at = _behind(text, stop)


def _items(text: str, at: int) -> Iterator[Span]:
    """The items of the list that begins at a place."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        stop = _VALUE.raw_decode(text, at)[1]
        yield Span(at, stop)
        at = _behind(text, stop)


def _behind(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
