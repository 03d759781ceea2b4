"""The files to check: those named, and those under the folders named that nothing excludes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ampcheck.imports import SKIPPED
from ampcheck.settings.definition import Settings
from ampcheck.settings.errors import SettingsError
from ampcheck.settings.ignored import Ignored, patterns_of, relative
from ampcheck.settings.nearest import Nearest

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["python_files"]


def python_files(paths: Sequence[str], settings: Nearest | None = None) -> Iterator[str]:
    """The files named, and the Python files and notebooks under the folders named, each once.

    What is named is checked, also where it is excluded or ignored by git (with all that is in it), unless the settings
    say `force-exclude`.  Without settings nothing is excluded but the usual folders of builds and environments.
    """
    seen: set[str] = set()
    ignored = Ignored()
    for path in paths:
        walk = _Walk(path, settings, ignored)
        for file in walk.files():
            place = os.path.abspath(file)
            if place not in seen:
                seen.add(place)
                yield file


class _Walk:
    """One path of the command line."""

    def __init__(self, path: str, settings: Nearest | None, ignored: Ignored) -> None:
        self.path, self.settings, self.ignored = path, settings, ignored
        self.is_excluded = self._excludes(path)
        self.is_ignored = settings is not None and os.path.isdir(path) and ignored.anywhere(path)

    def files(self) -> Iterator[str]:
        """The files to check under (or at) the path."""
        if self.is_excluded and self._of(self.path).force_exclude:
            return
        if not os.path.isdir(self.path):
            yield self.path
            return
        for folder, folders, files in os.walk(self.path):
            folders[:] = sorted(
                name
                for name in folders
                if not _is_usual(name) and self._is_wanted(folder, name, is_folder=True)
            )
            for name in sorted(files):
                if name.endswith((".py", ".ipynb")) and self._is_wanted(folder, name, is_folder=False):
                    yield os.path.normpath(os.path.join(folder, name))

    def _is_wanted(self, folder: str, name: str, *, is_folder: bool) -> bool:
        if self.settings is None:
            return True
        path = os.path.join(folder, name)
        settings = self._of(folder)
        if not self.is_excluded and _is_excluded(path, settings, self.settings, is_folder):
            return False
        if self.is_ignored or not settings.respect_gitignore:
            return True
        return not self.ignored(path, is_folder=is_folder)

    def _excludes(self, path: str) -> bool:
        """Whether a path of the command line is excluded, as one of the usual folders or by a pattern."""
        if self.settings is None:
            return False
        settings = self._of(os.path.dirname(os.path.abspath(path)))
        inside = relative(path, settings.root).split("/")
        is_folder = os.path.isdir(path)
        folders = inside if is_folder else inside[:-1]
        usual = os.pardir not in inside and any(map(_is_usual, folders))
        return usual or _is_excluded(path, settings, self.settings, is_folder)

    def _of(self, folder: str) -> Settings:
        """The settings of a folder; where its file is at fault, that is said when its files are checked."""
        assert self.settings is not None
        try:
            return self.settings.of(folder)
        except SettingsError:
            return Settings(root=os.getcwd())


def _is_usual(name: str) -> bool:
    """Whether a folder is one of those that hold no code of the project."""
    return name in SKIPPED or (name.startswith(".") and name not in (os.curdir, os.pardir))


def _is_excluded(path: str, settings: Settings, nearest: Nearest, is_folder: bool) -> bool:
    for patterns, root in ((settings.exclude, settings.root), (nearest.exclude, os.getcwd())):
        inside = relative(path, root) if patterns else os.curdir
        outside = inside == os.curdir or inside.startswith("../")
        if not outside and _spec(patterns).match_file(inside + ("/" if is_folder else "")):
            return True
    return False


@lru_cache(maxsize=256)
def _spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    return patterns_of(patterns)
