"""The page of the command line, made from its parser: `python -m ampcheck.manual` writes `docs/cli.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ampcheck.cli import COMMANDS, GROUPED, parser

__all__ = ["manual"]

MADE_BY = "<!-- Made by `python -m ampcheck.manual` from the parser: edit `ampcheck/options/`. -->"
EXIT_CODES = """\
`ampcheck PATHS` is `ampcheck check PATHS`; a folder that has the name of a command is written `./rules`.

| exit code | meaning |
|---|---|
| 0 | nothing at or above `--fail-on` was found, or `--exit-zero` was given |
| 1 | something was; a finding that the replay refuted never counts, an inconclusive one does |
| 2 | something asked for could not be done: a bad option, a path that is missing, a replay without torch |
| 130 | interrupted |
"""


def manual() -> str:
    """The page, in Markdown."""
    top = parser()
    commands = _subparsers(top)
    parts = [MADE_BY, "# The command line", top.description or "", EXIT_CODES.strip()]
    for name, command in commands.items():
        parts += [f"## ampcheck {name}", COMMANDS[name], f"```text\n{_usage(name, command)}\n```"]
        rows = dict(_rows(command))
        known = dict(_rows(commands["check"])).items() & rows.items() if name != "check" else set()
        if known:
            shared = [argument for argument in rows if (argument, rows[argument]) in known]
            parts.append(f"As `ampcheck check`: {', '.join(shared)}.")
            rows = {argument: about for argument, about in rows.items() if argument not in shared}
        parts += _tables(command, rows) if name in GROUPED else [_table("argument", rows)] if rows else []
        if command.epilog:
            parts.append(command.epilog)
    return "\n\n".join(parts) + "\n"


def _tables(command: argparse.ArgumentParser, rows: Mapping[str, str]) -> Iterator[str]:
    """A table for each group of arguments, in the order of `--help`."""
    for group in command._action_groups:
        names = {_written(action) for action in group._group_actions}
        here = {argument: about for argument, about in rows.items() if argument in names}
        if here:
            yield _table("argument" if group is command._positionals else group.title or "", here)


def _table(heading: str, rows: Mapping[str, str]) -> str:
    lines = [f"| {argument} | {about} |" for argument, about in rows.items()]
    return "\n".join([f"| {heading} | meaning |", "|---|---|", *lines])


def _subparsers(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    action = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def _arguments(command: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The positional arguments, then the options."""
    actions = [a for a in command._actions if a.help != argparse.SUPPRESS and a.dest != "help"]
    return iter(sorted(actions, key=lambda action: bool(action.option_strings)))


def _usage(name: str, command: argparse.ArgumentParser) -> str:
    positional = [_operand(a) for a in _arguments(command) if not a.option_strings]
    options = ["[OPTIONS]"] if any(a.option_strings for a in _arguments(command)) else []
    return " ".join(["ampcheck", name, *options, *positional])


def _operand(action: argparse.Action) -> str:
    spelled = _value(action)
    return f"[{spelled} ...]" if action.nargs == "*" else spelled


def _value(action: argparse.Action) -> str:
    """What stands for an argument's value; "" for a flag."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _rows(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Each argument as it is written, and what it does."""
    for action in _arguments(command):
        about = command._get_formatter()._expand_help(action) if action.help else ""
        yield _written(action), _cell([about])


def _written(action: argparse.Action) -> str:
    return f"`{_cell([', '.join(action.option_strings), _value(action)])}`"


def _cell(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part).replace("|", "\\|")


def main() -> int:
    """Write `docs/cli.md` of the checkout that this module runs from."""
    docs = Path(__file__).resolve().parents[1] / "docs"
    if not docs.is_dir():
        print("ampcheck.manual: run this from a checkout of ampcheck", file=sys.stderr)
        return 2
    (docs / "cli.md").write_text(manual(), "utf-8")
    print("docs/cli.md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
