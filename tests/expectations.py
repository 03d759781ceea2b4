"""What the fixtures say of themselves: ``# expect: AMP101`` ends the line of each finding.

``# possible: AMP410`` ends that of a finding which is never certain, and shown only when asked for.

A fixture folder is named after a rule (``clip_before_unscale``) and holds files ``wrong*`` and ``right*``;
``constructs`` holds ``*_wrong.py`` and ``*_right.py``, and ``tour`` a project with both side by side.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["FIXTURES", "Place", "expected", "fixture_files", "is_right", "label", "possible"]

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

_CODES = r":\s*(AMP\d{3}(?:\s*,\s*AMP\d{3})*)\s*$"
_EXPECT = re.compile(rf"#\s*expect{_CODES}")
_POSSIBLE = re.compile(rf"#\s*possible{_CODES}")


class Place(NamedTuple):
    """A finding as a fixture knows it: its 1-based line and its rule's code."""

    line: int
    code: str


def fixture_files(folder: str = "") -> tuple[Path, ...]:
    """All fixtures, or those of one folder, in order of their paths."""
    return tuple(sorted((FIXTURES / folder).rglob("*.py")))


def label(path: Path) -> str:
    """How a fixture is called in a test's name: ``clip_before_unscale/wrong_trainer_class``."""
    return path.relative_to(FIXTURES).with_suffix("").as_posix()


def is_right(path: Path) -> bool:
    """Whether a fixture's name promises that nothing is wrong with it."""
    return path.stem.startswith("right") or path.stem.endswith("_right")


def expected(path: Path) -> frozenset[Place]:
    """The certain findings that a fixture's comments announce; odd encodings are read as they are."""
    return _announced(path, _EXPECT)


def possible(path: Path) -> frozenset[Place]:
    """The possible findings that a fixture's comments announce."""
    return _announced(path, _POSSIBLE)


def _announced(path: Path, comments: re.Pattern[str]) -> frozenset[Place]:
    lines = path.read_bytes().decode(errors="replace").splitlines()
    return frozenset(
        Place(number, code.strip())
        for number, line in enumerate(lines, start=1)
        if (comment := comments.search(line))
        for code in comment[1].split(",")
    )
