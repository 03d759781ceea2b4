"""One declaration of torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Declared", "Release"]

Release = tuple[int, ...]
"""A version as its numbers: (2, 3) comes before (2, 3, 1)."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The oldest and the newest release that a declaration admits, and where it stands.

    `oldest` is None where any version will do: a bare ``torch`` says that nobody has thought of old ones.
    """

    text: str
    path: str
    oldest: Release | None
    newest: Release
