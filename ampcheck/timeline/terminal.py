"""A picture in the terminal: micro-batches side by side as far as they fit, the correct order below.

Colour follows what the gradients carry, and so does a mark in each cell, so that nothing is lost without colour.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ampcheck.events import Site
from ampcheck.notebook import Cells
from ampcheck.report.line import printable
from ampcheck.report.place import located
from ampcheck.timeline.cells import KINDS, Cell, Kind, wrapped
from ampcheck.timeline.pictures import Column, Picture

__all__ = ["brief", "legend", "picture"]

Where = Callable[[Site], str]

COLUMN, FRAME, BESIDE = 26, 4, 4
"""Characters of a column, of its frame within, and between two pictures."""
NAME = 11
"""Characters of another file's name in a cell: what the frame leaves beside a line of four digits and a mark."""

STYLES: dict[Kind, str] = {
    "true": "green",
    "scaled": "yellow",
    "sum": "bright_yellow",
    "mixed": "magenta",
    "off": "bright_magenta",
    "none": "dim",
    "other": "",
}
WRONG = "bold red"


def brief(site: Site, home: str, notebooks: Mapping[str, Cells]) -> str:
    """A place short enough for a cell: ``line 42`` in the file that the loop stands in, ``cell 3:8`` in its notebook,
    else with the other file's name, ``steps.py:42``."""
    at = located(site, notebooks)
    if site.path == home:
        return f"cell {at.cell}:{at.line}" if at.cell else f"line {at.line}"
    name = os.path.basename(site.path)
    cut = name if len(name) <= NAME else "…" + name[1 - NAME :]
    return f"{cut}:{at.line}"


def picture(shown: Picture, width: int, where: Where, *, ascii_only: bool = False) -> RenderableType:
    """The window as it is, and as it should be: beside it where that fits.  `where` writes a place."""
    mine, right = shown.columns, shown.correct
    if not right:
        missing = Text("  no correct order: only a part of a step is seen here", style="dim")
        return Group(_half("this loop", mine, width, where, ascii_only), missing)
    if (len(mine) + len(right)) * COLUMN + BESIDE <= width:
        pair = Table.grid(padding=(0, BESIDE, 0, 0))
        pair.add_row(
            _half("this loop", mine, len(mine) * COLUMN, where, ascii_only),
            _half("the correct order", right, len(right) * COLUMN, where, ascii_only),
        )
        return pair
    return Group(
        _half("this loop", mine, width, where, ascii_only),
        _half("the correct order", right, width, where, ascii_only),
    )


def legend(*, ascii_only: bool = False) -> RenderableType:
    """What the marks mean."""
    table = Table.grid(padding=(0, 2))
    for kind, (mark, meaning) in KINDS.items():
        table.add_row(Text(f"  {_plain(mark, ascii_only)}", style=STYLES[kind]), _plain(meaning, ascii_only))
    table.add_row("  (3)", "of three micro-batches, summed")
    table.add_row(Text(f"  {_plain('✗', ascii_only)}", style=WRONG), "where a rule is broken")
    return table


def _half(
    title: str, columns: Sequence[Column], width: int, where: Where, ascii_only: bool
) -> RenderableType:
    """The columns in rows of as many as fit."""
    fitting = max(width // COLUMN, 1)
    rows: list[RenderableType] = [Text(f"  {title}", style="bold")]
    for start in range(0, len(columns), fitting):
        row = columns[start : start + fitting]
        table = Table.grid()
        for _ in row:
            table.add_column(width=min(COLUMN, width))
        table.add_row(*(_column(column, where, ascii_only) for column in row))
        rows.append(table)
    return Group(*rows)


def _column(column: Column, where: Where, ascii_only: bool) -> RenderableType:
    left_out = f" (+{column.left_out})" if column.left_out else ""
    head = Text(f"  micro-batch {column.micro}{left_out}", style="dim")
    return Group(head, *(_cell(cell, where, ascii_only) for cell in column.cells))


def _cell(cell: Cell, where: Where, ascii_only: bool) -> RenderableType:
    style = STYLES[cell.kind]
    lines = [Text(_plain(line, ascii_only), style=style) for line in wrapped(cell.text, COLUMN - FRAME)]
    if cell.wrong:
        lines.insert(0, Text(_plain(f"✗ {' '.join(cell.wrong)}", ascii_only), style=WRONG))
    place = f"{_plain(where(cell.place), ascii_only)}, " if cell.place is not None else ""
    frame = box.ASCII if ascii_only else box.HEAVY if cell.wrong else box.ROUNDED
    return Panel(
        Group(*lines),
        box=frame,
        title=Text(_plain(cell.label, ascii_only), style="bold"),
        title_align="left",
        subtitle=Text(place + _plain(KINDS[cell.kind][0], ascii_only)),
        subtitle_align="right",
        border_style=WRONG if cell.wrong else style,
    )


ASCII = {
    "×": "x",
    "·": "*",
    "Σ": "sum",
    "–": "-",
    "✗": "x",
    "…": "~",
    "²": "^2",
    "³": "^3",
    "⁻¹": "^-1",
    "⁻²": "^-2",
}


def _plain(text: str, ascii_only: bool) -> str:
    text = printable(text)
    if not ascii_only:
        return text
    for fine, coarse in ASCII.items():
        text = text.replace(fine, coarse)
    return text.encode("ascii", "backslashreplace").decode()
