"""Who uses a file's definitions: the other files of its project that import them, nearest first.

A step in a helper is only right or wrong together with the loop that calls it; that loop often stands in another file.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field

from ampcheck.imports import SKIPPED, is_project, project_top, spelled
from ampcheck.project import Project
from ampcheck.source import Unreadable
from ampcheck.words import Mentioned, Words

__all__ = ["Importers", "is_test"]

TESTS = re.compile(r"(^|_)tests?([_.]|$)")

# So many importers are looked at, of so many files that mention a name of the file's in an import.
MOST = 2
MOST_CANDIDATES = 24
# ... in a project of at most so many files.
MOST_FILES = 4000


@dataclass(slots=True)
class Importers:
    """Finds importers; the words of a project's import statements are read once."""

    project: Project
    words: Words = field(default_factory=Words)
    _indices: dict[str, dict[str, Mentioned]] = field(default_factory=dict)

    def of(self, path: str) -> list[str]:
        """The files that use definitions of this one which hold part of a training step; importers of those too."""
        found: list[str] = []
        pending = [spelled(path)]
        seen = set(pending)
        while pending and len(found) < MOST:
            for importer in self._directly(pending.pop(0)):
                if importer not in seen and len(found) < MOST:
                    seen.add(importer)
                    found.append(importer)
                    pending.append(importer)
        return found

    def _directly(self, path: str) -> list[str]:
        facts = self.project.outline(path)
        names = {
            name
            for name, piece in facts.exports.items()
            if piece.is_definition and self.project.is_eventful(path, name)
        }
        if not names:
            return []
        asked = self._mentioning(path, {*names, _stem(path)})
        found = [other for other in asked if self._uses(other, path, names)]
        # ``import parts; parts.clip(...)``: the name stands in the package's __init__ only.
        passing = {_stem(other) for other in asked if other not in found and self._passes_on(other, path)}
        through = [other for other in self._mentioning(path, passing) if other not in asked]
        return found + [other for other in through if self._uses(other, path, names)]

    def _mentioning(self, path: str, words: set[str]) -> list[str]:
        """Files of the project in whose imports one of some words stands, nearest first."""
        wanted = {word.encode() for word in words}
        candidates = [
            other for other, held in self._index(path).items() if held.imports & wanted and other != path
        ]
        candidates.sort(key=lambda other: (-_shared(other, path), other))
        return candidates[:MOST_CANDIDATES]

    def inheriting(self, path: str, name: str) -> list[str]:
        """Files of the project with a class among whose bases a name stands, nearest first."""
        word = name.encode()
        found = [other for other, words in self._index(path).items() if word in words.bases]
        return sorted(found, key=lambda other: (-_shared(other, path), other))

    def _uses(self, importer: str, path: str, names: set[str]) -> bool:
        """Whether a file imports one of the names, and does more with it than pass it on."""
        facts = self.project.outline(importer)
        used = {name for piece in facts.pieces if not piece.is_import for name in piece.used}
        if facts.stars and self._gives(importer, used - facts.exports.keys(), path, names):
            return True
        for bound, dotted in facts.imports.items():
            link = self.project.find(importer, dotted) if bound in used else None
            if link is None or link.path == importer:
                continue
            if link.name and link.path == path and link.name in names:
                return True
            if not link.name and self._gives(link.path, used, path, names):
                return True
        return False

    def _gives(self, module: str, asked: set[str], path: str, names: set[str]) -> bool:
        """Whether one of the names asked of a module is one of the names of a file."""
        facts = self.project.outline(module)
        some = asked if facts.stars else asked & (facts.exports.keys() | facts.imports.keys())
        links = (self.project.named(module, name) for name in sorted(some))
        return any(link is not None and link.path == path and link.name in names for link in links)

    def _passes_on(self, importer: str, path: str) -> bool:
        facts = self.project.outline(importer)
        links = (self.project.find(importer, dotted) for dotted in (*facts.imports.values(), *facts.stars))
        return any(link is not None and link.path == path for link in links)

    def _index(self, path: str) -> dict[str, Mentioned]:
        """The words in every file's imports and class headers; tests are left out: they train nothing."""
        folder = os.path.dirname(path) or "."
        top = project_top(folder)
        if not is_project(top):  # a script somewhere in a home folder
            top = os.path.abspath(folder)
        shown = top if os.path.isabs(path) else os.path.relpath(top)
        if shown not in self._indices:
            self._indices[shown] = dict(_scan("" if shown == "." else shown, self.words))
        return self._indices[shown]


def is_test(path: str) -> bool:
    """Whether a file, by its name or by its folder's within the project, is a test: it trains nothing."""
    inside = os.path.relpath(os.path.abspath(path), project_top(os.path.dirname(path)))
    return any(TESTS.search(part) for part in inside.split(os.sep))


def _stem(path: str) -> str:
    """The name that a file is imported by: a package's own for its __init__."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(path)) if stem == "__init__" else stem


def _shared(one: str, other: str) -> int:
    """How many leading folders two files share."""
    count = 0
    for mine, its in zip(one.split(os.sep), other.split(os.sep), strict=False):
        if mine != its:
            break
        count += 1
    return count


def _scan(top: str, words: Words) -> list[tuple[str, Mentioned]]:
    found: list[tuple[str, Mentioned]] = []
    for folder, folders, files in os.walk(top or "."):
        folders[:] = sorted(
            f for f in folders if f not in SKIPPED and not f.startswith(".") and not TESTS.search(f)
        )
        if len(found) > MOST_FILES:
            break
        for name in sorted(files):
            if name.endswith(".py") and not TESTS.search(name):
                file = spelled(os.path.join(folder, name))
                with suppress(Unreadable):
                    found.append((file, words.of(file)))
    return found
