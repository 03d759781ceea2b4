"""What a function gives back, as far as the normalisation of its losses goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["UNTOLD", "Reduction", "Returns"]

# "mean": over the micro-batch, whatever its size; "divided": by something else too, which may be the window's length;
# "unknown": it cannot be said, or it is no loss.
Reduction = Literal["mean", "sum", "divided", "unknown"]


@dataclass(frozen=True, slots=True)
class Returns:
    """One value (`whole`), a tuple of always the same length (`items`), or named fields (`fields`, ``out.loss``)."""

    whole: Reduction = "unknown"
    items: tuple[Reduction, ...] = ()
    fields: Mapping[str, Reduction] = field(default_factory=dict)

    @property
    def tells(self) -> bool:
        """Whether anything is known."""
        return any(how != "unknown" for how in (self.whole, *self.items, *self.fields.values()))


UNTOLD = Returns()
