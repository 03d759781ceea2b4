"""What the fixtures say of themselves: ``# expect: AMP101`` ends the line of each finding.

A fixture folder is named after a rule (``clip_before_unscale``) and holds files ``wrong*`` and ``right*``;
``constructs`` holds ``*_wrong.py`` and ``*_right.py``, ``tour`` a project with both side by side, and ``notebooks``
what only notebooks have.  In a notebook the comments stand in its cells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["FIXTURES", "Place", "expected", "fixture_files", "is_right", "label"]

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

_EXPECT = re.compile(r"#\s*expect:\s*(AMP\d{3}(?:\s*,\s*AMP\d{3})*)\s*$")


class Place(NamedTuple):
    """A finding as a fixture knows it: its 1-based line, its rule's code, and in a notebook the cell (from 1)."""

    line: int
    code: str
    cell: int = 0


def fixture_files(folder: str = "") -> tuple[Path, ...]:
    """All fixtures, or those of one folder, in order of their paths."""
    return tuple(sorted(p for p in (FIXTURES / folder).rglob("*") if p.suffix in (".py", ".ipynb")))


def label(path: Path) -> str:
    """How a fixture is called in a test's name: ``clip_before_unscale/wrong_trainer_class``."""
    return path.relative_to(FIXTURES).with_suffix("").as_posix()


def is_right(path: Path) -> bool:
    """Whether a fixture's name promises that nothing is wrong with it."""
    return path.stem.startswith("right") or path.stem.endswith("_right")


def expected(path: Path) -> frozenset[Place]:
    """The findings that a fixture's comments announce; odd encodings are read as they are."""
    return frozenset(
        Place(number, code.strip(), cell)
        for cell, text in _texts(path)
        for number, line in enumerate(text.splitlines(), start=1)
        if (comment := _EXPECT.search(line))
        for code in comment[1].split(",")
    )


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """A script as cell 0; a notebook's cells, counted from 1."""
    text = path.read_bytes().decode(errors="replace")
    if path.suffix != ".ipynb":
        yield 0, text
        return
    stored = json.loads(text)
    cells = stored.get("cells") or [cell for sheet in stored["worksheets"] for cell in sheet["cells"]]
    for number, cell in enumerate(cells, start=1):
        yield number, "".join(cell.get("source", cell.get("input", "")))
