"""The command line: `ampcheck COMMAND`; each is a module of `ampcheck.commands`, its options of `ampcheck.options`.

Exit codes: 0 clean (notes alone too), 1 errors or warnings, 2 something asked for could not be done, 130
interrupted.  Only a command that really runs is imported: `import ampcheck.cli` costs no more than argparse.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from contextvars import copy_context
from importlib import import_module
from typing import NoReturn

from ampcheck import __version__
from ampcheck.meant import close_to, did_you_mean
from ampcheck.options import (
    audit,
    completion,
    configuration,
    fixing,
    groups,
    known,
    listing,
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
    "replay": "Lint, then confirm each finding on tensors (needs torch).",
    "explain": "Show the page of a rule.",
    "rules": "List the rules.",
    "audit": "Write the review of a project's training loops, a page of HTML.",
    "timeline": "Draw each training loop's window next to the correct order.",
    "server": "Serve an editor: the language server (needs pygls).",
    "completion": "Print what a shell needs to complete commands and options.",
    "new": "Start a rule, in a checkout of ampcheck.",
}
GROUPED = ("check", "replay", "audit", "timeline")
"""The commands whose options stand under headings."""
USAGE_ERROR = 2
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")  # an ASCII terminal gets escapes, not a traceback
    # Programs and traces are many small objects that live until their file is done: looked through less often.
    gc.set_threshold(50_000, 20, 20)
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
    options = parser().parse_args(_with_command(arguments))
    from ampcheck import registry
    from ampcheck.commands.exits import CannotDoError, refuse
    from ampcheck.report.line import colour
    from ampcheck.settings.errors import SettingsError

    try:
        run = import_module(f"ampcheck.commands.{options.command}").run
        context = copy_context()  # what a command holds as unsaved text, or as colour, ends with it
        context.run(colour, vars(options).get("color", "auto"))
        code: int = context.run(run, options)
    except (CannotDoError, SettingsError, registry.RegistryError, registry.UnknownRuleError) as error:
        return refuse(str(error))
    return code


def _with_command(arguments: list[str]) -> list[str]:
    """The arguments with a command in front, `check` where there is none; one that is misspelled is refused."""
    first, *others = arguments or [""]
    if first in (*COMMANDS, "-h", "--help", "--version"):
        return arguments
    if not first.startswith("-") and not os.path.exists(first):  # a path of that name is checked
        if first == "help":
            return [*others[:1], "--help"]
        if meant := close_to(first, COMMANDS, cutoff=0.7):
            parser().error(f"no command or path is called {first}: {did_you_mean([f'ampcheck {meant[0]}'])}")
    return ["check", *arguments]


class _Formatter(argparse.HelpFormatter):
    """argparse's, with room for the longest option, and commands as a plain list."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        return "".join(map(self._format_action, action._get_subactions()))


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
        if not argument.startswith("-"):
            self.error(f"one argument too many: {argument!r}")
        name = argument.partition("=")[0]
        suggested = did_you_mean(close_to(name, self._option_string_actions, cutoff=0.7))
        self.error(f"unknown option {name}" + (f": {suggested}" if suggested else ""))


def parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    top = _Parser(
        prog="ampcheck",
        usage="ampcheck COMMAND [OPTIONS] [ARGUMENTS ...]\n"
        "       ampcheck [OPTIONS] [PATHS ...]     (as `ampcheck check`)",
        formatter_class=_Formatter,
        description="Lint PyTorch training loops, and confirm each finding on tensors.",
        epilog="`ampcheck COMMAND --help` tells the options of a command. Exit code: 0 clean or notes only, "
        "1 errors or warnings, 2 something asked for could not be done.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"ampcheck {__version__}")
    subparsers = top.add_subparsers(
        title="commands", prog="ampcheck", dest="command", metavar="COMMAND", required=True
    )
    by_name = {
        name: subparsers.add_parser(
            name, help=about, description=about, formatter_class=_Formatter, allow_abbrev=False
        )
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
        audit.add_device(by_name[name])
    listing.add(by_name["rules"])
    output.add_colour(groups.group(by_name["timeline"], "output"))
    for name in ("explain", "rules"):
        output.add_colour(by_name[name])
    for name in GROUPED:
        by_name[name].usage = f"ampcheck {name} [OPTIONS] [PATHS ...]"
        groups.in_order(by_name[name])
    serving.add(by_name["server"])
    by_name["explain"].add_argument("rule", metavar="CODE|NAME", help="the rule, by its code or name")
    completion.add(by_name["completion"], top)
    scaffold.add(by_name["new"])
    return top
