"""The three lists of mutants, kept by hand in `lists/*.toml`: what a change of a correct loop comes to.

``flagged.toml``     a finding of error or warning, which its oracle confirms: the code
``benign.toml``      the replay is equal to the reference: why
``legitimate.toml``  another program that somebody may want: why

Each is a table of loops, and each loop a table from a change to its code or its reason.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

__all__ = ["Key", "benign", "flagged", "legitimate"]

Key = tuple[str, str]
"""A mutant's loop and change."""

_LISTS = Path(__file__).parent / "lists"


def flagged() -> dict[Key, str]:
    """The code that each flagged mutant is reported with; it may have others besides."""
    return _read("flagged")


def benign() -> dict[Key, str]:
    """Why each benign mutant changes nothing."""
    return _read("benign")


def legitimate() -> dict[Key, str]:
    """What each legitimate mutant is good for."""
    return _read("legitimate")


def _read(name: str) -> dict[Key, str]:
    path = _LISTS / f"{name}.toml"
    tables: dict[str, dict[str, str]] = tomllib.loads(path.read_text()) if path.exists() else {}
    return {(loop, change): text for loop, table in tables.items() for change, text in table.items()}
