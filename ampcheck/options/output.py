"""How findings are shown, and what they do to the exit code."""

from __future__ import annotations

import argparse
import os

from ampcheck.options.groups import group

__all__ = ["FORMATS", "add", "add_colour", "add_file"]

# Those of `ampcheck.report`, which is not imported before there is something to show.
FORMATS = ("text", "concise", "json", "json-lines", "sarif", "github", "gitlab", "junit", "rdjson")


def add(parser: argparse.ArgumentParser) -> None:
    """The format, where it goes, and the exit code."""
    shown = group(parser, "output")
    shown.add_argument(
        "--format", choices=FORMATS, default="text", metavar="FORMAT", help=f"{_listed()} (default: text)"
    )
    add_file(shown, "--output-file", "--output", help="write the report here instead of the screen")
    shown.add_argument(
        "--statistics",
        action="store_true",
        help="count findings by rule instead of showing them (text, concise, json)",
    )
    add_colour(shown)
    code = group(parser, "exit code")
    code.add_argument(
        "--fail-on",
        choices=("error", "warning", "note", "never"),
        metavar="SEVERITY",
        help="exit 1 only for findings at least this bad: error, warning, note or never "
        "(default: that of the settings, else warning)",
    )
    code.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")


def add_file(
    parser: argparse._ActionsContainer, spelled: str, also: str, *, help: str, default: str | None = None
) -> None:
    """Where what is made goes; `also` is how the other commands spell it, which is understood and not shown."""
    for option, about in ((spelled, help), (also, argparse.SUPPRESS)):
        parser.add_argument(
            option, dest="output_file", metavar="FILE", type=_writable, default=default, help=about
        )


def add_colour(parser: argparse._ActionsContainer) -> None:
    """Whether there is colour."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        metavar="WHEN",
        default="auto",
        help="auto, always or never; auto asks the terminal, NO_COLOR and FORCE_COLOR (default: auto)",
    )


def _listed() -> str:
    return f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"


def _writable(path: str) -> str:
    """A file that can be made or replaced, as far as can be told before the work is done."""
    if not path:
        raise argparse.ArgumentTypeError("a file needs a name")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"no such folder: {folder}")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path} is a folder")
    return path
