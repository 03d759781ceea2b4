"""What a reviewer is told: an answer to a question, with the lines that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ampcheck.events import Site

__all__ = ["Answer", "Evidence", "Standing"]

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
