"""Answers that are kept for as long as somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Kept"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class Kept(Generic[K, V]):
    """Answers by question; those that nobody asked for since the last `forget_unused` are forgotten by the next."""

    _held: dict[K, V] = field(default_factory=dict)
    _used: set[K] = field(default_factory=set)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The answer, made where there is none yet."""
        self._used.add(key)
        if key not in self._held:
            self._held[key] = make()
        return self._held[key]

    def forget_unused(self) -> None:
        """Keep what was asked for since this was last called."""
        self._held = {key: value for key, value in self._held.items() if key in self._used}
        self._used = set()
