"""Places and lines of source as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ampcheck.check import Analysed
from ampcheck.events import Site
from ampcheck.notebook import Cells
from ampcheck.report.line import printable
from ampcheck.report.place import located, place, source_line

__all__ = ["Places"]


class Places:
    """How to write places of some files, notebooks among them."""

    def __init__(
        self, analysed: Iterable[Analysed] = (), notebooks: Mapping[str, Cells] | None = None
    ) -> None:
        self.notebooks = dict(notebooks or {})
        self.notebooks |= {a.source.path: a.source.cells for a in analysed if a.source.cells is not None}

    def full(self, site: Site) -> str:
        """``train.py:42``; in a notebook ``train.ipynb:cell 3:42``."""
        return printable(place(site, self.notebooks, column=False))

    def short(self, site: Site, home: str) -> str:
        """``line 42`` in the file that is spoken of, else with the path."""
        if site.path != home:
            return self.full(site)
        at = located(site, self.notebooks)
        return f"cell {at.cell}, line {at.line}" if at.cell else f"line {at.line}"

    def text(self, site: Site) -> str:
        """The first line of what stands there; "" where it cannot be read."""
        return source_line(site, self.notebooks)
