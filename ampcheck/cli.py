"""The command line: `ampcheck COMMAND`; each is a module of `ampcheck.commands`, its options of `ampcheck.options`.

Exit codes: 0 clean (notes alone too), 1 errors or warnings, 2 something asked for could not be done, 130
interrupted.  Only a command that really runs is imported: `import ampcheck.cli` costs no more than argparse.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextvars import copy_context
from importlib import import_module
from typing import NoReturn

from ampcheck import __version__
from ampcheck.options import (
    audit,
    completion,
    configuration,
    fixing,
    known,
    output,
    scaffold,
    scope,
    selection,
    serving,
    timeline,
)

__all__ = ["main", "parser"]

COMMANDS = {
    "check": "Lint files and folders (the default command).",
    "replay": "Lint, then confirm each finding on tensors; needs torch.",
    "audit": "Write the review of a project's training loops: one page of HTML.",
    "timeline": "Draw the window of each training loop, next to the correct order.",
    "server": "Serve an editor: the language server, on standard input and output; needs pygls.",
    "explain": "Show the page of a rule.",
    "rules": "List the rules.",
    "completion": "Print the script by which a shell completes ampcheck's options.",
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
    options = parser().parse_args(arguments)
    from ampcheck import registry
    from ampcheck.commands.exits import CannotDoError, refuse
    from ampcheck.settings.errors import SettingsError

    try:
        run = import_module(f"ampcheck.commands.{options.command}").run
        code: int = copy_context().run(run, options)  # what a command holds as unsaved text ends with it
    except (CannotDoError, SettingsError, registry.RegistryError, registry.UnknownRuleError) as error:
        return refuse(str(error))
    return code


class _Parser(argparse.ArgumentParser):
    """argparse, with one line for a mistake."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see `{self.prog} --help`)\n")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Refuse what is left here: argparse would let the top parser do it, whose help has no options."""
        options, left = super().parse_known_args(args, namespace)
        if left:
            self._refuse_argument(left[0])
        return options, left

    def _refuse_argument(self, argument: str) -> NoReturn:
        from difflib import get_close_matches

        if not argument.startswith("-"):
            self.error(f"one argument too many: {argument!r}")
        name = argument.partition("=")[0]
        close = get_close_matches(name, self._option_string_actions, n=1, cutoff=0.7)
        self.error(f"unknown option {name}" + (f": did you mean {close[0]}?" if close else ""))


def parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    top = _Parser(
        prog="ampcheck",
        description="Lint PyTorch training loops, and confirm each finding on tensors.",
        epilog="`ampcheck PATHS` is `ampcheck check PATHS`. Exit code: 0 clean or notes only, 1 errors or "
        "warnings, 2 something asked for could not be done.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"ampcheck {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    by_name = {
        name: subparsers.add_parser(name, help=about, description=about, allow_abbrev=False)
        for name, about in COMMANDS.items()
    }
    for name in ("check", "replay"):
        selection.add(by_name[name])
        scope.add(by_name[name])
        known.add(by_name[name])
        output.add(by_name[name])
    known.add_writing(by_name["check"])
    configuration.add(by_name["check"])
    fixing.add(by_name["check"])
    for name in ("audit", "timeline"):
        selection.add(by_name[name])
        audit.add_replay(by_name[name])
    audit.add(by_name["audit"])
    timeline.add(by_name["timeline"])
    for name in ("replay", "audit", "timeline"):
        by_name[name].add_argument(
            "--device",
            choices=("auto", "cpu", "cuda"),
            help="where the tensors of a replay live (default: that of the settings, else auto)",
        )
    serving.add(by_name["server"])
    by_name["explain"].add_argument("rule", metavar="CODE|NAME", help="the rule, by its code or name")
    completion.add(by_name["completion"], top)
    scaffold.add(by_name["new"])
    return top
