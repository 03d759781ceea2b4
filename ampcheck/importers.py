"""Who uses a file's definitions: the other files of its project that import them, nearest first.

A step in a helper is only right or wrong together with the loop that calls it; that loop often stands in another file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from ampcheck.imports import is_project, project_top
from ampcheck.project import Project
from ampcheck.source import Unreadable, read_bytes

__all__ = ["SKIPPED", "Importers"]

SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", ".venv", "env"})

IMPORTS = re.compile(rb"^[ \t]*(?:from|import)\b[^\n(]*(?:\([^)]*\))?", re.MULTILINE)
TESTS = re.compile(r"(^|_)tests?([_.]|$)")
WORD = re.compile(rb"\w+")

# So many importers are looked at, of so many files that mention a name of the file's in an import.
MOST = 3
MOST_CANDIDATES = 24
# ... in a project of at most so many files.
MOST_FILES = 4000


@dataclass(slots=True)
class Importers:
    """Finds importers; the words of a project's import statements are read once."""

    project: Project
    _words: dict[str, dict[str, frozenset[bytes]]] = field(default_factory=dict)

    def of(self, path: str) -> list[str]:
        """The files that use definitions of this one which hold part of a training step; importers of those too."""
        found: list[str] = []
        pending = [os.path.normpath(path)]
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
        stem = os.path.splitext(os.path.basename(path))[0]
        stem = os.path.basename(os.path.dirname(path)) if stem == "__init__" else stem
        wanted = {name.encode() for name in (*names, stem)}
        candidates = [other for other, words in self._index(path).items() if words & wanted and other != path]
        candidates.sort(key=lambda other: (-_shared(other, path), other))
        return [other for other in candidates[:MOST_CANDIDATES] if self._uses(other, path, names)]

    def _uses(self, importer: str, path: str, names: set[str]) -> bool:
        """Whether a file imports one of the names, and does more with it than pass it on."""
        facts = self.project.outline(importer)
        used = {name for piece in facts.pieces if not piece.is_import for name in piece.used}
        for bound, dotted in facts.imports.items():
            if bound in used:
                link = self.project.find(importer, dotted)
                if (
                    link is not None
                    and link.path == path
                    and (link.name in names or (not link.name and used & names))
                ):
                    return True
        if not facts.stars:
            return False
        return any(
            link is not None and link.path == path and link.name in names
            for link in (self.project.named(importer, name) for name in sorted(used & names - facts.exports.keys()))
        )

    def _index(self, path: str) -> dict[str, frozenset[bytes]]:
        """The words in the import statements of every file of a project; tests are left out: they train nothing."""
        folder = os.path.dirname(path) or "."
        top = project_top(folder)
        if not is_project(top):  # a script somewhere in a home folder
            top = os.path.abspath(folder)
        shown = top if os.path.isabs(path) else os.path.relpath(top)
        if shown not in self._words:
            self._words[shown] = dict(_scan("" if shown == "." else shown))
        return self._words[shown]


def _shared(one: str, other: str) -> int:
    """How many leading folders two files share."""
    count = 0
    for mine, its in zip(one.split(os.sep), other.split(os.sep), strict=False):
        if mine != its:
            break
        count += 1
    return count


def _scan(top: str) -> list[tuple[str, frozenset[bytes]]]:
    found: list[tuple[str, frozenset[bytes]]] = []
    for folder, folders, files in os.walk(top or "."):
        folders[:] = sorted(
            f for f in folders if f not in SKIPPED and not f.startswith(".") and not TESTS.search(f)
        )
        if len(found) > MOST_FILES:
            break
        for name in sorted(files):
            if name.endswith(".py") and not TESTS.search(name):
                file = os.path.normpath(os.path.join(folder, name))
                try:
                    data = read_bytes(file)
                except Unreadable:
                    continue
                words = frozenset(word for line in IMPORTS.findall(data) for word in WORD.findall(line))
                found.append((file, words))
    return found
