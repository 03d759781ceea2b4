"""Where a place stands in its file as it lies on disk, for readers who know nothing of notebooks' cells."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from ampcheck.events import Site
from ampcheck.notebook import Cells
from ampcheck.report.notebook_lines import lines_of
from ampcheck.report.place import located

__all__ = ["Region", "cell_prefix", "region", "relative"]


class Region(NamedTuple):
    """Lines and columns from 1; the end is exclusive of its column.  Columns are 0 where only lines are known."""

    line: int
    column: int
    end_line: int
    end_column: int


def region(site: Site, notebooks: Mapping[str, Cells]) -> Region:
    """A place by lines and columns; in a notebook by the lines of its JSON, 1 where they cannot be told."""
    at = located(site, notebooks)
    if not at.cell:
        return Region(at.line, at.column, at.end_line, at.end_column)
    lines = lines_of(site.path)
    first = lines.get((at.cell, at.line), 1)
    return Region(first, 0, max(first, lines.get((at.cell, at.end_line), first)), 0)


def cell_prefix(site: Site, notebooks: Mapping[str, Cells]) -> str:
    """``cell 3, line 8: `` for a message that the place alone does not explain; "" outside of notebooks."""
    at = located(site, notebooks)
    return f"cell {at.cell}, line {at.line}: " if at.cell else ""


def relative(path: str, base: str) -> str:
    """A path as seen from a folder, with slashes; one that lies elsewhere stays as it is."""
    try:
        inside = os.path.relpath(path, base)
    except ValueError:  # another drive
        return path
    if inside.split(os.sep)[0] == os.pardir:
        return os.path.abspath(path).replace(os.sep, "/")
    return inside.replace(os.sep, "/")
