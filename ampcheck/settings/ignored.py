"""What git ignores: `.gitignore` files from a repository's top down, and its `.git/info/exclude`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

__all__ = ["Ignored", "patterns_of", "relative"]

Layer = tuple[str, "GitIgnoreSpec"]
"""A folder, and patterns relative to it."""


@dataclass(slots=True)
class Ignored:
    """Answers for the files of any repository; each folder's patterns are read once."""

    _layers: dict[str, tuple[Layer, ...]] = field(default_factory=dict)

    def __call__(self, path: str, *, is_folder: bool) -> bool:
        """Whether git ignores a path by its own name; a folder above it that is ignored is another question."""
        path = os.path.abspath(path)
        for folder, spec in reversed(self._of(os.path.dirname(path))):
            verdict = spec.check_file(relative(path, folder) + ("/" if is_folder else "")).include
            if verdict is not None:
                return verdict
        return False

    def anywhere(self, folder: str) -> bool:
        """Whether a folder is ignored, itself or as part of one above it."""
        folder = os.path.abspath(folder)
        above = os.path.dirname(folder)
        return bool(self._of(above)) and (self(folder, is_folder=True) or self.anywhere(above))

    def _of(self, folder: str) -> tuple[Layer, ...]:
        """The patterns that hold in a folder, the nearest last; none outside of a repository."""
        if folder not in self._layers:
            git, above = os.path.join(folder, ".git"), os.path.dirname(folder)
            if os.path.exists(git):
                found = _layer(folder, os.path.join(git, "info", "exclude"))
            else:
                found = self._of(above) if above != folder else ()
            if found or os.path.exists(git) or self._is_inside(folder):
                found += _layer(folder, os.path.join(folder, ".gitignore"))
            self._layers[folder] = found
        return self._layers[folder]

    def _is_inside(self, folder: str) -> bool:
        above = os.path.dirname(folder)
        return os.path.exists(os.path.join(folder, ".git")) or (above != folder and self._is_inside(above))


def _layer(folder: str, file: str) -> tuple[Layer, ...]:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            text = lines.read()
    except OSError:
        return ()
    wanted = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return ((folder, patterns_of(wanted)),) if wanted else ()


def patterns_of(lines: Iterable[str]) -> GitIgnoreSpec:
    """Patterns as in a `.gitignore`; like git, what is no pattern is passed over."""
    from pathspec import GitIgnoreSpec  # 50 ms, where there is something to match

    return GitIgnoreSpec(pattern for line in lines for pattern in _patterns(line))


def _patterns(line: str) -> Sequence[GitIgnoreSpecPattern]:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines([line]).patterns
    except ValueError:
        return ()


def relative(path: str, folder: str) -> str:
    """A path inside a folder, as patterns are matched with it."""
    return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
