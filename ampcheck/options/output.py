"""How findings are shown, and what they do to the exit code."""

from __future__ import annotations

import argparse
import os

__all__ = ["FORMATS", "add"]

# Those of `ampcheck.report`, which is not imported before there is something to show.
FORMATS = ("text", "concise", "json", "json-lines", "sarif", "github", "gitlab", "junit", "rdjson")


def add(parser: argparse.ArgumentParser) -> None:
    """The format, where it goes, and the exit code."""
    parser.add_argument(
        "--format", choices=FORMATS, default="text", metavar="FORMAT", help=f"{_listed()} (default: text)"
    )
    parser.add_argument(
        "--output-file", metavar="FILE", type=_writable, help="write the report here instead of the screen"
    )
    parser.add_argument(
        "--statistics",
        action="store_true",
        help="count findings by rule instead of showing them (text, concise, json)",
    )
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "note", "never"),
        metavar="SEVERITY",
        help="exit 1 only for findings at least this bad: error, warning, note or never "
        "(default: that of the settings, else warning)",
    )
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")


def _listed() -> str:
    return f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"


def _writable(path: str) -> str:
    """A file that can be made or replaced, as far as can be told before the work is done."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"no such folder: {folder}")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path} is a folder")
    return path
