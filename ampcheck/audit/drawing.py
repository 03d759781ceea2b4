"""The geometry of a picture: columns, cells and lines of text with their places, in pixels, for a template to write."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ampcheck.events import Site
from ampcheck.timeline.cells import KINDS, Cell, wrapped
from ampcheck.timeline.pictures import Column

__all__ = ["Drawing", "draw"]

WIDTH, GAP, PAD = 172, 8, 6
HEAD, LINE, TAG, BETWEEN = 34, 16, 20, 8
LABEL, TEXT, MOST_LINES = 18, 21, 4
"""Characters of a line in bold and in plain type, which fit into a cell in every usual font, and lines of each."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text: its baseline, and whether it is a cell's "label", its "text", its "place" or its "unit"."""

    x: int
    y: int
    text: str
    role: str


@dataclass(frozen=True, slots=True)
class Box:
    """A cell with its lines; `tag` names the rules that it breaks, at the top of it."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    lines: tuple[Line, ...]
    title: str
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """A column: one micro-batch."""

    x: int
    width: int
    height: int
    head: str
    sub: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A whole picture."""

    width: int
    height: int
    lanes: tuple[Lane, ...]


def draw(columns: Sequence[Column], spelled: Callable[[Site], str]) -> Drawing:
    """The picture of some columns; `spelled` writes a place."""
    several = len({column.epoch for column in columns}) > 1
    lanes = []
    for number, column in enumerate(columns):
        x = number * (WIDTH + GAP)
        boxes, y = [], HEAD + BETWEEN
        for cell in column.cells:
            box = _box(cell, x + PAD, y, spelled)
            boxes.append(box)
            y += box.height + BETWEEN
        left_out = f"after {column.left_out} not shown" if column.left_out else ""
        sub = left_out or (f"epoch {column.epoch}" if several else "")
        lanes.append(Lane(x, WIDTH, y, f"micro-batch {column.micro}", sub, tuple(boxes)))
    height = max((lane.height for lane in lanes), default=0)
    level = tuple(Lane(lane.x, lane.width, height, lane.head, lane.sub, lane.boxes) for lane in lanes)
    return Drawing(max(len(lanes) * (WIDTH + GAP) - GAP, 0), height, level)


def _box(cell: Cell, x: int, y: int, spelled: Callable[[Site], str]) -> Box:
    width = WIDTH - 2 * PAD
    top = y + (TAG if cell.wrong else 0)
    lines: list[Line] = []
    at = top + LINE + 2
    label = textwrap.wrap(cell.label, LABEL, max_lines=MOST_LINES, placeholder=" …")
    for role, parts in (("label", label), ("text", wrapped(cell.text, TEXT, MOST_LINES))):
        for part in parts:
            lines.append(Line(x + 8, at, part, role))
            at += LINE
    place = spelled(cell.place) if cell.place is not None else ""
    place = place if len(place) <= 16 else f"…{place[-15:]}"
    mark = KINDS[cell.kind][0]
    if place or cell.kind != "other":
        lines.append(Line(x + 8, at, place, "place"))
        if cell.kind != "other":
            lines.append(Line(x + width - 8, at, mark, "unit"))
        at += LINE
    title = "; ".join([cell.label, cell.text, *(f"if {test}" for test in cell.tests)])
    tag = f"✗ {' '.join(cell.wrong)}" if cell.wrong else ""
    return Box(x, y, width, at - y - LINE + 9, cell.kind, tuple(lines), title, tag)
