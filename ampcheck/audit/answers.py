"""What a reviewer is told: an answer to a question, with the lines that it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ampcheck.events import Site
from ampcheck.finding import Finding

__all__ = ["Answer", "Evidence", "Standing", "bearing", "distinct"]

MOST_LINES = 8

Standing = Literal["good", "bad", "open", "none"]
"""Right; wrong; not to be settled from the code; the question does not arise."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that shows something, None where it is a whole file that says so, and what it shows."""

    place: Site | None
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`said` in a few words, `text` in a sentence, the lines, and the codes of the findings that bear on it."""

    question: str
    standing: Standing
    said: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    codes: tuple[str, ...] = ()


def bearing(findings: Iterable[Finding], prefixes: tuple[str, ...]) -> tuple[str, ...]:
    """The rules broken that bear on a question; a note is advice and contradicts nothing."""
    those = (f for f in findings if f.code.startswith(prefixes) and f.severity != "note")
    return tuple(dict.fromkeys(f.code for f in those))


def distinct(found: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The first lines of what was found, each once."""
    return tuple(dict.fromkeys(found))[:MOST_LINES]
