"""Which settings a file has: those of the nearest settings file above it, and what the command line says besides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ampcheck.settings.choosing import Options, chosen
from ampcheck.settings.definition import Settings
from ampcheck.settings.ignored import patterns_of, relative
from ampcheck.settings.reading import PYPROJECT, STANDALONE, holds_settings, read

__all__ = ["Nearest"]


@dataclass(slots=True)
class Nearest:
    """Finds settings and remembers them.

    `config` is the one file to use for everything, `isolated` says to use none.  The rest is the command line's: a
    `select` replaces what files say of rules, `extend_select`, `ignore` and `exclude` (from the working directory) add
    to it; `given` are other keys, by field.
    """

    config: str | None = None
    isolated: bool = False
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    _by_folder: dict[str, Settings] = field(default_factory=dict)
    _by_file: dict[str, Settings] = field(default_factory=dict)
    _options: dict[tuple[Settings, tuple[str, ...]], Options] = field(default_factory=dict)

    def of(self, path: str) -> Settings:
        """The settings of a file or folder; raises `SettingsError`."""
        if self.isolated:
            return self._read("")
        if self.config is not None:
            return self._read(self.config)
        path = os.path.abspath(path)
        return self._of_folder(path if os.path.isdir(path) else os.path.dirname(path))

    def options(self, path: str) -> Options:
        """What to report of a file; raises `SettingsError`."""
        settings = self.of(path)
        ignored = tuple(
            selector
            for pattern, selectors in settings.per_file_ignores
            if _matches(pattern, path, settings.root)
            for selector in selectors
        )
        key = settings, ignored
        if key not in self._options:
            self._options[key] = chosen(settings, ignored)
        return self._options[key]

    def _of_folder(self, folder: str) -> Settings:
        if folder not in self._by_folder:
            above = os.path.dirname(folder)
            for name in (STANDALONE, PYPROJECT):
                file = os.path.join(folder, name)
                if os.path.isfile(file) and holds_settings(file):
                    self._by_folder[folder] = self._read(file)
                    break
            else:
                self._by_folder[folder] = self._of_folder(above) if above != folder else self._read("")
        return self._by_folder[folder]

    def _read(self, file: str) -> Settings:
        """A file's settings ("" is none: the defaults), with the command line's over them."""
        if file not in self._by_file:
            settings = read(_shown(file)) if file else Settings(root=os.getcwd())
            changes = dict(self.given)
            if self.select:
                changes |= {"select": self.select, "extend_select": self.extend_select, "ignore": self.ignore}
            else:
                changes["extend_select"] = (*settings.extend_select, *self.extend_select)
                changes["ignore"] = (*settings.ignore, *self.ignore)
            self._by_file[file] = replace(settings, **changes)
        return self._by_file[file]


def _shown(file: str) -> str:
    """A path as people know it: from the working directory if it lies in it."""
    here = os.path.relpath(file)
    return file if here.startswith(os.pardir) else here


def _matches(pattern: str, path: str, root: str) -> bool:
    """Whether a pattern, read as in a `.gitignore` in `root`, matches a file."""
    inside = relative(path, root)
    return not inside.startswith("../") and patterns_of([pattern]).match_file(inside)
