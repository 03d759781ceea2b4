"""The words that a file's text holds in places that can be found without parsing it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ampcheck.source import read_bytes, stamp

__all__ = ["KeptWords", "Mentioned", "Words"]

IMPORTS = re.compile(rb"^[ \t]*(?:from|import)\b[^\n(]*(?:\([^)]*\))?", re.MULTILINE)
BASES = re.compile(rb"^class[ \t]+\w+[ \t]*\(([^)]*)\)", re.MULTILINE)
WORD = re.compile(rb"\w+")


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The words in a file's imports, and in the bases of its classes."""

    imports: frozenset[bytes]
    bases: frozenset[bytes]


class Words:
    """Reads files for their words."""

    def of(self, path: str) -> Mentioned:
        """The words of a file; raises Unreadable."""
        data = read_bytes(path)
        return Mentioned(_words(IMPORTS, data), _words(BASES, data))


@dataclass(slots=True)
class KeptWords(Words):
    """Remembers them from one check to the next, by the file's time and size: a project has thousands of files."""

    _held: dict[str, tuple[tuple[int, int], Mentioned]] = field(default_factory=dict)

    def of(self, path: str) -> Mentioned:
        """The words of a file; raises Unreadable."""
        now = stamp(path)
        known = self._held.get(path)
        if now is not None and known is not None and known[0] == now:
            return known[1]
        found = Words.of(self, path)
        if now is not None:
            self._held[path] = now, found
        return found


def _words(places: re.Pattern[bytes], data: bytes) -> frozenset[bytes]:
    return frozenset(word for place in places.findall(data) for word in WORD.findall(place))
