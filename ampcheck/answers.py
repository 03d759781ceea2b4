"""Remembered answers to questions that may lead back to themselves: imports go in circles."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Answers"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class Answers(Generic[K, V]):
    """Answers by question.  Asked again while it is being answered, a question adds nothing (None).

    What was answered with the help of such a None is only kept for good where the circle began: there it is complete.
    """

    _known: dict[K, V | None] = field(default_factory=dict)
    _open: dict[K, int] = field(default_factory=dict)
    _lowest: int = 1 << 30
    _drafts: dict[K, tuple[V | None, int]] = field(default_factory=dict)

    def get(self, question: K, answer: Callable[[], V | None]) -> V | None:
        """The answer, asked for where nobody knows it yet."""
        if question in self._known:
            return self._known[question]
        if question in self._drafts:
            found, lowest = self._drafts[question]
            self._lowest = min(self._lowest, lowest)
            return found
        if question in self._open:
            self._lowest = min(self._lowest, self._open[question])
            return None
        depth = self._open[question] = len(self._open)
        outer, self._lowest = self._lowest, 1 << 30
        lowest = depth  # where it fails, nothing that hung on it counts
        try:
            found = answer()
            lowest = self._lowest
        finally:
            del self._open[question]
            self._lowest = min(outer, lowest) if lowest < depth else outer
            # Whoever waited for this question waits on for the one that it waits for; where it waits for none, the
            # circle is closed, and they are to be answered completely now.
            for draft in [q for q, (_, since) in self._drafts.items() if since >= depth]:
                if lowest >= depth:
                    del self._drafts[draft]
                else:
                    self._drafts[draft] = self._drafts[draft][0], lowest
        if lowest >= depth:
            self._known[question] = found
        else:
            self._drafts[question] = found, lowest
        return found
