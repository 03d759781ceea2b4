"""`ampcheck completion`: the script by which a shell completes commands, options, files and the names of rules."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Iterator

from ampcheck import registry
from ampcheck.commands.exits import CLEAN

__all__ = ["run"]

PATHS = {"PATHS", "FILE"}
RULES = {"RULES", "CODE|NAME"}


def run(options: Namespace) -> int:
    """Print the script of a shell."""
    import shtab

    for action in _actions(options.top):
        if action.metavar in PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # what shtab looks for
        elif action.metavar in RULES:
            action.choices = [spelled for rule in registry.load() for spelled in (rule.code, rule.name)]
    print(shtab.complete(options.top, options.shell))
    return CLEAN


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        else:
            yield action
