"""Where imported names are defined: Python's own search, on files alone, nothing imported.

A script finds its siblings first; then the folders above it are searched, up to the project's top, and ``src`` in
each of them.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache

from ampcheck.source import is_file

__all__ = [
    "SKIPPED",
    "forget",
    "is_project",
    "may_be_local",
    "module_file",
    "project_top",
    "search_folders",
    "spelled",
    "submodule",
]

# What marks the top of a project; a tree without any is searched this many folders upwards.
MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", ".hg")
HIGHEST = 6

# Folders of builds and environments, in which nothing of a project's own is looked for.
SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist", "site-packages", "venv", ".venv", "env"})

# Never looked for in a project: the standard library, and packages that ampcheck knows by name.
ELSEWHERE = frozenset(sys.stdlib_module_names - {"types", "code", "test", "profile"}) | {
    "torch",
    "numpy",
    "torchvision",
    "torchaudio",
    "apex",
}


@lru_cache(maxsize=65536)
def _is_file(path: str) -> bool:
    return is_file(path)


@lru_cache(maxsize=65536)
def _is_folder(path: str) -> bool:
    return os.path.isdir(path)


@lru_cache(maxsize=4096)
def project_top(folder: str) -> str:
    """The nearest folder above (or the folder itself) with a project's marker.

    Where there is none, it is the working directory, if the folder lies in it: what is checked from there is taken to
    be one project.  Else it is the highest folder to be searched.
    """
    here = os.path.abspath(folder)
    above = [here]
    while len(above) < HIGHEST and os.path.dirname(above[-1]) != above[-1]:
        above.append(os.path.dirname(above[-1]))
    marked = next((place for place in above if _is_marked(place)), None)
    if marked is not None:
        return marked
    return os.getcwd() if os.getcwd() in above else above[-1]


def is_project(folder: str) -> bool:
    """Whether a folder is marked as a project's top, or is the working directory."""
    return folder == os.getcwd() or _is_marked(folder)


def _is_marked(folder: str) -> bool:
    """A home folder under version control is no project."""
    return folder != os.path.expanduser("~") and any(
        os.path.exists(os.path.join(folder, marker)) for marker in MARKERS
    )


@lru_cache(maxsize=4096)
def search_folders(file: str, roots: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The folders in which absolute imports of a file are looked for, spelled as the file is: some `roots` (absolute)
    that the project names, then the nearest first.
    """
    folder = os.path.dirname(file)
    top = project_top(folder or ".")
    relative = not os.path.isabs(file)
    found = [os.path.relpath(root) if relative else root for root in roots]
    here = os.path.abspath(folder or ".")
    while True:
        shown = os.path.relpath(here) if relative else here
        shown = "" if shown == "." else shown
        found += [shown, os.path.join(shown, "src")]
        parent = os.path.dirname(here)
        if here == top or parent == here or len(found) > 2 * HIGHEST + len(roots):
            return tuple(f for f in found if _is_folder(f or "."))
        here = parent


def spelled(path: str) -> str:
    """A file's path in the one spelling that it is compared by, as short as it gets; relative paths stay relative."""
    path = os.path.normpath(path)
    return os.path.relpath(path) if path.startswith(os.pardir) else path


def module_file(folder: str, name: str) -> str | None:
    """The file of a module in a folder: ``name/__init__.py`` before ``name.py``; None where there is neither."""
    for candidate in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, f"{name}.py")):
        if _is_file(candidate):
            return spelled(candidate) if candidate.startswith(os.pardir) else candidate
    return None


def submodule(folder: str, name: str) -> str | None:
    """A package's folder by name, with or without an ``__init__.py``."""
    inner = os.path.join(folder, name)
    return inner if _is_folder(inner) else None


@lru_cache(maxsize=4096)
def may_be_local(file: str, top: str) -> bool:
    """Whether a top-level name can be a module of the file's own project."""
    if top in ELSEWHERE:
        return _is_file(os.path.join(os.path.dirname(file), f"{top}.py")) and top not in ("torch", "numpy")
    return True


def forget() -> None:
    """Ask the disk again: files come and go between two checks of one process, and so does the working directory."""
    for answers in (_is_file, _is_folder, project_top, search_folders, may_be_local):
        answers.cache_clear()
