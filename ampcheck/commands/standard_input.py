"""Code that comes from standard input: it is checked as if it stood in the file that `--stdin-filename` names."""

from __future__ import annotations

import io
import linecache
import os
import sys
import tokenize
from argparse import Namespace
from collections.abc import Sequence

from ampcheck.commands.exits import CannotDoError

__all__ = ["STDIN", "paths_to_check"]

STDIN = "-"


def paths_to_check(options: Namespace) -> Sequence[str]:
    """The paths asked for; for `-` the name that standard input goes by, whose contents it then is to the end
    of the command.

    Raises `CannotDoError` where the two do not go together.
    """
    name: str | None = vars(options).get("stdin_filename")
    if STDIN not in options.paths:
        if name is not None:
            raise CannotDoError(
                "--stdin-filename goes with the path `-`: standard input is not read without it"
            )
        return options.paths  # type: ignore[no-any-return]
    if options.paths != [STDIN]:
        raise CannotDoError("the path `-` (standard input) cannot be checked together with other paths")
    if vars(options).get("since") is not None:
        raise CannotDoError("--since compares files on disk: it does not go with the path `-`")
    name = name or STDIN
    if os.path.isdir(name):
        raise CannotDoError(
            f"--stdin-filename {name}: is a folder; it must name the file that the text is of"
        )
    data = sys.stdin.buffer.read()
    _show_as(name, data)
    from ampcheck.source import hold_unsaved

    hold_unsaved({os.path.abspath(name): data})
    return [name]


def _show_as(name: str, data: bytes) -> None:
    """Have reports find its lines: they ask `linecache`, which takes an entry without a time for lasting."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
    lines = list(io.TextIOWrapper(io.BytesIO(data), encoding, errors="replace"))
    linecache.cache[name] = (len(data), None, lines, name)
