"""What somebody meant who has misspelled a name: of a rule, a command, an option, a settings key."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["close_to", "did_you_mean"]


def close_to(text: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names that a text is like, the likest first; `cutoff` as for `difflib`: 1 is the same name."""
    from difflib import get_close_matches

    return get_close_matches(text, list(known), n=most, cutoff=cutoff)


def did_you_mean(names: Iterable[str]) -> str:
    """The question; "" where there is nothing to suggest."""
    suggested = " or ".join(names)
    return f"did you mean {suggested}?" if suggested else ""
