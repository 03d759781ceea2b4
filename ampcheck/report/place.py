"""Where a finding stands, for people and programs: by path and line, in a notebook by cell and line."""

from __future__ import annotations

from collections.abc import Mapping

from ampcheck.events import Site
from ampcheck.notebook import Cells, CellSite

__all__ = ["located", "place"]


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
