"""`--show-settings` and `--show-files`: what would be checked, and with which settings."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from ampcheck.commands.configured import settings_of
from ampcheck.commands.exits import CLEAN
from ampcheck.report.line import plain
from ampcheck.settings import Settings, python_files
from ampcheck.settings.definition import keys

__all__ = ["show_files", "show_settings"]


def show_files(options: Namespace) -> int:
    """One file a line."""
    for path in python_files(options.paths, settings_of(options)):
        print(plain(((path, ""),)))
    return CLEAN


def show_settings(options: Namespace) -> int:
    """The settings of each path, as a file could hold them; the same ones once."""
    nearest = settings_of(options)
    shown = dict.fromkeys(nearest.of(path) for path in options.paths)
    for settings in shown:
        for line in _lines(settings):
            print(plain(((line, ""),)))
    return CLEAN


def _lines(settings: Settings) -> Iterator[str]:
    where = settings.path or "no settings file"
    yield f"# {where}; patterns and folders from {os.path.relpath(settings.root)}"
    for key in keys():
        if getattr(settings, key.field) == "":
            yield f"# {key.name}: none"
            continue
        yield f"{key.name} = {_toml(getattr(settings, key.field), is_table='by' in key.kind)}"


def _toml(value: Any, *, is_table: bool = False) -> str:
    if is_table:
        pairs = ", ".join(f"{json.dumps(name)} = {_toml(inner)}" for name, inner in value)
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
