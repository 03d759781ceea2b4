"""Where a finding stands, for people and programs: by path and line, in a notebook by cell and line."""

from __future__ import annotations

import linecache
from collections.abc import Mapping

from ampcheck.events import Site
from ampcheck.notebook import Cells, CellSite
from ampcheck.report.line import printable

__all__ = ["located", "place", "source_line"]

WIDEST = 72  # of a line of source; a longer one is cut, its number is there to look it up


def located(site: Site, notebooks: Mapping[str, Cells]) -> CellSite:
    """The site within its cell; in a file that is no notebook, cell 0 and the site as it is."""
    cells = notebooks.get(site.path)
    if cells is not None:
        return cells.place(site)
    return CellSite(0, site.line, site.column, site.end_line, site.end_column)


def place(site: Site, notebooks: Mapping[str, Cells], *, column: bool = True) -> str:
    """``train.py:42:9``; in a notebook ``train.ipynb:cell 3:42:9``, as other linters write it."""
    at = located(site, notebooks)
    cell = f"cell {at.cell}:" if at.cell else ""
    return f"{site.path}:{cell}{at.line}" + (f":{at.column}" if column else "")


def source_line(site: Site, notebooks: Mapping[str, Cells]) -> str:
    """The first line of a statement; "" where the file cannot be read (any more)."""
    cells = notebooks.get(site.path)
    line = cells.text(site.line) if cells is not None else linecache.getline(site.path, site.line)
    first = printable(line.strip())
    if not first:
        return ""
    cut = first if len(first) <= WIDEST else first[: WIDEST - 2].rstrip() + " …"
    return cut if site.end_line <= site.line or cut.endswith("…") else f"{cut} …"
