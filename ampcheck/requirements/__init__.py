"""Which versions of torch a project says that it works with."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ampcheck.requirements.declared import Declared, Release

__all__ = ["Declared", "Requirements", "all_before", "some_before"]

ROOT = frozenset({".git", ".hg"})


@dataclass(slots=True)
class Requirements:
    """Declarations, looked up once for each folder: those of the nearest one that says anything about torch."""

    _found: dict[Path, tuple[Declared, ...]] = field(default_factory=dict)

    def of(self, path: str) -> tuple[Declared, ...]:
        """What the project of a file declares; nothing where it says nothing about torch."""
        with suppress(OSError):
            return self._in(Path(path).resolve().parent)
        return ()

    def _in(self, folder: Path) -> tuple[Declared, ...]:
        if folder not in self._found:
            from ampcheck.requirements.reading import declared_in  # parsers of four formats, seldom needed

            found = tuple(declared_in(folder))
            ends = folder.parent == folder or any((folder / mark).exists() for mark in ROOT)
            self._found[folder] = found if found or ends else self._in(folder.parent)
        return self._found[folder]


def all_before(declared: Iterable[Declared], release: Release) -> bool:
    """Whether a project keeps to releases before one."""
    found = [one.newest < release for one in declared]
    return bool(found) and all(found)


def some_before(declared: Iterable[Declared], release: Release) -> Declared | None:
    """A declaration that says that releases before one will do."""
    return next((one for one in declared if one.oldest is not None and one.oldest < release), None)
