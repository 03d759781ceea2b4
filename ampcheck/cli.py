"""The command line: `ampcheck check|replay|explain|rules|new`.

Exit codes: 0 clean (notes alone too), 1 errors or warnings, 2 something asked for could not be done, 130
interrupted.  Only a command that really runs is imported: `import ampcheck.cli` costs no more than argparse.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ampcheck import __version__

__all__ = ["main"]

COMMANDS = {
    "check": "Lint files and folders (the default command).",
    "replay": "Lint, then confirm each finding on tensors; needs torch.",
    "explain": "Show the page of a rule.",
    "rules": "List the rules.",
    "new": "Start a rule: its file and its fixtures, in a checkout of ampcheck.",
}
USAGE_ERROR = 2
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # an ASCII terminal gets escapes, not a traceback
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in (*COMMANDS, "-h", "--help", "--version"):
        arguments = ["check", *arguments]
    options = _parser().parse_args(arguments)
    from ampcheck import commands, registry

    try:
        code: int = getattr(commands, options.command)(options)
    except (registry.RegistryError, registry.UnknownRuleError) as error:
        return commands.refuse(str(error))
    return code


class _Parser(argparse.ArgumentParser):
    """argparse, with one line for a mistake."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see `{self.prog} --help`)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ampcheck",
        description="Lint PyTorch training loops, and confirm each finding on tensors.",
        epilog="`ampcheck PATHS` is `ampcheck check PATHS`. Exit code: 0 clean or notes only, 1 errors or "
        "warnings, 2 something asked for could not be done.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ampcheck {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    by_name = {
        name: subparsers.add_parser(name, help=about, description=about, allow_abbrev=False)
        for name, about in COMMANDS.items()
    }
    _add_check_options(by_name["check"])
    _add_check_options(by_name["replay"])
    by_name["replay"].add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where the tensors live (default: auto)",
    )
    by_name["explain"].add_argument("rule", metavar="CODE|NAME")
    _add_new_options(by_name["new"])
    return parser


def _add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATHS", nargs="*", default=["."], help="files and folders (default: .)"
    )
    for option, about in (
        ("--select", "only these rules: codes, names or prefixes such as AMP1, with commas between"),
        ("--ignore", "all but these rules"),
    ):
        parser.add_argument(option, metavar="RULES", type=_codes, action="extend", default=[], help=about)
    parser.add_argument("--possible", action="store_true", help="also show what only may be a fault")
    parser.add_argument("--format", choices=("text", "concise", "json"), default="text", help="default: text")
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")


def _add_new_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the fault found, such as clip-before-unscale")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--code", help="its code, such as AMP124")
    place.add_argument(
        "--series",
        type=int,
        metavar="N",
        choices=range(1, 10),
        default=1,
        help="or: the next free code of AMPNxx (default: 1)",
    )
    parser.add_argument("--severity", choices=("error", "warning", "note"), default="error")


def _codes(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]
