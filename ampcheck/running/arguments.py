"""The arguments of a call."""

from __future__ import annotations

from dataclasses import dataclass

from ampcheck.running import values as v

__all__ = ["Arguments"]


@dataclass(slots=True)
class Arguments:
    """The arguments of a call, with the two ways people pass most of them."""

    args: list[v.Value]
    keywords: dict[str, v.Value]

    def get(self, position: int, *names: str) -> v.Value | None:
        """An argument by position or by one of its names."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[position] if position < len(self.args) else None

    @property
    def all(self) -> list[v.Value]:
        """All arguments."""
        return [*self.args, *self.keywords.values()]
