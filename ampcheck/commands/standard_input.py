"""Code that comes from standard input: it is checked as if it stood in the file that `--stdin-filename` names."""

from __future__ import annotations

import linecache
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ampcheck.commands.exits import CannotDoError

__all__ = ["STDIN", "paths_to_check"]

STDIN = "-"


@contextmanager
def paths_to_check(options: Namespace) -> Iterator[Sequence[str]]:
    """The paths asked for; for `-` the name that standard input goes by, whose contents it is while this lasts.

    Raises `CannotDoError` where the two do not go together.
    """
    name: str | None = options.stdin_filename
    if STDIN not in options.paths:
        if name is not None:
            raise CannotDoError(
                "--stdin-filename goes with the path `-`: standard input is not read without it"
            )
        yield options.paths
        return
    if options.paths != [STDIN]:
        raise CannotDoError("the path `-` (standard input) cannot be checked together with other paths")
    if options.since is not None:
        raise CannotDoError("--since compares files on disk: it does not go with the path `-`")
    name = name or STDIN
    if os.path.isdir(name):
        raise CannotDoError(
            f"--stdin-filename {name}: is a folder; it must name the file that the text is of"
        )
    data = sys.stdin.buffer.read()
    _show_as(name, data)
    from ampcheck.source import unsaved

    with unsaved({os.path.abspath(name): data}):
        yield [name]


def _show_as(name: str, data: bytes) -> None:
    """Have reports find its lines: they ask `linecache`, which takes an entry without a time for lasting."""
    lines = (
        data.decode("utf-8-sig", "replace")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
        .splitlines(keepends=True)
    )
    linecache.cache[name] = (len(data), None, lines, name)
